# SPDX-License-Identifier: Apache-2.0
"""What a power cut may have taken from a store: the records behind the place up to which its flusher says that they are on the disk."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.store import disk_message_store
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.store.message_store import MessageStore
from sprocketmq.store.queue.unit import UNIT
from sprocketmq.testing.simulation.loop import SimulationError
from sprocketmq.testing.simulation.replacements import Replacements, silence
from sprocketmq.wire.records.record import decode_record, decode_records
from sprocketmq.wire.text.fastjson import loads

_Queue = tuple[str, int]  # topic, queue id
_READ_BYTES: Final = 1 << 20
_SYSTEM_GROUPS: Final = "CID_RMQ_SYS_"  # the broker's own


class Losses:
    """Of one broker. ``at_risk``: bodies of records that were not on the disk when it lost its power, and that its next start, once it has
    loaded the store, has not found."""

    def __init__(self) -> None:
        self.at_risk: set[bytes] = set()
        self._lost: set[bytes] = set()
        self._unflushed: set[tuple[int, bytes]] = set()  # places and bodies, as the last process left them
        self._ends: dict[_Queue, int] = {}
        self._reused: dict[_Queue, set[int]] = {}
        self._power_was_cut = False
        self._loaded: DiskMessageStore | None = None
        self._tables: set[str] = set()  # that the last start has found

    def process_ends(self, store: DiskMessageStore, *, power: bool) -> None:
        if store is self._loaded:  # else its start has taken nothing
            self._unflushed |= set(_bodies(store, store.flushed_offset))
            for queue in store.queues():  # a start that is cut off has less
                self._ends[queue] = max(store.max_offset(*queue), self._ends.get(queue, 0))
        if power:
            self._power_was_cut = True
            self.at_risk = self._lost | {body for _, body in self._unflushed}

    def store_is_loaded(self, store: DiskMessageStore) -> None:
        if self._power_was_cut:
            self._lost |= {body for place, body in self._unflushed if not _has(store, place, body)}
            self.at_risk = self._lost
            for queue, end in self._ends.items():
                self._reused.setdefault(queue, set()).update(range(store.max_offset(*queue), end))
        self._unflushed, self._ends, self._power_was_cut, self._loaded = set(), {}, False, store

    def check_progress(self, found: list[tuple[str, str, int, int]], store: DiskMessageStore) -> None:
        """``found``: the progress that was on the disk before this start. What it counts must be in the log. A client that has lost
        messages may have committed more, so its word counts only before the first loss of a queue."""
        for name, topic, queue_id, offset in found:
            end = store.max_offset(topic, queue_id)
            is_of_clients = bool(name) and not name.startswith(_SYSTEM_GROUPS)
            if offset > end and not (is_of_clients and self._reused.get((topic, queue_id))):
                raise SimulationError(
                    f"the progress of {name or 'delays'} in {topic}, queue {queue_id}, is {offset}, and the end {end}"
                )

    def check_tables(self, store_path: Path) -> None:
        """A table has its name at each moment at which its process may be killed."""
        names = {path.name for path in store_path.glob("config/*.json")}
        if not self._power_was_cut and (gone := self._tables - names):
            raise SimulationError(f"{', '.join(sorted(gone))}: a start has found it, and the next one does not")
        self._tables = names

    def skipped(self, store: MessageStore) -> Iterator[bytes]:
        """Bodies of messages at offsets that lost ones had before: a group that consumed those has passed them."""
        for (topic, queue_id), offsets in self._reused.items():
            for offset in offsets:
                for chunk in store.read(topic, queue_id, offset, 1, _READ_BYTES).chunks:
                    yield from (message.body for message in decode_records(chunk))

    def check_said(self, entries: dict[_Queue, list[int]], store: DiskMessageStore, lines: list[str]) -> None:
        """A start that finds queue entries of messages that the log does not have any more says so. ``entries``: places in the log of the
        entries that were on the disk; ``lines``: what it has logged at WARNING or above."""
        end = store.max_physical_offset
        for (topic, queue_id), places in entries.items():
            lost = [place for place in places[store.max_offset(topic, queue_id) :] if place >= end]
            if lost and not lines:
                raise SimulationError(
                    f"{len(lost)} messages of {topic}, queue {queue_id}, did not reach the disk, and the start says nothing"
                )


def entries_on_disk(store_path: Path) -> dict[_Queue, list[int]]:
    """Of queues that begin at 0: places in the log, in order, up to the first entry that is empty."""
    found: dict[_Queue, list[int]] = {}
    for folder in sorted(store_path.glob("consumequeue/*/*")):
        raw = b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.name.isdigit())
        if (folder / f"{0:020d}").exists():
            units = (UNIT.unpack_from(raw, at) for at in range(0, len(raw) - UNIT.size + 1, UNIT.size))
            found[folder.parent.name, int(folder.name)] = [
                place for place, _, _ in itertools.takewhile(lambda unit: unit[1] > 0, units)
            ]
    return found


@contextlib.contextmanager
def warnings_of_store() -> Iterator[list[str]]:
    """What the store logs at WARNING or above meanwhile."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    with silence(logging.NOTSET), Replacements() as replacements:
        replacements.set(disk_message_store._log, "propagate", False)
        replacements.set(handler, "emit", lambda record: lines.append(record.getMessage()))
        disk_message_store._log.addHandler(handler)
        replacements.callback(disk_message_store._log.removeHandler, handler)
        yield lines


def _has(store: DiskMessageStore, place: int, body: bytes) -> bool:
    record = store.record_at(place) if place < store.max_physical_offset else None
    return record is not None and decode_record(bytes(record)).body == body


def _bodies(store: DiskMessageStore, at: int) -> Iterator[tuple[int, bytes]]:
    """With their places in the log."""
    size = store.config.mapped_file_size_commit_log
    while at < store.max_physical_offset:
        record = store.record_at(at)
        if record is None:  # the rest of a file
            at += size - at % size
            continue
        yield at, decode_record(bytes(record)).body
        at += len(record)


def progress_on_disk(store_path: Path) -> list[tuple[str, str, int, int]]:
    """Group (empty: the delivery of delayed messages), topic, queue, offset."""
    found: list[tuple[str, str, int, int]] = []
    for name in ("consumerOffset.json", "delayOffset.json"):
        file = store_path / "config" / name
        table: dict[Any, Any] = loads(file.read_bytes())["offsetTable"] if file.exists() else {}
        for key, value in table.items():
            topic, _, group = str(key).partition("@")
            if group:
                found += [(group, topic, int(queue_id), offset) for queue_id, offset in value.items()]
            else:
                found.append(("", SCHEDULE_TOPIC, int(key) - 1, value))
    return found
