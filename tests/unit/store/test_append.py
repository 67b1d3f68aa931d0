# SPDX-License-Identifier: Apache-2.0
"""Both ways to append a message leave the same bytes, and the record is that of ``encode_record``."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.store import StoreConfig, StoredMessage
from sprocketmq.wire.records.record import RecordView, encode_record

from .stores import NOW_MS, open_memory

ROOMY = StoreConfig(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=2000)
INT32 = st.integers(-(2**31), 2**31 - 1)
HOSTS = st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 65_535))
MESSAGES = st.builds(
    StoredMessage,
    topic=st.sampled_from(("T", "t" * 127)),
    queue_id=st.integers(0, 3),
    body=st.binary(min_size=1, max_size=300),
    properties=st.sampled_from((b"", b"TAGS\x01a\x02", b"UNIQ_KEY\x010A\x02KEYS\x01k\x02WAIT\x01false")),
    flag=INT32,
    sys_flag=st.sampled_from((0, 0x1, 0x2, 0x300)),
    born_timestamp_ms=st.integers(0, 2**62),
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=INT32,
    tags_code=INT32,
)


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_a_message_is_stored_the_same_by_both_ways_to_append(messages):
    common, general = open_memory(ROOMY), open_memory(ROOMY)
    for number, message in enumerate(messages):
        found = common.append(message, NOW_MS + number)
        queue = general.consume_queues.open(message.topic, message.queue_id)
        assert found == general._append_general(queue, message, NOW_MS + number)
        assert common.record_at(found.physical_offset) == encode_record(
            message.topic.encode(),
            message.body,
            message.properties,
            queue_id=message.queue_id,
            queue_offset=found.queue_offset,
            physical_offset=found.physical_offset,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            store_timestamp_ms=NOW_MS + number,
            store_host=message.store_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
        )
    logs, units = [], []
    for store in (common, general):
        log = store.commit_log
        logs.append((log.max_offset, log.last_store_timestamp_ms, log.indexed_offset, bytes(log.view[: log.at + 8])))
        units.append({key: store.units(*key, 0, 10) for key in store.queues()})
    assert logs[0] == logs[1]
    assert units[0] == units[1]


def test_a_message_with_an_ipv6_host_is_stored():
    store = open_memory(ROOMY)
    host = (bytes(range(16)), 10_911)
    found = store.append(StoredMessage("T", 0, b"body", b"", sys_flag=0x30, born_host=host, store_host=host), NOW_MS)
    record = store.record_at(found.physical_offset)
    assert (RecordView(record).born_host, RecordView(record).store_host) == (host, host)
