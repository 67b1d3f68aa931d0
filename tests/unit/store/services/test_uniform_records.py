"""Records that look alike are indexed as those that do not: the same keys, the same files."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.store import StoreConfig, StoredMessage
from sprocketmq.store.log.record_batch import read_records
from sprocketmq.store.memory_message_store import MemoryMessageStore
from sprocketmq.store.services import dispatch, uniform_records
from sprocketmq.store.services.uniform_records import UniformKeys, uniform_keys
from sprocketmq.wire.records.record import encode_record

NOW_MS = 1_795_276_800_000
START = 4096
Record = tuple[bytes, bytes, int, bool]


def log_of(records: list[Record]) -> bytes:
    log = b""
    for number, (topic, properties, sys_flag, born_v6) in enumerate(records):
        log += encode_record(
            topic, b"body %03d" % number, properties, queue_id=number, queue_offset=number * 3, flag=number,
            physical_offset=START + len(log), born_timestamp_ms=number, born_host=(b"1" * (16 if born_v6 else 4), number),
            store_timestamp_ms=NOW_MS + number, store_host=(b"1234", 1), sys_flag=sys_flag, reconsume_times=number,
        )  # fmt: skip
    return log


def gathered(data: bytes, *, tags: bool = True) -> list[tuple[int, int, int]]:
    """Hash, physical offset and store time of each key, column by column."""
    batch = read_records(memoryview(data), 0, len(data), START, 1_000)
    records, hashes, orders = dispatch.keys_of(batch, tags=tags)
    found = sorted(zip(records.tolist(), orders.tolist(), hashes.tolist(), strict=True))
    return [
        (key_hash, int(batch.physical_offset[record]), int(batch.store_timestamp[record]))
        for record, _, key_hash in found
        if batch.sys_flag[record] & 0xC != 0xC
    ]


def of_run(run: UniformKeys) -> list[tuple[int, int, int]]:
    columns = run.hashes, run.physical_offsets, run.store_timestamps
    return list(zip(*(column.tolist() for column in columns), strict=True))


def taken(data: bytes, *, tags: bool = True) -> UniformKeys | None:
    with patch.object(uniform_records, "_FEWEST_RECORDS", 2):
        return uniform_keys(memoryview(data + bytes(9)), 0, len(data), START, 1_000, tags=tags)


VALUES = st.sampled_from(["aa", "ab", "zz", "a ", "  ", "é", "a\x01", "a\x02", "\x7f\x7f"])
TEXTS = ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "X_UNIQ_KEY"]


@settings(max_examples=400)
@given(st.data())
def test_keys_of_records_that_look_alike_are_those_found_column_by_column(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(TEXTS), max_size=4))
    common = {name: data.draw(VALUES | st.just("")) for name in names}
    free = data.draw(st.sets(st.sampled_from(["UNIQ_KEY", "KEYS", "UNIQ_KEY", "TAGS"]), max_size=2))
    topic = data.draw(st.sampled_from([b"T", b"Topic-2", "été".encode(), b"x" * 130]))
    sys_flag = data.draw(st.sampled_from([0, 0, 8, 12, 4]))
    odd = data.draw(st.integers(0, 9))
    records: list[Record] = []
    for number in range(data.draw(st.integers(2, 6))):
        parts = [
            f"{name}\x01{data.draw(VALUES) if name in free and common[name] else common[name]}\x02" for name in names
        ]
        is_odd = number and odd < 3
        records.append(
            (
                b"t" * len(topic) if is_odd and odd == 0 else topic,
                "".join(parts).encode(),
                8 if is_odd and odd == 1 else sys_flag,
                odd == 2 or (odd == 3 and bool(number)),
            )
        )
    tags = data.draw(st.booleans())
    log = log_of(records)
    run = taken(log, tags=tags)
    if run is None:
        return
    until = run.end
    assert read_records(memoryview(log), 0, len(log), START, run.record_count).end == until
    assert of_run(run) == gathered(log[:until], tags=tags)


def alike(number: int, key: bytes = b"", tag: bytes = b"A", own: bytes = b"o") -> bytes:
    return b"UNIQ_KEY\x01%s\x02KEYS\x01k%04d\x02TAGS\x01%s\x02own\x01%s\x02" % (
        key or b"%05d" % number,
        number,
        tag,
        own,
    )


@pytest.mark.parametrize(
    ("odd", "is_uniform"),
    [
        ((b"T", alike(9), 0, False), True),
        ((b"T", alike(9, tag=b"B"), 0, False), False),
        ((b"T", alike(9, own=b"p"), 0, False), False),
        ((b"T", alike(9, key=b"a\x01bcd"), 0, False), False),
        ((b"T", alike(9, key=b"a\x02bcd"), 0, False), False),
        ((b"T", alike(9, key="aéb1".encode()), 0, False), False),
        ((b"T", alike(9).replace(b"k0009", b"k 009"), 0, False), False),
        ((b"U", alike(9), 0, False), False),
        ((b"T", alike(9), 12, False), False),
    ],
)
def test_one_odd_record_leaves_them_all_to_be_taken_apart(odd: Record, is_uniform: bool) -> None:
    log = log_of([*((b"T", alike(number), 0, False) for number in range(5)), odd])
    run = taken(log)
    assert (run is not None) is is_uniform
    if run is not None:
        assert (run.record_count, run.end) == (6, len(log))
        assert of_run(run) == gathered(log)
        assert len(run.hashes) == 18


@pytest.mark.parametrize("at", [4, 28, 36, 84, 97, 98])
def test_a_record_that_is_not_sound_is_no_part_of_a_run(at: int) -> None:
    records: list[Record] = [(b"T", alike(number), 0, False) for number in range(6)]
    log = bytearray(log_of(records))
    size = len(log) // 6
    log[3 * size + at] ^= 0x21
    assert taken(bytes(log)) is None
    assert taken(bytes(log)[: 3 * size]) is not None


def test_index_files_are_the_same_whether_records_are_taken_together_or_apart() -> None:
    def filled() -> bytes:
        config = StoreConfig(max_hash_slot_num=37, max_index_num=200)  # collisions, and several files
        store = MemoryMessageStore(config)
        store.load()
        for number in range(300):
            # Runs of different lengths, with other records between them.
            odd = b"" if number % 50 < 45 else b"KEYS\x01%s\x02" % (b"w " * (number % 7))
            raw = odd + alike(number, key=b"%05d" % (number // 2))
            store.append(StoredMessage("T", number % 3, b"body", raw), NOW_MS + number * 300)
            if number % 90 == 89:
                while store.dispatch(70):
                    pass
        while store.dispatch(70):
            pass
        files = [(file.header, bytes(file._mapping())) for file in store.index.files]
        assert len(files) > 3
        return repr(files).encode()

    with patch.object(uniform_records, "_FEWEST_RECORDS", 2):
        together = filled()
    with patch.object(uniform_records, "_FEWEST_RECORDS", 10_000):
        assert filled() == together
