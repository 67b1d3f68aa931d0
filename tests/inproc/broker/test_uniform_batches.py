"""A batch whose messages look alike is stored as a table, and any other one by one: with the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.pipeline.scenes import alike, element, send
from inproc.broker.written_to import WrittenTo
from sprocketmq.broker import Broker
from sprocketmq.broker.tables.stamps import Stamps
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.records.uniform_batch import UniformBatch

NOW_MS = 1_795_276_800_000


class Side:
    """A broker in memory, with what its client sees and its store holds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.broker = loop, Broker(clock=ManualClock(NOW_MS))
        self.broker.store.load()
        self.broker.stamps = Stamps(self.broker.config, "127.0.0.1", 10911)
        self.broker.topics.create_if_absent("plain", 4, NOW_MS)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        async def take() -> tuple[bytes, bool]:
            peer = WrittenTo()
            connection = self.broker._new_server()._new_connection()
            connection.connection_made(peer)  # type: ignore[arg-type]
            connection.data_received(data)
            for _ in range(3):
                await asyncio.sleep(0)
            self.broker.parked.connection_closed(connection)
            return peer.written, peer.closed

        return self.loop.run_until_complete(take())

    def stored(self) -> list[Any]:
        store = self.broker.store
        found: list[Any] = [store.max_physical_offset]
        for topic, queue_id in store.queues():
            found += [
                (topic, queue_id, unit, bytes(store.record_at(unit.physical_offset) or b""))
                for unit in store.units(topic, queue_id, 0, 1 << 20)
            ]
        counters = self.broker.counters
        tallies = {**counters.puts, **counters.gets}
        return [*found, {key: (tally.messages, tally.bytes, tally.requests) for key, tally in tallies.items()}]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Mostly elements that look alike, and every way in which one may not."""
    count = draw(st.integers(2, 12))
    body_bytes = draw(st.sampled_from((0, 1, 60, 200)))
    names = draw(st.lists(st.sampled_from(("KEYS", "TAGS", "WAIT", "own", "CLUSTER", "DELAY", "UNIQ_KEY")), max_size=4))
    values = st.binary(min_size=4, max_size=4).filter(lambda value: draw(st.integers(0, 9)) == 0 or min(value) > 2)
    fixed = {name: draw(st.sampled_from((b"same", b"true", b"\x01\x01aa"))) for name in names}
    varying = draw(st.sets(st.sampled_from(("UNIQ_KEY", "KEYS", "TAGS", "own")), max_size=3)) | {"UNIQ_KEY"}
    parts = []
    for _ in range(count):
        raw = b"".join(
            name.encode() + b"\x01" + (draw(values) if name in varying else fixed[name]) + b"\x02"
            for name in ("UNIQ_KEY", *names)
        )
        parts.append(
            element(
                draw(st.binary(min_size=body_bytes, max_size=body_bytes)), raw, draw(st.sampled_from((0, 0, 5, -1)))
            )
        )
    odd = draw(st.sampled_from(("", "", "", "longer", "cut", "no key")))
    if odd == "longer":
        parts.append(element(b"a body of another length", b"UNIQ_KEY\x01k\x02"))
    elif odd == "no key":
        parts = [element(b"b" * body_bytes, b"TAGS\x01A\x02")] * count
    data = b"".join(parts)
    return data[:-1] if odd == "cut" else data


@settings(max_examples=150, deadline=None)
@given(
    batches(),
    st.sampled_from(("", "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02", "CLUSTER\x01mine")),
    st.sampled_from(("0", "1", "4")),
)
def test_a_batch_that_looks_alike_is_stored_and_answered_as_its_messages_one_by_one(
    data: bytes, common: str, flag: str
) -> None:
    loop = asyncio.new_event_loop()
    try:
        assert_batch_is_as_one_by_one(loop, data, i=common, f=flag)
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("odd", "is_uniform"),
    [
        (alike(9), True),
        (alike(9, flag=7), True),
        (alike(9, keys=b"other"), True),
        (alike(9, tags=b"B"), False),
        (alike(9, key=b"a\x02TAGS\x01C"), False),
        (alike(9, key=b"k\x02\x01\x02\x01xy"), False),
        (alike(9, key=b"short"), False),
        (alike(9)[:-1], False),
        (element(b"%060d" % 9, b""), False),
    ],
)
def test_one_odd_message_of_a_batch_leaves_it_as_it_is_one_by_one(odd: bytes, is_uniform: bool) -> None:
    data = b"".join([alike(number) for number in range(20)]) + odd
    assert (UniformBatch.of(data) is not None) is is_uniform
    loop = asyncio.new_event_loop()
    try:
        assert_batch_is_as_one_by_one(loop, data)
    finally:
        loop.close()


def assert_batch_is_as_one_by_one(loop: asyncio.AbstractEventLoop, data: bytes, **fields: str) -> None:
    together, apart = Side(loop), Side(loop)
    request = send(data, code=320, **{"i": "", "m": "true", **fields})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sprocketmq.broker.handlers.messages.send._UNIFORM_FROM_BYTES", 1 << 30)
        answer = apart.feed(request + request)
        patch.setattr("sprocketmq.broker.handlers.messages.send._UNIFORM_FROM_BYTES", 0)
        assert together.feed(request + request) == answer
    assert together.stored() == apart.stored()


def test_telemetry_is_a_batch_that_looks_alike() -> None:
    parts = [
        element(b"%060d" % n, b"UNIQ_KEY\x01%032X\x02KEYS\x01order-%06d\x02TAGS\x01A\x02" % (n, n)) for n in range(50)
    ]
    batch = UniformBatch.of(b"".join(parts))
    assert batch is not None
    assert batch.count == 50
    assert (
        UniformBatch.of(
            b"".join(
                [*parts, element(b"%060d" % 1, b"UNIQ_KEY\x01%032X\x02KEYS\x01order-%06d\x02TAGS\x01B\x02" % (1, 1))]
            )
        )
        is None
    )
