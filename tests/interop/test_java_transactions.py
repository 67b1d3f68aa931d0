# SPDX-License-Identifier: Apache-2.0
"""Java's TransactionMQProducer at a broker of ours that asks often and gives up soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.child import poll_until
from interop.peers import JavaProgram, SprocketServer
from interop.remoting import has_route
from interop.send_ledger import bodies_of

TOPIC, GIVEN_UP = "transfers", "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture
def impatient(java_peers: None) -> Iterator[SprocketServer]:
    settings = {"transactionCheckInterval": 500, "transactionTimeOut": 1_000, "transactionCheckMax": 3}
    with SprocketServer(**settings) as server:
        server.create_topic(TOPIC, 1)
        yield server


def test_a_transaction_is_rolled_back_by_the_answer_to_a_check_or_given_up_after_the_last_one(impatient, java_version):
    options = {"namesrv": impatient.namesrv_addr, "topic": TOPIC, "mode": "transaction", "count": 3, "stay": True}
    with JavaProgram(java_version, "Producer", group="sure", check="rollback", **options) as producer:
        (asked,) = producer.read_events("checked", 1, 60)
        assert (asked["body"], asked["topic"], asked["properties"]["TRANSACTION_CHECK_TIMES"]) == (
            "number 2",
            TOPIC,
            "1",
        )
    with JavaProgram(java_version, "Producer", group="unsure", check="unknown", **options) as producer:
        times = [line["properties"]["TRANSACTION_CHECK_TIMES"] for line in producer.read_events("checked", 3, 60)]
        assert times == ["1", "2", "3"]
        poll_until(lambda: has_route(impatient.namesrv_addr, GIVEN_UP), "the half is given up")
    assert bodies_of(impatient.namesrv_addr, GIVEN_UP) == ["number 2"]
    assert bodies_of(impatient.namesrv_addr, TOPIC) == ["number 0", "number 0"], "what was committed at once"
