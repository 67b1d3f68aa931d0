# SPDX-License-Identifier: Apache-2.0
"""Append to a store until the disk is full, in a process of its own: a bus error shall end this one and not the test.

    python full_disk_writer.py STORE MESSAGES

Appends MESSAGES, says "prepared", waits for a line, appends until 30 appends in a row were refused, reads all back, checks the store,
and says how many there are. It ends without a clean stop.
"""

from __future__ import annotations

import contextlib
import sys

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import DiskMessageStore, StoreConfig, StoredMessage
from sprocketmq.store.tools.check import check_directory

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16 << 20,
    mapped_file_size_consume_queue=120_000,
    max_hash_slot_num=20_000,
    max_index_num=10_000,
)
QUEUES = 4
REFUSALS = 30


def append(store: DiskMessageStore, number: int) -> None:
    properties = b"UNIQ_KEY\x01%d\x02" % number
    store.append(StoredMessage("T", number % QUEUES, b"%0100d" % number * 10, properties), 1_700_000_000_000 + number)


def append_until_refused(store: DiskMessageStore, number: int) -> int:
    refused = 0
    while refused < REFUSALS:
        before = number
        with contextlib.suppress(StoreNotWritable):
            append(store, number)
            number += 1
            if number % 500 == 0:
                store.dispatch(500)
        refused = refused + 1 if number == before else 0
    return number


def main() -> None:
    store = DiskMessageStore(sys.argv[1], CONFIG)
    store.load()
    number = sum(store.max_offset("T", queue_id) for queue_id in range(QUEUES))
    for _ in range(int(sys.argv[2])):
        append(store, number)
        number += 1
    print("prepared", flush=True)
    sys.stdin.readline()
    number = append_until_refused(store, number)
    for queue_id in range(QUEUES):
        offset = 0
        while offset < store.max_offset("T", queue_id):
            result = store.read("T", queue_id, offset)
            assert result.next_offset > offset
            offset = result.next_offset
    store.flush()
    problems = [str(problem) for problem in check_directory(sys.argv[1]) if not problem.note]
    assert problems == [], problems
    print(number, flush=True)


if __name__ == "__main__":
    main()
