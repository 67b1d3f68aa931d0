# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq store check DIR``; tests check each store by it, too. Nothing is changed.

What is missing is found as at a start (``recovery.losses``). Of the log: records follow each other without a gap, across blanks;
each has a sound structure, a correct body checksum and its own physical offset; behind the end there is nothing. Of each queue:
entries are dense, in the order of the log, and each record has the same topic, queue and offset; every record that should have an
entry has one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.lock_file import is_held, was_last_held_by_ours
from sprocketmq.store.files.mapped_file_queue import length_of
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.message_store import MessageStore
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, has_unit
from sprocketmq.store.recovery.losses import Losses, Stop, find_losses, lost_entries, lost_messages, messages_text
from sprocketmq.store.store_config import StoreConfig
from sprocketmq.store.tools.check_auxiliary_files import check_auxiliary_files, loaded
from sprocketmq.store.tools.check_report import Problem, StoreSummary

_UNITS_AT_ONCE = 4_096

Ranges = Sequence[tuple[int, int]]


def check_directory(
    path: str | os.PathLike[str], config: StoreConfig | None = None, summary: StoreSummary | None = None
) -> Iterator[Problem]:
    """Check the store in ``path`` while no broker has it open; file sizes are taken from the files that are there. Raises
    StoreCorrupt (``path`` is not a store directory, or its files do not fit together at all)."""
    store = open_read_only(path, config)
    root, checkpoint = store.path or "", store.checkpoint
    summary = StoreSummary() if summary is None else summary
    was_ours = was_last_held_by_ours(root)
    losses = find_losses(store, is_ours=was_ours)
    try:
        if losses.stop is not Stop.CLEAN and os.path.exists(os.path.join(root, "abort")):
            yield Problem(
                root,
                "a broker is running here: what follows may be what it is writing at this moment; stop it first"
                if is_held(root)
                else "its broker was killed (the file abort is there): the next start repairs what follows here",
                note=True,
            )
        for lost in losses.lost:
            yield Problem("commitlog", f"{lost}; a start refuses this unless acceptStoreLoss is true")
        for (topic, queue_id), why in losses.queues.items():
            yield Problem(f"{topic}/{queue_id}", f"{why}; the next start builds this queue anew from the log")
        totals = checkpoint.queue_totals
        deleted = yield from loaded(
            os.path.join(root, "config", "deletedTopics.json"),
            lambda raw: msgspec.json.decode(raw, type=dict[str, int]),
        )
        # Topics that were counted may have been deleted since, see Recovery.
        if totals is not None and was_ours and all(end < totals.log_end for end in (deleted or {}).values()):
            lost_of_queues = lost_entries(totals, store.consume_queues.totals_before(totals.log_end))
            if lost_of_queues is not None:
                yield Problem("consumequeue", f"{lost_of_queues}; the next start builds them anew from the log")
        yield from check_store(store, summary, losses)
        yield from check_auxiliary_files(store, root, summary)
    finally:
        store.unmap()


def open_read_only(path: str | os.PathLike[str], config: StoreConfig | None = None) -> MessageStore:
    """Log and queues are loaded, the end of the log is not searched, the index is not loaded. A broker may have the store open.
    Raises as ``check_directory``."""
    root = os.path.abspath(os.fspath(path))
    config = config or StoreConfig()
    log_path = config.store_path_commit_log or os.path.join(root, "commitlog")
    if not os.path.isdir(log_path):
        raise StoreCorrupt(
            f"{root} is not a store directory: it has no folder commitlog; give the storePathRootDir of a broker"
        )
    log_size = _usual_file_size(log_path, 1, 128)
    queue_size = _usual_file_size(os.path.join(root, "consumequeue"), UNIT.size)
    checkpoint = Checkpoint(os.path.join(root, "checkpoint"))
    checkpoint.load()
    slot_count, entry_limit = checkpoint.index_numbers or (config.max_hash_slot_num, config.max_index_num)
    config = replace(
        config,
        max_hash_slot_num=slot_count,
        max_index_num=entry_limit,
        mapped_file_size_commit_log=log_size or config.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=queue_size or config.mapped_file_size_consume_queue,
    )
    store = MessageStore(config, root, read_only=True)
    store.load_files()
    store.commit_log.end_at(store.commit_log.files.end)
    return store


def _usual_file_size(directory: str, unit_bytes: int, least_bytes: int = 1) -> int:
    """The size of most files, because a damaged one may be shorter or longer. 0 if no file has a possible size."""
    sizes: Counter[int] = Counter()
    for folder, _, names in os.walk(directory):
        for name in names:
            if len(name) == 20 and name.isdigit():
                length = length_of(os.path.join(folder, name))
                if length >= 0:
                    sizes[length] += 1
    whole = {size: count for size, count in sizes.items() if size >= least_bytes and size % unit_bytes == 0}
    return max(whole, key=lambda size: (whole[size], size), default=0)


