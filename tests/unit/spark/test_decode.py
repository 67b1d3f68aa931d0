# SPDX-License-Identifier: Apache-2.0
"""A batch holds what its records hold: each of them decoded alone with the client's decoder gives the same row."""

from __future__ import annotations

import random
import zlib
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from examples import examples
from golden import VERSIONS, store_file
from one_by_one import batch_one_by_one
from producer_shapes import Shape, pull_bodies, shapes
from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns import opened_bodies
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.wire.records.batch import ELEMENT, encode_batch
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import RecordView, encode_record
from sprocketmq.wire.records.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP

QUEUE = MessageQueue("flights", "broker-a", 3)
RETRY_QUEUE = MessageQueue("%RETRY%delays", "broker-a", 0)
STRING_MAP = pa.map_(pa.string(), pa.field("value", pa.string(), True))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("commitLogOffset", pa.int64()),
        ("messageId", pa.string()),
        ("keys", pa.string()),
        ("tags", pa.string()),
        ("properties", STRING_MAP),
        ("body", pa.binary()),
        ("bornTimestamp", pa.timestamp("us", "UTC")),
        ("storeTimestamp", pa.timestamp("us", "UTC")),
        ("bornHost", pa.string()),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("sysFlag", pa.int32()),
    ]
)
V4 = st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 65_535))
V6 = st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 65_535))
TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)
NAMES = st.one_of(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "RETRY_TOPIC", "CLUSTER"]), TEXT)
PROPERTIES = st.dictionaries(NAMES, TEXT, max_size=6).map(encode_properties)
# Names that repeat, empty names and values, separators that stray or lack, zeros, and what is not UTF-8.
PIECES = st.sampled_from(
    [b"TAGS", b"KEYS", b"UNIQ_KEY", b"RETRY_TOPIC", b"UA", b"\x01", b"\x02", b"\0", b"\xff", b"\xc3\xa9", b"x" * 20]
)
ANY_TEXT = st.one_of(st.lists(PIECES, max_size=12).map(b"".join), PROPERTIES, PROPERTIES.map(lambda raw: raw[:-1]))
SHAPES = shapes()


def record(offset: int = 0, body: bytes = b"hello", properties: bytes = b"", **fields: object) -> bytes:
    settings: dict[str, object] = {
        "queue_id": 3,
        "queue_offset": offset,
        "physical_offset": 1000 + offset,
        "born_timestamp_ms": 1_700_000_000_000,
        "born_host": (b"\x0a\0\0\x02", 50_000),
        "store_timestamp_ms": 1_700_000_000_001,
        "store_host": (b"\x0a\0\0\x01", 10_911),
    }
    settings.update(fields)
    topic = settings.pop("topic", b"flights")
    return encode_record(topic, body, properties, **settings)  # type: ignore[arg-type]


def pull(*records: bytes, start: int = 0, end: int = 1 << 62, queue: MessageQueue = QUEUE) -> PulledChunk:
    return PulledChunk(queue, start, end, memoryview(b"".join(records)))


@st.composite
def records(
    draw: st.DrawFn, hosts: st.SearchStrategy[tuple[bytes, int]], properties: st.SearchStrategy[bytes]
) -> bytes:
    body, sys_flag = draw(st.binary(max_size=60)), draw(st.sampled_from([0, 2, 8]))
    kind = draw(st.sampled_from(["as it is", "as it is", "inner batch", "broken"]))
    if kind == "inner batch":
        inner = [Message("flights", part, tags=draw(st.sampled_from(["UA", None]))) for part in (body, b"2", b"3")]
        body = encode_batch(inner[: draw(st.integers(0, 3))]) + draw(st.sampled_from([b"", b"", b"odd"]))
    if kind != "as it is":
        sys_flag |= draw(st.sampled_from([NEED_UNWRAP | INNER_BATCH, NEED_UNWRAP, INNER_BATCH, COMPRESSED]))
    if draw(st.booleans()):
        body, sys_flag = zlib.compress(body), sys_flag | COMPRESSED
    return record(
        draw(st.integers(0, 1 << 40)),
        body,
        draw(properties),
        queue_id=draw(st.integers(0, 1 << 30)),
        physical_offset=draw(st.integers(0, 1 << 50)),
        sys_flag=sys_flag,
        born_timestamp_ms=draw(st.integers(0, 1 << 43)),
        store_timestamp_ms=draw(st.integers(0, 1 << 43)),
        born_host=draw(hosts),
        store_host=draw(hosts),
        reconsume_times=draw(st.integers(0, 100)),
        topic=draw(st.sampled_from([b"flights", b"t" * 127, b"t" * 200])),
        version=draw(st.sampled_from([None, 2])),
    )


