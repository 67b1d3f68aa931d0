# SPDX-License-Identifier: Apache-2.0
"""Waiting records read from one view of the log: all kinds of them, damaged ones, and what they say about where they want to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from sprocketmq.broker.delivery.waiting_records import WaitingRecords, copy_of, destination
from sprocketmq.store import DiskMessageStore, MessageStore, StoreConfig, StoredMessage
from sprocketmq.wire.records import properties as props

PARKED = props.encode_properties({props.TAGS: "a", props.REAL_TOPIC: "flights", props.REAL_QID: "3"})
IPV6 = (b"\x20" + bytes(14) + b"\x01", 9876)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    config = StoreConfig(mapped_file_size_commit_log=4096)
    opened: MessageStore = (
        MessageStore(config) if request.param == "memory" else DiskMessageStore(tmp_path / "store", config)
    )
    opened.load()
    yield opened
    opened.close()


def test_each_record_is_found_across_files_in_any_order_and_whatever_its_kind(store):
    put = []
    for n in range(40):
        message = StoredMessage(
            "waiting" if n % 3 else "w" * 200,
            0,
            b"%d" % n * 20,
            PARKED,
            flag=n,
            born_timestamp_ms=n,
            born_host=IPV6 if n % 5 == 0 else (b"\x0a\x00\x00\x01", 1234),
            store_host=IPV6 if n % 7 == 0 else (b"\x0a\x00\x00\x02", 10911),
            reconsume_times=n,
        )
        put.append((message, store.append(message, 1).physical_offset))
    records = WaitingRecords(store)
    for message, physical_offset in [*put, *reversed(put)]:
        copy = copy_of(records.get(physical_offset), "flights", 3, PARKED)
        assert (copy.topic, copy.queue_id, bytes(copy.body), copy.properties) == ("flights", 3, message.body, PARKED)
        assert (copy.flag, copy.born_timestamp_ms, copy.born_host, copy.store_host, copy.reconsume_times) == (
            message.flag, message.born_timestamp_ms, message.born_host, message.store_host, message.reconsume_times,
        )  # fmt: skip
        assert copy.tags_code == ord("a")


def test_no_record_is_found_where_none_begins(store):
    first = store.append(StoredMessage("waiting", 0, b"x" * 100, PARKED), 1)
    second = store.append(StoredMessage("waiting", 0, b"x" * 100, PARKED), 1)
    records = WaitingRecords(store)
    assert records.get(first.physical_offset) is not None
    for nowhere in (-1, 1, second.physical_offset + 4, second.physical_offset + second.size, 1 << 50):
        assert records.get(nowhere) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [(3, b"\x01"), (7, b"\x00"), (35, b"\x09"), (87, b"\xff"), (-1, b"\x00")],
    ids=["size", "magic", "physical offset", "body length", "a page that never reached the disk"],
)
def test_a_damaged_record_is_not_found_but_its_neighbours_are(tmp_path, place, value):
    store = DiskMessageStore(tmp_path / "store", StoreConfig())
    store.load()
    results = [store.append(StoredMessage("waiting", 0, b"x", PARKED), 1) for _ in range(3)]
    at = results[1].physical_offset + (place if place >= 0 else results[1].size + place)
    store.commit_log.view[at : at + 1] = value
    records = WaitingRecords(store)
    assert [records.get(result.physical_offset) is None for result in results] == [False, True, False]
    store.close()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({props.REAL_TOPIC: "t", props.REAL_QID: "7"}, ("t", 7)),
        ({props.TAGS: "a", props.REAL_TOPIC: "t", props.REAL_QID: "7"}, ("t", 7)),
        ({props.REAL_QID: "7", "a": "b", props.REAL_TOPIC: "t", "c": "d"}, ("t", 7)),
        ({"a": "b", props.REAL_TOPIC: "t"}, ("t", 0)),
        ({"a": "b", props.REAL_TOPIC: "t", props.REAL_QID: "-1"}, ("t", 0)),
        ({"a": "b", props.REAL_TOPIC: "t", props.REAL_QID: "\u00b2"}, ("t", 0)),
        ({"a": "b", props.REAL_TOPIC: "t", props.REAL_QID: "9" * 30}, ("t", 0)),
        ({"a": "b", props.REAL_TOPIC: "t" * 400, props.REAL_QID: "1"}, ("t" * 400, 1)),
        ({"a": "b", props.REAL_QID: "1"}, ("", 1)),
        ({}, ("", 0)),
    ],
)
def test_the_destination_of_a_message_is_read_from_its_properties(properties, expected):
    for _ in range(2):  # the second answer comes from memory
        assert destination(props.encode_properties(properties)) == expected


def test_the_last_of_two_real_topics_counts_unless_it_is_empty():
    two = b"a\x01b\x02REAL_TOPIC\x01old\x02REAL_QID\x011\x02REAL_TOPIC\x01new\x02REAL_QID\x012\x02"
    assert destination(two) == ("new", 2)
    assert destination(two + b"REAL_TOPIC\x01\x02REAL_QID\x01\x02") == ("new", 2)