def check_store(
    store: MessageStore, summary: StoreSummary | None = None, losses: Losses | None = None
) -> Iterator[Problem]:
    """Check an open store, from the thread that owns it. With ``losses``, which are reported already: one that was opened for
    reading; then the end of its log is found, too."""
    summary = StoreSummary() if summary is None else summary
    log, end = store.commit_log, store.max_physical_offset
    if losses is None:
        walk = LogWalk(log, log.min_offset, end, check_crc=True, sound_until=end, known_end=end)
    else:
        walk = LogWalk(log, log.min_offset, check_crc=True, sound_until=losses.sound_until, known_end=losses.log_end)
        for queue in store.consume_queues.queues.values():
            queue.min_offset = queue.first_from(log.min_offset)
    lost = [] if losses is None else [(one.begin, one.end) for one in losses.lost]
    orphans: Counter[tuple[str, int]] = Counter()
    yield from _check_log(store, walk, orphans, summary)
    for begin, behind in walk.damages.items():
        if not any(lost_from < behind and begin < lost_to for lost_from, lost_to in lost):
            missing = messages_text(lost_messages(store.consume_queues, begin, behind))
            yield Problem(f"commitlog at {begin}", f"no valid record begins before {behind}: lost is {missing}")
    if losses is not None:
        log.end_at(walk.at)
    elif walk.at < end:
        yield Problem(f"commitlog at {walk.at}", f"no valid record begins here, but the log goes on to {end}")
    if log.has_data_after_end():
        yield Problem(f"commitlog at {log.max_offset}", "the log ends here, but bytes that are not zero follow")
    for _, queue in sorted(store.consume_queues.queues.items()):
        summary.queue_count += 1
        yield from _check_queue(log, queue, summary, [*lost, *walk.damages.items()])
    for (topic, queue_id), count in sorted(orphans.items()):
        what = f"the log has {count} records without a queue: the topic was deleted, or its queue files are lost"
        yield Problem(f"{topic}/{queue_id}", what, note=True)


def _check_log(
    store: MessageStore, walk: LogWalk, orphans: Counter[tuple[str, int]], summary: StoreSummary
) -> Iterator[Problem]:
    queues = store.consume_queues.queues
    for record in walk.records():
        at, key = record.physical_offset, (record.topic_bytes.decode("utf-8", "backslashreplace"), record.queue_id)
        if walk.damaged_bodies[-1:] == [at]:
            what = f"the body of its record at {at} has a wrong checksum; it is delivered as it is"
            yield Problem(f"{key[0]}/{key[1]}/{record.queue_offset}", what)
        summary.record_count += 1
        summary.record_bytes += record.size
        summary.newest_timestamp_ms = max(summary.newest_timestamp_ms, record.store_timestamp_ms)
        if has_unit(record.sys_flag):
            queue = queues.get(key)
            if queue is None or not queue.max_offset:
                orphans[key] += 1
            elif not _has_entry(queue, record.queue_offset, at):
                yield Problem(
                    f"commitlog at {at}", f"this record of {key[0]}/{key[1]}/{record.queue_offset} has no queue entry"
                )


def _has_entry(queue: ConsumeQueue, offset: int, physical_offset: int) -> bool:
    first = queue.unit_bytes(queue.min_offset, 1)
    if first and UNIT.unpack(first)[0] > physical_offset:
        return True  # from before its topic was deleted and created again: the queue has only later records
    unit = queue.unit_bytes(offset, 1)
    return bool(unit) and UNIT.unpack(unit)[0] >= physical_offset


def _check_queue(log: CommitLog, queue: ConsumeQueue, summary: StoreSummary, damages: Ranges) -> Iterator[Problem]:
    name = f"{queue.topic}/{queue.queue_id}"
    before = -1
    offset = queue.min_offset
    while offset < queue.max_offset:
        raw = queue.unit_bytes(offset, _UNITS_AT_ONCE)
        if not raw:
            yield Problem(f"{name}/{offset}", f"the queue goes on to {queue.max_offset}, but its file is missing")
            return
        for physical_offset, size, _ in UNIT.iter_unpack(raw):
            summary.entry_count += 1
            if size != FILLER_SIZE and not any(begin <= physical_offset < end for begin, end in damages):
                problem = _entry_problem(log, queue, offset, physical_offset, size)
                if problem:
                    yield Problem(f"{name}/{offset}", problem)
                if physical_offset <= before:
                    yield Problem(
                        f"{name}/{offset}", f"its record at {physical_offset} lies before that of the entry before it"
                    )
            before = physical_offset
            offset += 1
    behind = queue.files.file_at(queue.max_offset * UNIT.size)
    if behind is not None and any(behind.read(queue.max_offset * UNIT.size - behind.start, UNIT.size)):
        yield Problem(f"{name}/{queue.max_offset}", "the queue ends here, but bytes that are not zero follow")


def _entry_problem(log: CommitLog, queue: ConsumeQueue, offset: int, physical_offset: int, size: int) -> str:
    record = log.view_at(physical_offset)
    if record is None:
        return f"it points at {physical_offset}, where no record begins"
    if record.size != size:
        return f"it says {size} bytes, its record has {record.size}"
    found = (record.topic_bytes, record.queue_id, record.queue_offset)
    if found != (queue.topic_bytes, queue.queue_id, offset):
        return (
            f"its record at {physical_offset} belongs to {record.topic_bytes!r}/{record.queue_id}/{record.queue_offset}"
        )
    return ""