def assert_as_one_by_one(pulls: list[PulledChunk], tags: frozenset[str] = frozenset()) -> pa.RecordBatch:
    (batch,) = BatchDecoder(SCHEMA, tags).decode(pulls)
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA)
    expected = batch_one_by_one(SCHEMA, pulls, tags)
    for name in SCHEMA.names:
        assert batch.column(name).to_pylist() == expected.column(name).to_pylist(), name
    return batch


@given(st.lists(st.one_of(records(V4, ANY_TEXT), records(st.one_of(V4, V6), ANY_TEXT)), max_size=8))
@settings(max_examples=examples(200), deadline=None)
def test_odd_records_decode_as_one_by_one(group: list[bytes]) -> None:
    assert_as_one_by_one([pull(*group), pull(*group, start=100, end=1 << 39, queue=RETRY_QUEUE)])


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4, unique=True))
def test_mixes_of_what_all_producers_make_decode_as_one_by_one(seed: int, mix: list[Shape]) -> None:
    note(f"seed {seed}, {[shape.name for shape in mix]}")
    dice = random.Random(seed)
    mixed = Shape("mix", lambda number, own: own.choice(mix).make(own.randrange(1 << 31), own))
    assert_as_one_by_one(pull_bodies(mixed, dice, 20_000) + pull_bodies(mix[0], dice, 5_000))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_java_stored_decodes_as_one_by_one(version: str) -> None:
    log = store_file(version, "commitlog-head.bin")
    queues: dict[str, list[bytes]] = {}
    at = 0
    while at < len(log):
        view = RecordView(log, at)
        queues.setdefault(view.topic, []).append(bytes(view.raw))
        at += view.size
    pulls = [pull(*stored, queue=MessageQueue(topic, "broker-a", 0)) for topic, stored in queues.items()]
    assert assert_as_one_by_one(pulls).num_rows > 50
    retried = [one for one in pulls if one.queue.topic == "%RETRY%golden-group"]
    assert assert_as_one_by_one(retried).column("topic").unique().to_pylist() == ["golden"]


@pytest.mark.parametrize("topic_bytes", [128, 200, 255, 256, 1000])
def test_records_of_a_topic_too_long_for_one_length_byte_decode_as_one_by_one(topic_bytes: int) -> None:
    long = record(1, b"long", encode_properties({"TAGS": "A"}), topic=b"t" * topic_bytes)
    batch = assert_as_one_by_one([pull(record(0), long, record(2))])
    assert batch.column("body").to_pylist() == [b"hello", b"long", b"hello"]
    assert batch.column("tags").to_pylist() == [None, "A", None]


@settings(deadline=None)
@given(st.lists(records(V4, PROPERTIES), max_size=8), st.frozensets(TEXT, min_size=1, max_size=2))
def test_the_tag_filter_keeps_the_same_rows_as_one_by_one(group: list[bytes], tags: frozenset[str]) -> None:
    assert_as_one_by_one([pull(*group), pull(*group, queue=RETRY_QUEUE)], tags)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_raises_protocol_error_or_decodes_as_one_by_one(garbage: bytes) -> None:
    decoder = BatchDecoder(SCHEMA)
    try:
        (batch,) = decoder.decode([pull(garbage)])
    except ProtocolError:
        return
    assert batch.to_pylist() == batch_one_by_one(SCHEMA, [pull(garbage)]).to_pylist()


@settings(deadline=None)
@given(records(V4, PROPERTIES), st.integers(0, 300), st.integers(0, 255))
def test_a_flipped_byte_never_reads_outside_the_record(good: bytes, at: int, value: int) -> None:
    broken = bytearray(good)
    broken[at % len(good)] = value
    decoder = BatchDecoder(SCHEMA)
    try:
        (batch,) = decoder.decode([pull(bytes(broken), start=-(1 << 63))])
    except ProtocolError:
        return
    batch.validate(full=True)


def test_every_column_holds_what_was_stored() -> None:
    properties = encode_properties({"TAGS": "UA", "KEYS": "k1 k2", "UNIQ_KEY": "ID7", "year": "2013"})
    batch = assert_as_one_by_one([pull(record(7, b"late", properties, reconsume_times=2, sys_flag=8))])
    row = batch.to_pylist()[0]
    assert row.pop("bornTimestamp").timestamp() == 1_700_000_000
    assert row.pop("storeTimestamp").timestamp() == 1_700_000_000.001
    assert row == {
        "topic": "flights",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 7,
        "commitLogOffset": 1007,
        "messageId": "ID7",
        "keys": "k1 k2",
        "tags": "UA",
        "properties": [("TAGS", "UA"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "ID7"), ("year", "2013")],
        "body": b"late",
        "bornHost": "10.0.0.2:50000",
        "storeHost": "10.0.0.1:10911",
        "reconsumeTimes": 2,
        "sysFlag": 8,
    }


