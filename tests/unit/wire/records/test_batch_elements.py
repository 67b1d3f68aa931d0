# SPDX-License-Identifier: Apache-2.0
"""The messages of a batch as columns are those that ``split_batch`` finds, and their records those that ``encode_record`` makes."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import SoundBatch, bodies_of_batches, produced_batch, sound_batches
from golden.pipeline.scenes import element
from record_fields import STORED
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.batch import ELEMENT, split_batch
from sprocketmq.wire.records.batch_elements import BatchElements
from sprocketmq.wire.records.properties import TAGS, get_property
from sprocketmq.wire.records.record import Host, encode_record

V4, V6 = b"\x7f\0\0\x01", bytes(range(16))


def body_of(batch: SoundBatch) -> bytes:
    return b"".join([element(body, raw, flag) for flag, body, raw in batch])


def problem_of(data: bytes) -> str | None:
    """What ``split_batch`` says; the elements are refused in the same words, or they are the same. One message at least has to be there."""
    try:
        expected = split_batch(data)
    except ProtocolError as error:
        with pytest.raises(ProtocolError, match=f"^{re.escape(str(error))}$"):
            BatchElements.of(data)
        return str(error)
    if not expected:
        with pytest.raises(ProtocolError):
            BatchElements.of(data)
        return "no message"
    elements = BatchElements.of(data)
    assert list(elements.bodies_and_properties()) == [(body, raw) for _, body, raw in expected]
    assert elements.count == len(expected)
    assert elements.longest_body_bytes == max(len(body) for _, body, _ in expected)
    assert elements.longest_properties_bytes == max(len(raw) for _, _, raw in expected)
    assert elements.ends_in_zero is any(raw.endswith(b"\0") for _, _, raw in expected)
    return None


def head(born_host: Host, store_host: Host) -> dict[str, Any]:
    changed = {"born_host": born_host, "store_host": store_host, "sys_flag": 0x1, "reconsume_times": 2}
    return {
        name: value for name, value in (STORED | changed).items() if name not in ("queue_offset", "physical_offset")
    }


def assert_records_are_those_of_each(
    batch: SoundBatch, topic: bytes, hosts: tuple[Host, Host], queue_offset: int, at: int
) -> None:
    fields = head(*hosts)
    elements = BatchElements.of(body_of(batch))
    record = encode_record(topic, b"", b"", queue_offset=0, physical_offset=0, **fields)
    places, sizes = elements.record_places(record, at)
    expected, place = [], at
    for number, (flag, body, raw) in enumerate(batch):
        expected.append(
            encode_record(
                topic, body, raw, flag=flag, queue_offset=queue_offset + number, physical_offset=place, **fields
            )
        )
        assert (places[number], np.broadcast_to(sizes, len(batch))[number]) == (place, len(expected[-1]))
        place += len(expected[-1])
    records = elements.records(record, queue_offset, places, sizes)
    assert records == b"".join(expected)
    assert elements.records_bytes(record) == len(records)


@given(bodies_of_batches())
def test_the_elements_are_those_that_split_batch_finds(data):
    problem_of(data)


@given(sound_batches())
def test_each_tags_code_is_that_of_the_properties(batch):
    expected = [tags_code(get_property(raw, TAGS)) for _, _, raw in batch]
    assert BatchElements.of(body_of(batch)).tags_codes() == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"TAGS\x01A\x02",
        b"TAGS\x01A",
        b"TAGS\x01A\x02TAGS\x01\x02",
        b"TAGS\x01A\x02TAGS\x01B\x02",
        b"TAGS\x01A\x02XTAGS\x01B\x02",
        b"TAGS\x01A\x02own\x01TAGS\x01B\x02",
        b"own\x01TAGS\x02",
        b"GS\x01A\x02" + b"x" * (0x5441 - 5),  # the length of the properties reads TA
        b"x" * 0x0102 + b"\x02TAGS\x01A",
        b"TAGS\x01A\x02own\x01" + b"x" * (0x0102 - 12) + b"\x02",  # the length ends as a separator
        b"TAGS\x01" + b"long" * 200,
        b"TAGS\x01" + b"long" * 8_000,
        b"TAGS\x01" + "Überlänge 🛫".encode() * 1_500 + b"\x02",
        b"TAGS\x01" + b"\xff" * 30_000,
        b"TAGS\x01\xc3\x9c\x02",
        b"TAGS\x01\xff\x02",
    ],
)
def test_tags_that_are_somewhere_else_or_odd_have_their_code(raw):
    batch: SoundBatch = [(0, b"TAGS\x01body", raw), (0, b"body", b"KEYS\x01k\x02")]
    assert BatchElements.of(body_of(batch)).tags_codes() == [tags_code(get_property(raw, TAGS)), 0]


# Properties of two messages with TAGS that are not where the first one has them, or not alone.
ODD_PAIRS = [
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01a\x02TAGS\x01A\x02TAGS\x01B\x02"),
    (b"own\x01a\x02TAGS\x01A\x02", b"TAGS\x01Bx\x02own\x01aa\x02own\x01aa\x02"),
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01a\x02TAGS\x01AB\x02"),
    (b"own\x01a\x02TAGS\x01AB\x02", b"own\x01a\x02TAGS\x01A\x02"),
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01a\x02TAGS\x01\x02x\x01y\x02"),
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01aTAGS\x01A\x02b\x02"),
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01a\x02own\x01aa\x02x\x01TAGS\x01A"),
    (b"own\x01a\x02TAGS\x01A\x02", b"own\x01a\x02"),
    (b"own\x01a\x02TAGS\x01A", b"own\x01a\x02TAGS\x01A"),
    (b"AGS\x01A\x02" + b"x" * (0x0254 - 6),) * 2,  # the length of the properties reads \x02T
    (b"TAGS\x01A\x02own\x01" + b"x" * (0x0102 - 12) + b"\x02",) * 2,
]


@pytest.mark.parametrize("raws", [raws for pair in ODD_PAIRS for raws in (pair, pair[::-1])])
def test_tags_at_another_place_than_in_the_first_message_have_their_code(raws):
    for batch in ([(0, b"TAGS\x01body", raw) for raw in raws], [(0, b"b", raws[0])] * 9 + [(0, b"b", raws[1])]):
        expected = [tags_code(get_property(raw, TAGS)) for _, _, raw in batch]
        assert BatchElements.of(body_of(batch)).tags_codes() == expected


@pytest.mark.parametrize("size", [0, -1, -40, 60])
@pytest.mark.parametrize("body_bytes", [-1, -20, -40, -(1 << 31)])
def test_negative_lengths_are_refused(size, body_bytes):
    # With these lengths, the bytes between "body" and end look like the tail of an element, at different places.
    first = bytearray(element(b"", b"\0\0" * 20))
    first[ELEMENT.span("size")] = size.to_bytes(4, "big", signed=True)
    first[ELEMENT.span("body_length")] = body_bytes.to_bytes(4, "big", signed=True)
    assert problem_of(bytes(first) + element(b"body", b""))


@pytest.mark.parametrize("field", ["size", "body_length", "properties_length"])
@pytest.mark.parametrize("difference", [-1, 1, 256])
@pytest.mark.parametrize("number", [0, 5, 9])
def test_one_wrong_length_among_messages_that_look_alike_is_found(field, difference, number):
    parts = [element(b"b" * 300, b"own\x01" + b"x" * 300) for _ in range(10)]
    at = len(parts[0]) - 306 if field == "properties_length" else ELEMENT.at[field]
    width = 2 if field == "properties_length" else 4
    length = int.from_bytes(parts[number][at : at + width], "big") + difference
    parts[number] = parts[number][:at] + length.to_bytes(width, "big") + parts[number][at + width :]
    assert problem_of(b"".join(parts))


def test_another_division_of_the_same_length_is_found():
    assert not problem_of(body_of([(0, b"b" * 20, b"own\x01x\x02")] * 9 + [(0, b"b" * 19, b"own\x01xy\x02")]))


def test_a_negative_body_length_is_refused():
    """Its length is also that of the properties, which end where the size says."""
    assert problem_of(ELEMENT.struct.pack(ELEMENT.size - 2 + 0x10000, 0, 0, 0, -2) + bytes(0x10000 - 2))


@given(
    sound_batches(),
    st.sampled_from((b"T", b"t" * 127, b"t" * 128)),
    st.tuples(*[st.sampled_from(((V4, 50_000), (V6, 10_911)))] * 2),
    st.sampled_from((0, 1 << 40)),
)
def test_the_records_are_those_of_each_message(batch, topic, hosts, start):
    assert_records_are_those_of_each(batch, topic, hosts, start, start * 3)


def test_messages_of_real_producers_are_records_as_one_by_one():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(60):
        batch = produced_batch(dice)
        assert_records_are_those_of_each(batch, b"flights", ((V4, 1), (V4, 2)), dice.randrange(9), dice.randrange(9))
        codes = [tags_code(get_property(raw, TAGS)) for _, _, raw in batch]
        assert BatchElements.of(body_of(batch)).tags_codes() == codes


@st.composite
def chains_of_elements(draw: st.DrawFn) -> bytes:
    """Bytes with heads that name a following element anywhere, also in front, and lengths that fit to that."""
    length = draw(st.integers(60, 400))
    data, at = bytearray(length), 0
    for following in draw(st.lists(st.integers(-length, length), min_size=1, max_size=5)):
        body_bytes = draw(st.integers(0, length))
        place = at % length
        if place + ELEMENT.size <= length:
            ELEMENT.struct.pack_into(data, place, following - at, 0, 0, 0, body_bytes)
            tail_at = (at + ELEMENT.size + body_bytes) % length
            tail = len(bytes(data)[at + ELEMENT.size + body_bytes : following])
            if tail >= 2 and tail_at + 2 <= length:
                data[tail_at : tail_at + 2] = (tail - 2).to_bytes(2, "big")
        at = following
    return bytes(data)


@pytest.mark.timeout(60)
@given(chains_of_elements())
def test_no_chain_of_elements_goes_back(data):
    problem_of(data)


@pytest.mark.parametrize(
    ("length", "heads", "lengths"),
    [
        (200, {0: (-60, 10), 140: (0, 100)}, {30: 108, 40: 98}),  # the second element is its own successor
        (200, {0: (-60, 10), 140: (260, 5)}, {30: 108, 165: 33}),  # the end is reached, by way of the middle
    ],
)
@pytest.mark.timeout(60)
def test_a_negative_element_size_is_refused(length, heads, lengths):
    """Behind it the next one would begin in front, or at the same place for ever."""
    data = bytearray(length)
    for at, (size, body_bytes) in heads.items():
        ELEMENT.struct.pack_into(data, at, size, 0, 0, 0, body_bytes)
    for at, value in lengths.items():
        data[at : at + 2] = value.to_bytes(2, "big")
    assert problem_of(bytes(data))
