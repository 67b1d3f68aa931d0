# SPDX-License-Identifier: Apache-2.0
"""What a peer's texts may take of a broker's memory: what is remembered is short, and what waits is counted as what it is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from golden.pipeline.scenes import pull, send, text_frame
from inproc.broker.written_to import Side
from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.net.connection import bytes_while_waiting
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.requests.readers import READERS

KIB = 1024
LONG = "x" * (20 * KIB)


@pytest.fixture
def side() -> Iterator[Side]:
    with closing(asyncio.new_event_loop()) as loop:
        yield Side(loop)


def pull_frame(*, typed: bool = True, language: str = "JAVA", **changed: str) -> bytes:
    """A pull that waits; only one whose header begins with the code is read by its reader."""
    header = json.loads(pull(sysFlag="6", **changed)[8:]) | {"language": language}
    if not typed:
        header["code"] = header.pop("code")
    return text_frame(header)


def remembered(found: dict[Any, Any]) -> int:
    """Characters of the keys."""
    return sum(len(part) for key in found for part in ((key,) if isinstance(key, str) else key))


# -- what is remembered ----------------------------------------------------------------------------------------------------------


def test_a_long_header_is_refused_before_anything_of_it_is_read(side):
    read: list[int] = []
    name, reader = b"310,", READERS[b"310,"]
    side.connection._readers = {name: lambda *parts: read.append(1) or reader(*parts)}  # type: ignore[func-returns-value]
    side.feed(send(b"b" * 300 * KIB))
    assert len(read) == 1, "a long body is as usual"
    side.feed(send(i=f"UNIQ_KEY\x01a\x02P\x01{'x' * 300 * KIB}\x02"))
    assert (len(read), side.peer.closed) == (1, True)


@pytest.mark.parametrize("serialize_type", [0, 1])
@pytest.mark.parametrize("code", [11, 310, 320, 34, 900])
def test_a_long_header_closes_the_connection_in_either_encoding(side, serialize_type, code):
    fields = {f"{number:x}": "v" for number in range(50_000)}
    side.feed(encode_command(Command(code, 7, ext_fields=fields, serialize_type=serialize_type)))
    assert (side.peer.closed, side.peer.written) == (True, b"")


def test_a_long_filter_of_a_pull_is_not_cached(side):
    for number in range(20):
        tags = "||".join(f"t{number}x{tag}" for tag in range(1_000))
        side.feed(pull_frame(subscription=tags))
    assert len(side.broker.parked) == 20
    assert remembered(side.broker.expressions) <= 20 * KIB
    side.feed(pull_frame(subscription="a||b"))
    assert "a||b" in side.broker.expressions


# -- what waits ------------------------------------------------------------------------------------------------------------------


def test_each_field_of_a_request_that_waits_counts():
    fields = {f"{number:x}": "" for number in range(26_000)}
    command = Command(900, ext_fields=fields)
    size = sys.getsizeof(fields) + sum(map(sys.getsizeof, fields))
    assert size <= bytes_while_waiting(command) <= 4 * size
    for one in (
        Command(900, remark="ä" * 10_000),
        Command(900, language="ä" * 10_000),
        Command(900, ext_fields={"a": "\U0001f600" * 10_000}),
        Command(900, ext_fields={"\U0001f600" * 10_000: ""}),
    ):
        assert bytes_while_waiting(one) >= 10_000


@pytest.mark.parametrize("typed", [True, False])
def test_a_pull_that_waits_keeps_none_of_its_fields(side, typed):
    junk = {f"z{number:x}": "" for number in range(5_000)}
    side.feed(pull_frame(typed=typed, **junk))
    assert len(side.broker.parked) == 1
    (pull,) = side.broker.parked._pulls.drain()
    assert not pull.request.command.ext_fields
    assert not pull.request.command.body


@pytest.mark.parametrize("name", ["subscription", "proxyFrowardClientId", "language", "subscription of tags"])
@pytest.mark.parametrize("typed", [True, False])
def test_all_texts_of_a_pull_that_waits_count(side, typed, name):
    text = "\U0001f600" * 4_000
    changed: dict[str, str] = {name: text}
    if name == "subscription of tags":
        changed = {"subscription": "||".join(f"{number:x}" for number in range(3_000))}
    side.feed(pull_frame(typed=typed, **changed))
    assert len(side.broker.parked) == 1
    kept = side.broker.parked._pulls.total_bytes
    assert kept >= (200_000 if name == "subscription of tags" else 16_000)


@pytest.mark.parametrize("typed", [True, False])
def test_a_pull_waits_no_longer_than_a_pull_may(side, typed):
    side.feed(pull_frame(typed=typed, suspendTimeoutMillis=str(2**63 - 1)))
    assert len(side.broker.parked) == 1
    due_ms = side.broker.parked._pulls.next_deadline_ms()
    assert due_ms is not None
    assert due_ms - side.broker.clock.steady_ms() <= 600_000


def test_an_answer_that_waits_for_the_disk_counts_as_long_as_it_is(side):
    waiting = DurableAnswers(side.broker)
    answer = Command(0, flag=1, ext_fields={"msgId": "F" * 100_000})

    async def both() -> int:
        waiting.wait(side.connection, answer, 0)
        held = side.connection._held_bytes
        waiting.stop()
        return held

    assert side.loop.run_until_complete(both()) > 100_000
    assert side.connection._held_bytes == 0
