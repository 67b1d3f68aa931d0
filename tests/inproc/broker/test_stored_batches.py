# SPDX-License-Identifier: Apache-2.0
"""A batch is stored and answered as its messages one by one, whatever they look like; all are refused for the sake of one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import SoundBatch, sound_batches
from examples import examples
from golden.pipeline.scenes import element, send
from inproc.broker.written_to import NOW_MS, Side
from sprocketmq.broker import lazy_imports
from sprocketmq.broker.handlers.messages.special_messages import is_delayed
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.store import StoredMessage
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.properties import MAX_PROPERTIES_BYTES, TAGS, get_property
from sprocketmq.wire.records.record import RecordView


def refusal_of(batch: SoundBatch) -> str | None:
    """What is said of the first message that may not be in a batch."""
    for _, body, raw in batch:
        if is_delayed(raw):
            return "a message of the batch has a delay; send delayed messages one by one"
        if not body:
            return "a message of the batch has no body; 1 byte or more is allowed"
        if len(raw) > MAX_PROPERTIES_BYTES:
            return f"the properties take {len(raw)} bytes, at most {MAX_PROPERTIES_BYTES} are allowed"
        if raw.endswith(b"\0"):
            return "the properties of a message of the batch end with a zero byte; end them with \\x02"
    return None


def stored_one_by_one(side: Side, batch: SoundBatch, sys_flag: int) -> list[int]:
    """Where they went."""
    return [
        side.broker.put(
            StoredMessage(
                "plain", 1, body, raw, flag, sys_flag, NOW_MS, (b"\x7f\0\0\x01", 45678), side.broker.identity.host, 0, 0,
                tags_code(get_property(raw, TAGS)),
            ),
            NOW_MS,
        ).physical_offset
        for flag, body, raw in batch
    ]  # fmt: skip


def assert_batch_is_as_one_by_one(
    loop: asyncio.AbstractEventLoop, batch: SoundBatch, of_batch: str = "", sys_flag: int = 0
) -> None:
    together, apart = Side(loop), Side(loop)
    data = b"".join([element(body, raw, flag) for flag, body, raw in batch])
    frame = send(data, code=320, i=of_batch, m="true", f=str(sys_flag))
    answers = together.feed(frame + frame).answers()
    assert len(answers) == 2
    refusal = refusal_of(batch)
    for number, answer in enumerate(answers):
        if refusal is not None:
            assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, refusal)
            continue
        places = stored_one_by_one(apart, batch, sys_flag)
        assert_is_answered_with(answer, apart, places, number * len(batch), of_batch)
    assert together.stored() == apart.stored()
    assert together.tallies() == apart.tallies()
    assert together.broker.store.max_physical_offset == apart.broker.store.max_physical_offset


def assert_is_answered_with(answer: Command, side: Side, places: list[int], queue_offset: int, of_batch: str) -> None:
    ids = ",".join([side.broker.identity.offset_message_id(place) for place in places])
    assert (answer.code, answer.ext_fields["msgId"]) == (0, ids)
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("1", str(queue_offset))
    assert answer.ext_fields.get("transactionId") == get_property(of_batch.encode(), "UNIQ_KEY")


@st.composite
def batches(draw: st.DrawFn) -> SoundBatch:
    """Sometimes with messages that are refused, or nearly."""
    batch = draw(sound_batches(least_body_bytes=1))
    odd = draw(st.sampled_from(("", "", "", "", "delay", "no delay", "delay in a body", "timer", "no body", "long")))
    if odd:
        raw = {
            "delay": b"DELAY\x013\x02",
            "no delay": b"DELAY\x010\x02own\x01DELAY\x02",
            "timer": b"TIMER_DELAY_SEC\x015\x02",
            "long": b"own\x01" + b"x" * MAX_PROPERTIES_BYTES + b"\x02",
        }.get(odd, b"TAGS\x01A\x02")
        body = {"delay in a body": b"DELAY\x013\x02", "no body": b""}.get(odd, b"body")
        batch.insert(draw(st.integers(0, len(batch))), (0, body, raw))
    return batch


@settings(max_examples=examples(150), deadline=None)
@given(
    batches(),
    st.sampled_from(("", "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02", "CLUSTER\x01mine")),
    st.sampled_from((0, 1)),
)
def test_any_batch_is_stored_and_answered_as_its_messages_one_by_one(batch, of_batch, sys_flag):
    loop = asyncio.new_event_loop()
    try:
        assert_batch_is_as_one_by_one(loop, batch, of_batch, sys_flag)
    finally:
        loop.close()


@pytest.mark.parametrize(
    "odd",
    [
        (0, b"body", b"UNIQ_KEY\x01k\x02DELAY\x013\x02"),
        (0, b"body", b"TIMER_DELIVER_MS\x0199\x02"),
        (0, b"", b"UNIQ_KEY\x01k\x02"),
        (0, b"body", b"own\x01" + b"x" * MAX_PROPERTIES_BYTES),
        (0, b"body", b"UNIQ_KEY\x01k\x02own\x01\0"),
    ],
    ids=["delay", "timer", "no body", "long", "zero"],
)
def test_one_message_that_may_not_be_in_a_batch_is_found_wherever_it_is(loop, odd):
    good = (0, b"body", b"UNIQ_KEY\x01k\x02")
    assert refusal_of([odd]) is not None
    for batch in ([odd], [good] * 20 + [odd], [odd] + [good] * 9, [good] * 3 + [odd, (0, b"", b"")] + [good] * 9):
        assert_batch_is_as_one_by_one(loop, batch)


def test_each_message_of_a_batch_for_the_timers_own_topic_is_looked_at(loop):
    nowhere = b"REAL_TOPIC\x01nowhere\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02"
    for raw, code in ((nowhere, ResponseCode.MESSAGE_ILLEGAL), (b"REAL_QID\x010\x02", 0)):
        side = Side(loop)
        data = b"".join([element(b"body", b"UNIQ_KEY\x01k\x02"), element(b"body", raw)])
        [answer] = side.feed(send(data, code=320, i="", m="true", b=TIMER_TOPIC, e="0")).answers()
        assert answer.code == code
        assert bool(side.stored()) is (code == 0)


def test_the_sends_of_a_connection_are_stored_in_their_order_also_before_numpy_is_loaded(loop, monkeypatch):
    monkeypatch.setattr(lazy_imports, "_loaded", set())
    side = Side(loop)
    batch = send(element(b"first", b"UNIQ_KEY\x01k\x02") * 2, code=320, i="", m="true")
    side.feed(batch + send(b"second") + batch)
    stored = [bytes(RecordView(record).body) for *_, record in side.stored()]
    assert stored == [b"first", b"first", b"second", b"first", b"first"]


def test_a_pull_that_waits_for_a_tag_is_woken_by_any_message_of_a_batch(loop):
    side = Side(loop)
    woken: list[tuple[str, int, int]] = []
    side.broker.parked.waiting = lambda topic, queue_id: True  # type: ignore[method-assign]
    side.broker.parked.arrived = lambda *which: woken.append(which)  # type: ignore[method-assign]
    data = b"".join([element(b"body", raw) for raw in (b"TAGS\x01A\x02", b"TAGS\x01B\x02", b"", b"TAGS\x01A\x02")])
    side.feed(send(data, code=320, i="", m="true"))
    assert sorted(woken) == [("plain", 1, 0), ("plain", 1, tags_code("A")), ("plain", 1, tags_code("B"))]


def test_the_timer_reads_a_batch_that_was_sent_to_its_own_topic(loop):
    side = Side(loop)
    told: list[None] = []
    side.broker.timers.stored = lambda: told.append(None)  # type: ignore[method-assign]
    side.feed(send(element(b"body", b"UNIQ_KEY\x01k\x02") * 2, code=320, i="", m="true", b=TIMER_TOPIC, e="0"))
    assert len(told) == 1
