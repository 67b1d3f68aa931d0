# SPDX-License-Identifier: Apache-2.0
"""The second half of a store check. Index: entries are in the order of the log, each points at a record with a key of that hash,
and each chain of a slot contains only entries of that slot. Checkpoint: no field is newer than the log. Offsets: none is beyond
the end of its queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.errors import RocketMQError, StoreError
from sprocketmq.store.config_files import load_config, missing_tables
from sprocketmq.store.files.checkpoint import INDEX_AHEAD_MS
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.services.dispatch import keys_of
from sprocketmq.store.tools.check_report import Problem, StoreSummary
from sprocketmq.wire.bodies import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from sprocketmq.wire.records.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK_TYPE

if TYPE_CHECKING:
    from sprocketmq.store.log.record_batch import RecordBatch
    from sprocketmq.store.message_store import MessageStore

T = TypeVar("T")


def check_auxiliary_files(store: MessageStore, root: str, summary: StoreSummary) -> Iterator[Problem]:
    crashed = os.path.exists(os.path.join(root, "abort"))
    try:
        store.index.load(clean_stop=True)
    except (StoreError, OSError) as error:
        yield Problem(os.path.join(root, "index"), str(error), note=True)
    else:
        yield from check_index(store, summary, after_crash=crashed)
    for name, what in missing_tables(root).items():
        yield Problem(name, f"{what}; a start refuses this unless acceptStoreLoss is true")
    yield from _check_checkpoint(store, root, summary, crashed)
    yield from _check_consumer_offsets(store, root, summary)
    yield from _check_delay_offsets(store, root, summary)


# -- index ---------------------------------------------------------------------------------------------------------------------


def check_index(store: MessageStore, summary: StoreSummary, *, after_crash: bool = False) -> Iterator[Problem]:
    files = store.index.files
    summary.index_file_count = len(files)
    if not files:
        return
    for file in files:
        yield from _check_chains(file, after_crash)
    yield from _check_entries(store, summary, after_crash)


def _check_chains(file: IndexFile, after_crash: bool) -> Iterator[Problem]:
    import numpy as np

    entries = file.columns()
    if not len(entries):
        return
    numbers = np.arange(1, len(entries) + 1)
    places = entries["hash"].astype(np.int64) % file.slot_count
    newest = np.zeros(file.slot_count, np.int64)
    newest[places] = numbers
    for number in numbers[(entries["before"] > numbers) | (entries["before"] < 0)][:10].tolist():
        yield Problem(f"index/{file.name}/{number}", "its chain does not lead to older entries")
    # A Java broker that opens the index of a killed one treats the stale number of a slot as an older entry; readers stop at such an entry.
    for number in numbers[entries["before"] == numbers][:10].tolist():
        yield Problem(f"index/{file.name}/{number}", "its chain ends in itself", note=True)
    before = entries["before"].astype(np.int64)
    linked = (before > 0) & (before < numbers)  # the others were reported above
    wrong = numbers[linked][places[before[linked] - 1] != places[linked]]
    slots = file.slots()
    heads = np.flatnonzero((slots > 0) & (slots <= len(entries)) & (slots != newest))
    # A killed Java broker leaves slots for entries that it did not count any more; its readers compare hashes.
    for number in wrong[:10].tolist():
        yield Problem(f"index/{file.name}/{number}", "the entry before it belongs to another slot", note=True)
    for place in heads[:10].tolist():
        yield Problem(
            f"index/{file.name}", f"slot {place} says {slots[place]}, its newest entry is {newest[place]}", note=True
        )
    missing = np.flatnonzero((newest > 0) & ((slots <= 0) | (slots > len(entries))))
    if len(missing) and not after_crash:
        yield Problem(f"index/{file.name}", f"{len(missing)} slots do not lead to their entries")


def _check_entries(store: MessageStore, summary: StoreSummary, after_crash: bool) -> Iterator[Problem]:
    """Walk log and index side by side: both are in the order of the log."""
    import numpy as np

    files = store.index.files
    offsets = np.concatenate([file.columns()["physical_offset"].astype(np.int64) for file in files])
    hashes = np.concatenate([file.columns()["hash"].astype(np.int64) for file in files])
    summary.key_count = len(offsets)
    for place in np.flatnonzero(np.diff(offsets) < 0)[:10].tolist():
        yield Problem("index", f"entry {place + 2} points before the entry before it")
        return
    log, missing = store.commit_log, 0
    end = log.max_offset
    done = int(np.searchsorted(offsets, log.min_offset))
    walk = LogWalk(log, log.min_offset, end, sound_until=end, known_end=end)
    for batch in walk.batches():
        wanted = _keys(batch, tags=True)
        upto = int(np.searchsorted(offsets, walk.at))
        found = set(zip(offsets[done:upto].tolist(), hashes[done:upto].tolist(), strict=True))
        for offset, key_hash in sorted(found - wanted)[:10]:
            yield Problem("index", f"an entry with hash {key_hash} points at {offset}, where no record has such a key")
        missing += len(_keys(batch, tags=False) - found)  # 4.9 does not index tags
        done = upto
    if done < len(offsets):
        what = f"{len(offsets) - done} entries point behind the end of the log at {end}"
        yield Problem("index", what, note=after_crash)
    if missing:
        yield Problem(
            "index", f"{missing} keys of the log have no entry; the next start continues building it", note=True
        )


def _keys(batch: RecordBatch, *, tags: bool) -> set[tuple[int, int]]:
    """(physical offset, hash) of every entry that the records of a batch should have."""
    records, hashes = keys_of(batch, tags=tags)
    kept = (batch.sys_flag[records] & TRANSACTION_MASK) != TRANSACTION_ROLLBACK_TYPE
    return set(zip(batch.physical_offset[records][kept].tolist(), hashes[kept].tolist(), strict=True))


# -- checkpoint and offsets --------------------------------------------------------------------------------------------------------


def _check_checkpoint(store: MessageStore, root: str, summary: StoreSummary, crashed: bool) -> Iterator[Problem]:
    path = os.path.join(root, "checkpoint")
    checkpoint, log = store.checkpoint, store.commit_log
    if not log.max_offset:
        return
    for name in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"):
        time_ms = getattr(checkpoint, name)
        # A Java broker keeps the values that ours wrote while running.
        ahead_ms = INDEX_AHEAD_MS if name == "index_msg_timestamp" else 0
        if time_ms > summary.newest_timestamp_ms + ahead_ms:
            what = f"{name} is {time_ms}, the newest record in the log was stored at {summary.newest_timestamp_ms}"
            yield Problem(path, what, note=crashed)
    durable = checkpoint.durable_offset
    if durable is not None and durable >= log.min_offset and log.view_at(durable) is None:
        yield Problem(path, f"its durable offset is {durable}, where no record begins", note=crashed)
    if checkpoint.index_mark is not None and checkpoint.index_mark[1] > log.max_offset:
        yield Problem(
            path, f"its index mark is {checkpoint.index_mark[1]}, the log ends at {log.max_offset}", note=crashed
        )


def loaded(path: str, parse: Callable[[bytes], T]) -> Generator[Problem, None, T | None]:
    """None if the file does not exist, or if it cannot be read, which is reported."""
    try:
        return load_config(path, parse)
    except RocketMQError as error:
        yield Problem(path, str(error))
        return None


def _check_consumer_offsets(store: MessageStore, root: str, summary: StoreSummary) -> Iterator[Problem]:
    path = os.path.join(root, "config", "consumerOffset.json")
    wrapper = yield from loaded(path, ConsumerOffsetSerializeWrapper.decode)
    for key, offsets in (wrapper.offset_table if wrapper else {}).items():
        topic, _, group = key.partition("@")
        for queue_id, offset in offsets.items():
            summary.offset_count += 1
            end = store.max_offset(topic, queue_id)
            if offset > end:
                yield Problem(
                    path, f"group {group} is at {offset} of {topic}/{queue_id}, which ends at {end}", note=not end
                )


def _check_delay_offsets(store: MessageStore, root: str, summary: StoreSummary) -> Iterator[Problem]:
    path = os.path.join(root, "config", "delayOffset.json")
    wrapper = yield from loaded(path, DelayOffsetSerializeWrapper.decode)
    for level, offset in (wrapper.offset_table if wrapper else {}).items():
        summary.offset_count += 1
        end = store.max_offset(SCHEDULE_TOPIC, level - 1)
        if offset > end:
            yield Problem(path, f"delay level {level} is at {offset} of its queue, which ends at {end}")
