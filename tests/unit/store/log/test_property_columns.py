# SPDX-License-Identifier: Apache-2.0
"""Keys of many records at once are those of each record alone, whatever the records look like."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from producer_shapes import shapes
from sprocketmq.store import MessageStore, StoreConfig, StoredMessage
from sprocketmq.store.log import property_columns
from sprocketmq.store.log.property_columns import PropertyTexts
from sprocketmq.store.log.record_batch import read_records
from sprocketmq.store.services.dispatch import index_texts, keys_of
from sprocketmq.wire.hashing import index_hash, java_hash
from sprocketmq.wire.records.properties import get_property
from sprocketmq.wire.records.record import encode_record

NOW_MS = 1_795_276_800_000
START = 4096
NAMES = ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "KEYSX", "UNIQ_KEX", "UNIQ", "UNIQKKEY", "TAG", "été", ""]


def log_of(records):
    """Of topic, properties, sysFlag, and whether the host is IPv6."""
    log = b""
    for number, (topic, properties, sys_flag, born_v6) in enumerate(records):
        log += encode_record(
            topic, b"body %03d" % number, properties, queue_id=number, queue_offset=number * 3, flag=number,
            physical_offset=START + len(log), born_timestamp_ms=number, born_host=(b"1" * (16 if born_v6 else 4), number),
            store_timestamp_ms=NOW_MS + number, store_host=(b"1234", 1), sys_flag=sys_flag, reconsume_times=number,
        )  # fmt: skip
    return log


def batch_of(records):
    log = log_of(records)
    # Nothing follows: a start sees a file only up to the hole at its end, and a record may end there.
    batch = read_records(memoryview(log), 0, len(log), START, 10_000)
    assert (len(batch), batch.end) == (len(records), len(log))
    return batch


def keys_one_by_one(records, *, tags):
    found = []
    for number, (raw_topic, properties, _, _) in enumerate(records):
        try:
            topic = raw_topic.decode()
        except UnicodeDecodeError:  # no query can name such a key
            continue
        found += [(number, index_hash(text)) for text in index_texts(topic, properties, tags=tags)]
    return found


def keys_at_once(batch, *, tags=True):
    return list(zip(*(column.tolist() for column in keys_of(batch, tags=tags)), strict=True))


VALUES = st.text(st.sampled_from("ab 1é\U0001f680\x01\x7f"), max_size=6)
PROPERTIES = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
)


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"T", b"Topic-2", "été".encode(), b"x" * 130, b"\xff"]),
            PROPERTIES | PROPERTIES.map(lambda raw: raw[:-1]) | st.binary(max_size=12),
            st.sampled_from([0, 4, 8, 12]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.booleans(),
    st.sampled_from([1, 64, 1 << 17]),
)
def test_keys_found_for_many_records_at_once_are_those_found_one_by_one(records, tags, bytes_at_once):
    with patch.object(property_columns, "_TEXT_BYTES_AT_ONCE", bytes_at_once):
        assert keys_at_once(batch_of(records), tags=tags) == keys_one_by_one(records, tags=tags)


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_keys_of_what_real_producers_write(shape):
    dice = random.Random(20261124)
    texts = [shape.make(number, dice)[1] for number in range(300)]
    records = [(b"flights", text, 0, False) for text in texts]
    found = keys_at_once(batch_of(records))
    assert found == keys_one_by_one(records, tags=True)


@pytest.mark.parametrize("seed", range(3))
def test_values_and_hashes_are_those_of_each_text(seed):
    dice = random.Random(seed)
    letters = ["abc \x7f", "aé\U0001f680 ", "a\x01"][seed]
    texts = []
    for _ in range(200):
        pairs = [
            (dice.choice(NAMES), "".join(dice.choices(letters, k=dice.choice([0, 1, 2, 9, 40, 3_000]))))
            for _ in range(5)
        ]
        texts.append("".join(f"{name}\x01{value}\x02" for name, value in pairs).encode())
    batch = batch_of([(b"T", text, 0, False) for text in texts])
    nothing_before = np.zeros(200, np.uint32)
    for name in ("UNIQ_KEY", "KEYS", "TAGS"):
        found = {}
        for columns in PropertyTexts(batch).columns(200):
            values = columns.values(name)
            hashes = columns.hashes(values.begins, values.ends, nothing_before[values.records]).view(np.int32)
            found.update(zip(values.records.tolist(), hashes.tolist(), strict=True))
        expected = {number: get_property(text, name) for number, text in enumerate(texts)}
        assert found == {number: java_hash(value) for number, value in expected.items() if value}


def test_spaces_are_counted_for_each_record():
    texts = [b"KEYS\x01a b  c\x02", b"", b"KEYS\x01a\x02", b" "]
    assert PropertyTexts(batch_of([(b"T", text, 0, False) for text in texts])).spaces.tolist() == [3, 0, 0, 1]


@pytest.mark.parametrize("at", [4, 28, 84, 96, 98])
def test_a_record_that_is_not_sound_ends_the_batch(at):
    log = bytearray(log_of([(b"T", b"KEYS\x01k%04d\x02" % number, 0, False) for number in range(6)]))
    size = len(log) // 6
    log[3 * size + at] ^= 0x21
    assert len(read_records(memoryview(log), 0, len(log), START, 100)) == 3


@pytest.mark.parametrize("at_once", [1, 13, 70])
def test_index_files_are_the_same_however_many_records_are_taken_together(at_once):
    def filled(most):
        config = StoreConfig(max_hash_slot_num=37, max_index_num=200)  # collisions, and several files
        store = MessageStore(config)
        store.load()
        for number in range(300):
            odd = b"" if number % 50 < 45 else b"KEYS\x01%s\x02" % (b"w " * (number % 7))
            raw = odd + b"UNIQ_KEY\x01%05d\x02KEYS\x01k%d\x02TAGS\x01A\x02" % (number // 2, number)
            store.append(StoredMessage("T", number % 3, b"body", raw), NOW_MS + number * 300)
        while store.dispatch(most):
            pass
        files = [(file.header, bytes(file._mapping())) for file in store.index.files]
        assert len(files) > 3
        return repr(files).encode()

    assert filled(at_once) == filled(1_000)


def test_memory_that_another_thread_took_at_the_same_moment_is_made_anew():
    class Raced(list[object]):
        """It had an item a moment ago."""

        def __bool__(self):
            return True

    batch = batch_of([(b"T", b"KEYS\x01a\x02", 0, False)])
    with patch.object(property_columns, "_spare_memory", Raced()):
        assert keys_at_once(batch) == keys_one_by_one([(b"T", b"KEYS\x01a\x02", 0, False)], tags=True)
