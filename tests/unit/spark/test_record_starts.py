# SPDX-License-Identifier: Apache-2.0
"""Where records start: whichever way fits, it is what walking from one to the next finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns import record_starts as module
from sprocketmq.spark.columns import size_chains
from sprocketmq.spark.columns.record_starts import record_starts
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record import encode_record

MAGIC = bytes.fromhex("daa320a7")
CONTENT = st.lists(
    st.sampled_from([b"", b"x", b"x" * 30, MAGIC, b"\0\0\0\x5b" + MAGIC, b"\xda" * 9, b"y" * 900]), max_size=3
).map(b"".join)


def record(body: bytes = b"hello") -> bytes:
    host = (b"\x0a\0\0\x01", 10_911)
    times = {"born_timestamp_ms": 1, "store_timestamp_ms": 2}
    return encode_record(
        b"T", body, b"", queue_id=0, queue_offset=0, physical_offset=0, born_host=host, store_host=host, **times
    )


def pulls_of(groups: list[list[bytes]]) -> list[PulledChunk]:
    return [
        PulledChunk(MessageQueue("T", "broker-a", number), 0, 1 << 40, b"".join(group))
        for number, group in enumerate(groups)
    ]


def found(pulls: list[PulledChunk]) -> tuple[list[int], list[int]]:
    raw = b"".join([*(pull.body for pull in pulls), b"\0" * 88])
    starts, counts = record_starts(np.frombuffer(raw, np.uint8), pulls)
    return starts.tolist(), counts.tolist()


def walked(groups: list[list[bytes]]) -> tuple[list[int], list[int]]:
    at, starts = 0, []
    for group in groups:
        for one in group:
            starts.append(at)
            at += len(one)
    return starts, [len(group) for group in groups]


@contextmanager
def guessing() -> Iterator[None]:
    """Beginnings are guessed every 200 bytes, and three chains are enough to walk them in step."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_APART", 200)
        patched.setattr(module, "_SEEN", 128)
        patched.setattr(module, "_SMALL_RECORD", 2000)
        patched.setattr(module, "FEW_CHAINS", 3)
        patched.setattr(size_chains, "FEW_CHAINS", 3)
        yield


@settings(deadline=None)
@given(st.lists(st.lists(CONTENT.map(lambda body: record(body=body)), max_size=12), max_size=5))
def test_few_bodies_of_any_records(groups: list[list[bytes]]) -> None:
    assert found(pulls_of(groups)) == walked(groups)
    with guessing():
        assert found(pulls_of(groups)) == walked(groups)


@settings(deadline=None)
@given(st.lists(st.tuples(CONTENT.map(lambda body: record(body=body)), st.integers(0, 40)), min_size=1, max_size=70))
def test_bodies_whose_records_are_alike(alike: list[tuple[bytes, int]]) -> None:
    groups = [[one] * count for one, count in alike]
    assert found(pulls_of(groups)) == walked(groups)


def test_each_way_is_gone_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = [[record(body=b"x" * (number % 7)) for number in range(10_000)]]
    alone, counts = size_chains._followed_alone, []

    def counted(*args: object) -> object:
        starts, reached = alone(*args)  # type: ignore[arg-type]
        counts.append(sum(map(len, starts)))
        return starts, reached

    monkeypatch.setattr(size_chains, "_followed_alone", counted)
    assert found(pulls_of(mixed)) == walked(mixed)
    assert 0 < sum(counts) < 2000
    monkeypatch.setattr(module, "followed", lambda *_: pytest.fail("walked"))
    assert found(pulls_of([[record()] * 50])) == walked([[record()] * 50])


def test_records_within_records_are_no_records() -> None:
    """A copy of a whole chain of records in a message: each of them is guessed, and their chain ends where the message's body ends."""
    inner = b"".join(record(body=b"x" * (number % 7)) for number in range(50))
    groups = [[record(body=inner[: -cut or None]), record(), record(body=inner + b"?")] for cut in (0, 1, 80)]
    with guessing():
        assert found(pulls_of(groups)) == walked(groups)


@pytest.mark.parametrize("cut", [1, 40, 91, 3000])
def test_a_body_that_ends_within_a_record_is_refused_whatever_was_guessed(cut: int) -> None:
    whole = b"".join(record(body=b"x" * (number % 7)) for number in range(100))
    pulls = pulls_of([[whole], [whole[:-cut]], [whole]])
    with guessing(), pytest.raises(ProtocolError, match="of a pull body of .*1.* does not fit"):
        found(pulls)


def test_a_record_that_reaches_into_the_next_body_is_refused() -> None:
    first, second, third = record(body=b"one"), record(body=b"three"), record(body=b"fourteen")
    pulls = pulls_of([[first, second[:60]], [second[60:], third]])
    with pytest.raises(ProtocolError, match="of a pull body of .*0.* does not fit its remaining 60 bytes"):
        found(pulls)


@settings(deadline=None)
@given(st.lists(st.tuples(CONTENT.map(lambda body: record(body=body)), st.integers(1, 120)), min_size=1, max_size=6))
def test_runs_of_alike_records_behind_each_other(runs: list[tuple[bytes, int]]) -> None:
    groups = [[one for part, count in runs for one in [part] * count]]
    assert found(pulls_of(groups)) == walked(groups)
    with guessing():
        assert found(pulls_of(groups)) == walked(groups)