def test_a_message_without_unique_key_is_named_by_its_stored_copy() -> None:
    batch = assert_as_one_by_one([pull(record(123_456 - 1000))])
    assert batch["messageId"].to_pylist() == ["0A00000100002A9F000000000001E240"]


def test_retries_and_dead_letters_go_by_the_name_of_their_origin_topic() -> None:
    letters = MessageQueue("%DLQ%delays", "broker-a", 0)
    retried = record(0, properties=encode_properties({"RETRY_TOPIC": "flights", "DLQ_ORIGIN_TOPIC": "%RETRY%delays"}))
    marked = record(1, properties=encode_properties({"DLQ_ORIGIN_TOPIC": "planes"}))
    letter, retry = record(2, topic=b"%DLQ%delays"), record(4, topic=b"%RETRY%delays")
    of_retries = pull(retried, retry, queue=RETRY_QUEUE)
    batch = assert_as_one_by_one([pull(retried, marked, letter, queue=letters), pull(record(3)), of_retries])
    assert batch["topic"].to_pylist() == ["flights", "planes", "%DLQ%delays", "flights", "flights", "%RETRY%delays"]


def test_records_outside_the_wanted_range_are_left_out() -> None:
    batch = assert_as_one_by_one([pull(*[record(at) for at in range(10)], start=3, end=6)])
    assert batch["queueOffset"].to_pylist() == [3, 4, 5]


def test_only_wanted_columns_are_made() -> None:
    schema = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
    (batch,) = BatchDecoder(schema).decode([pull(record(1, properties=b"\xff\x01broken"))])
    assert batch.to_pylist() == [{"queueOffset": 1, "body": b"hello"}]


def test_a_broken_compressed_body_stays_as_it_is_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    bodies = [pull(record(0, b"no zlib", sys_flag=1), record(1, zlib.compress(b"fine"), sys_flag=1))]
    list(BatchDecoder(SCHEMA).decode(bodies))
    (said,) = caplog.messages
    assert said.startswith("1 compressed bodies cannot be opened, the first at offset 0 of ")
    batch = assert_as_one_by_one(bodies)
    assert batch["body"].to_pylist() == [b"no zlib", b"fine"]
    assert batch["sysFlag"].to_pylist() == [1, 0]


def test_an_inner_batch_that_was_broken_or_is_not_wanted_keeps_its_neighbours() -> None:
    wrapped = NEED_UNWRAP | INNER_BATCH
    inner = encode_batch([Message("flights", b"one"), Message("flights", b"two")])
    kept = [record(0), record(1, inner, sys_flag=wrapped), record(3, inner[:-1], sys_flag=wrapped), record(4)]
    unwanted = [record(5, inner, sys_flag=wrapped), record(7, b"broken", sys_flag=wrapped)]
    batch = assert_as_one_by_one([pull(*kept, *unwanted, start=2, end=5)])
    assert batch["body"].to_pylist() == [b"two", inner[:-1], b"hello"]
    assert batch["sysFlag"].to_pylist() == [INNER_BATCH, wrapped, 0]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_an_inner_batch_with_a_flipped_byte_decodes_as_one_by_one(data: st.DataObject) -> None:
    """Lengths that lie, too: each head's last byte counts most."""
    inner = [Message("flights", b"one", tags="UA"), Message("flights", b"two"), Message("flights", b"3", tags="B6")]
    broken = bytearray(encode_batch(inner))
    lengths = [
        at for end in accumulate(len(encode_batch([one])) for one in inner) for at in (*range(end - 4, end), end)
    ]
    at = data.draw(st.one_of(st.sampled_from(lengths), st.sampled_from([16, 17, 18, 19]), st.integers(0, len(broken))))
    broken[at % len(broken)] = data.draw(st.one_of(st.integers(0, 30), st.integers(0, 255)))
    wrapped = NEED_UNWRAP | INNER_BATCH
    assert_as_one_by_one([pull(record(0), record(1, bytes(broken), sys_flag=wrapped), record(9))])


