# SPDX-License-Identifier: Apache-2.0
"""A broker that is gone: every command whose numbers lack what it holds says so. The name server remembers it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from embedded_proxy import second_broker_of
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
NUMBERS = (
    "lag billing",
    "lag --all",
    "topic list",
    "topic show orders",
    "group list",
    "group show billing",
    "dead-letters list",
)


@pytest.fixture(scope="module", params=["lost", "left"])
def gone(request: pytest.FixtureRequest) -> Iterator[tuple[CommandLine, str]]:
    """broker-b was lost, or took its leave, when the group had consumed all messages of both."""
    with EmbeddedRocketMQ(clock="system") as mq:
        line = CommandLine(mq.namesrv_addr)
        with second_broker_of(mq):
            line.ok("topic create orders --queues 1")
            consumer = mq.push_consumer("billing", consume_from_where=FIRST, persist_consumer_offset_interval_ms=100)
            consumer.subscribe("orders")
            got: list[bytes] = []
            consumer.on_message(lambda message: got.append(message.body))
            with consumer, mq.producer("ops") as producer:
                for _ in range(8):
                    producer.send(rmq.Message("orders", b"x"))
                mq.wait_until(lambda: len(got) == 8)
            if request.param == "lost":
                mq.faults.close_connection(RequestCode.UNREGISTER_BROKER)
        with mq.admin() as admin:
            mq.wait_until(lambda: "broker-b" not in admin.cluster_info().broker_addr_table)
        yield line, request.param


def test_the_list_of_brokers_has_it(gone):
    line, how = gone
    ended = line.run("broker list --json")
    assert ended.code == (1 if how == "lost" else 0)
    there, absent = ended.json_lines if len(ended.out.splitlines()) > 1 else ended.json
    assert (there["broker_name"], there["is_up"], there["gone_for_ms"]) == ("broker-a", True, None)
    assert (absent["broker_name"], absent["is_up"], absent["has_left"]) == ("broker-b", False, how == "left")
    assert absent["gone_for_ms"] >= 0
    assert absent["address"] in ended.err


@pytest.mark.parametrize("command", NUMBERS)
def test_a_number_that_lacks_it_has_a_note(gone, command):
    line, how = gone
    ended = line.ok(command)
    assert "broker-b" in ended.err
    assert ("was lost" if how == "lost" else "took its leave") in ended.err


def test_a_lag_with_a_limit_fails_when_one_was_lost(gone):
    line, how = gone
    for command in ("lag billing --fail-over 10", "lag --all --fail-over 10"):
        assert line.run(command).code == (1 if how == "lost" else 0)


def test_the_doctor_calls_no_group_well_while_one_was_lost(gone):
    line, how = gone
    consumer = rmq.PushConsumer("billing", namesrv_addr=line.namesrv_addr)
    consumer.subscribe("orders")
    consumer.on_message(lambda message: None)
    with consumer:
        ended = line.run("group doctor billing --watch-for 0s --json")
    found = ended.json
    assert (found["verdict"], ended.code) == (("a broker is lost", 1) if how == "lost" else ("nothing waits", 0)), found
    assert "broker-b" in (found["sentence"] if how == "lost" else " ".join(found["not_learned"]))


def test_a_command_that_names_it_says_where_it_was(gone):
    line, _ = gone
    assert "broker 'broker-b' is gone (it was at 127.0.0.1:" in line.run("broker show broker-b").err
