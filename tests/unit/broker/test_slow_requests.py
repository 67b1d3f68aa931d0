# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sprocketmq.broker.observe.slow_requests import SlowRequests
from sprocketmq.wire.frames.command import Command

PEER: Any = SimpleNamespace(remote_address="127.0.0.1:5000")


def test_a_slow_request_is_named_with_code_client_and_time(caplog):
    SlowRequests(100).note(PEER, Command(11, body=b"123"), 0.25)
    (record,) = caplog.records
    assert record.getMessage() == "PULL_MESSAGE 11 of 127.0.0.1:5000 took 250 ms"
    assert (record.__dict__["request_code"], record.__dict__["took_ms"], record.__dict__["body_bytes"]) == (
        11,
        250.0,
        3,
    )


def test_an_unknown_code_is_named_by_its_number(caplog):
    SlowRequests(100).note(PEER, Command(31_999), 0.1)
    assert caplog.messages == ["request 31999 of 127.0.0.1:5000 took 100 ms"]


def test_one_line_a_minute_for_each_kind_of_request(caplog):
    slow = SlowRequests(100)
    for number in range(25):
        slow.note(PEER, Command(10 + number % 2), 0.1)
    assert len(caplog.messages) == 2
    assert slow.count == 25


@pytest.mark.parametrize(
    ("code", "fields", "named"),
    [
        (310, {"a": "writers", "b": "orders", "i": "KEYS\x01private"}, {"topic": "orders"}),
        (
            11,
            {"topic": "orders", "consumerGroup": "readers", "subscription": "a"},
            {"topic": "orders", "group": "readers"},
        ),
        (314, {"srcGroup": "a", "destGroup": "b"}, {"group": "a, b"}),
        (50, {"accessKey": "Account7", "secretKey": "a secret"}, {}),
        (310, {"b": "x" * 1_000}, {"topic": "x" * 300 + "... (1000 characters)"}),
        (31_999, {"topic": "orders"}, {}),
    ],
)
def test_topic_and_group_are_told_and_no_other_field(caplog, code, fields, named):
    SlowRequests(100).note(PEER, Command(code, ext_fields=fields), 0.1)
    told = caplog.records[0].__dict__
    assert {name: told[name] for name in ("topic", "group") if name in told} == named
    assert not any("secret" in str(value) or "private" in str(value) for value in told.values())