@pytest.mark.parametrize("wrong", [5 - (1 << 31), -23, -22, -1, 2, 4, 9 + (1 << 30)])
@pytest.mark.parametrize("field", ["body_length", "properties_length", "size"])
def test_an_inner_batch_whose_lengths_lie_stays_as_it_is(field: str, wrong: int) -> None:
    """The sizes of the elements may still be right, or what their parts add up to."""
    inner = bytearray(encode_batch([Message("flights", b"one"), Message("flights", b"two")]))
    at, width = (23, 2) if field == "properties_length" else (ELEMENT.at[field], 4)
    inner[at : at + width] = (wrong % (1 << 8 * width)).to_bytes(width, "big")
    wrapped = NEED_UNWRAP | INNER_BATCH
    batch = assert_as_one_by_one([pull(record(0), record(1, bytes(inner), sys_flag=wrapped))])
    assert batch["body"].to_pylist() == [b"hello", inner]


def test_a_wrong_magic_number_is_refused() -> None:
    broken = bytearray(record(1))
    broken[4:8] = b"\xda\xa3\x20\xa8"
    with pytest.raises(ProtocolError, match="magic"):
        list(BatchDecoder(SCHEMA).decode([pull(record(0), bytes(broken))]))


def test_no_pulls_make_an_empty_batch_of_the_schema() -> None:
    assert assert_as_one_by_one([]).num_rows == 0


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.integers(0, 5), min_size=65, max_size=80))
def test_many_bodies_of_unequal_length_decode_as_one_by_one(counts: list[int]) -> None:
    pulls = [
        pull(
            *[record(at, b"b" * (number * at % 40)) for at in range(count)], queue=QUEUE if number % 2 else RETRY_QUEUE
        )
        for number, count in enumerate(counts)
    ]
    batch = assert_as_one_by_one(pulls)
    assert batch["queueOffset"].to_pylist() == [at for count in counts for at in range(count)]


@pytest.mark.parametrize("broken", [0, 40, 99])
def test_the_body_that_does_not_fit_is_named_among_many(broken: int) -> None:
    pulls = [pull(record(0), record(1), queue=MessageQueue("flights", "broker-a", number)) for number in range(100)]
    queue, whole = pulls[broken].queue, bytes(pulls[broken].body)
    pulls[broken] = pull(whole[:-1], queue=queue)
    with pytest.raises(
        ProtocolError, match=rf"of 103 bytes at \d+ of a pull body of {queue} does not fit its remaining 102"
    ):
        list(BatchDecoder(SCHEMA).decode(pulls))


@pytest.mark.parametrize("properties", [b"", b"\xff\x01broken"], ids=["ordinary", "odd"])
def test_bodies_that_unpack_to_more_than_fits_come_in_several_batches(properties: bytes) -> None:
    """600 of them were more than Arrow counts in one column, and a task failed for good."""
    body = zlib.compress(bytes(3_900_000))
    pulls = [
        pull(*(record(at, body, properties, sys_flag=1) for at in range(start, start + 10))) for start in (0, 10, 20)
    ]
    schema = pa.schema([field for field in SCHEMA if field.name in ("queueOffset", "body", "sysFlag")])
    offsets: list[int] = []
    for batch in BatchDecoder(schema).decode(pulls):
        assert batch.nbytes < 65 * 1024 * 1024
        assert set(batch.column("sysFlag").to_pylist()) == {0}
        assert {len(value) for value in batch.column("body").to_pylist()} == {3_900_000}
        offsets += batch.column("queueOffset").to_pylist()
    assert offsets == list(range(30))


@settings(deadline=None)
@given(st.lists(records(V4, PROPERTIES), max_size=8), st.frozensets(TEXT, max_size=2), st.integers(1, 200))
def test_rows_are_the_same_in_however_many_batches(group: list[bytes], tags: frozenset[str], most_bytes: int) -> None:
    decoder = BatchDecoder(SCHEMA, tags)
    whole = batch_one_by_one(SCHEMA, [pull(*group)], tags)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opened_bodies, "_MOST_BYTES", most_bytes)
        batches = list(decoder.decode([pull(*group)]))
    for batch in batches:
        batch.validate(full=True)
    assert [row for batch in batches for row in batch.to_pylist()] == whole.to_pylist()


@pytest.mark.parametrize(
    "time_ms", [-1, (1 << 63) - 1, -(1 << 63), 1_700_000_000_000 ^ (1 << 62), (1 << 63) // 1000 + 1]
)
@pytest.mark.parametrize("properties", [b"", b"WAIT\x01true\x02WAIT\x01true\x02"])
def test_a_time_that_no_clock_shows_costs_no_batch(time_ms: int, properties: bytes) -> None:
    odd = record(1, properties=properties, born_timestamp_ms=time_ms, store_timestamp_ms=time_ms)
    pulls = [pull(record(0), odd, record(2))]
    (decoded,) = BatchDecoder(SCHEMA).decode(pulls)
    assert decoded.equals(batch_one_by_one(SCHEMA, pulls))
    assert decoded.column("queueOffset").to_pylist() == [0, 1, 2]
