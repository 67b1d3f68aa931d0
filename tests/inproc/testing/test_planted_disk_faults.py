# SPDX-License-Identifier: Apache-2.0
"""Faults of stores that stores have had: the simulator finds each within a few seeds."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sprocketmq.broker.settings import config_store
from sprocketmq.errors import RocketMQError
from sprocketmq.store import config_files, disk_message_store
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.store.files import mapped_file, mapped_progress
from sprocketmq.store.index.index_files import IndexFiles
from sprocketmq.store.recovery.losses import Losses, Stop
from sprocketmq.store.recovery.recovery import Recovery
from sprocketmq.store.services import flush
from sprocketmq.store.services.flush import Flusher
from sprocketmq.store.timer import timer_log, timer_wheel
from sprocketmq.testing.simulation import SimulationError, Weather, simulate
from sprocketmq.testing.simulation.users import RandomUsers

MOST_SEEDS = 40
Patch = pytest.MonkeyPatch


def done_at_once(self: Flusher, physical_offset: int) -> concurrent.futures.Future[None]:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    future.set_result(None)
    return future


def answered_before_the_sync(patch: Patch) -> None:
    patch.setattr(Flusher, "when_durable", done_at_once)


def files_are_not_synced(patch: Patch) -> None:
    patch.setattr(mapped_file, "sync_path", lambda path: None)


def folders_are_not_synced(patch: Patch) -> None:
    for module in (flush, mapped_file, config_files, disk_message_store, timer_log, timer_wheel):
        patch.setattr(module, "sync_directory", lambda path: None)


def the_end_is_read_after_the_sync(patch: Patch) -> None:
    def sync(self: Flusher, sync_log: Any = Flusher._sync_log) -> None:
        before = self.flushed_offset
        sync_log(self)
        if self.flushed_offset > before:
            with self._condition:
                self.flushed_offset = self._log.max_offset
            self._release_waiters()

    patch.setattr(Flusher, "_sync_log", sync)


def a_failed_sync_is_tried_again(patch: Patch) -> None:
    def sync(file: Any, sync: Any = mapped_file.MappedFile.sync) -> None:
        with contextlib.suppress(OSError):
            sync(file)
            return
        sync(file)

    patch.setattr(mapped_file.MappedFile, "sync", sync)


def the_checkpoint_is_ahead_of_its_log(patch: Patch) -> None:
    def sync(self: Flusher, at_once: int | None = 64, some: Any = Flusher._sync_some_queues) -> None:
        sync_log, self._sync_log = self._sync_log, lambda: None  # type: ignore[method-assign]
        try:
            some(self, at_once)
        finally:
            self._sync_log = sync_log  # type: ignore[method-assign]

    patch.setattr(Flusher, "_sync_some_queues", sync)


def tables_are_renamed_without_a_sync(patch: Patch) -> None:
    def replace(path: Any, raw: bytes, **_: Any) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with config_files.open(f"{path}.tmp", "wb") as file:  # type: ignore[attr-defined]
            file.write(raw)
        config_files.os.replace(f"{path}.tmp", path)  # type: ignore[attr-defined]

    patch.setattr(config_files, "replace_file", replace)


def progress_is_written_before_the_log(patch: Patch) -> None:
    def durable(self: Any, physical_offset: int) -> concurrent.futures.Future[None]:
        return done_at_once(self, physical_offset)

    class Store:
        def __init__(self, store: DiskMessageStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        when_durable = durable

    def init(self: Any, broker: Any, init: Any = config_store.ConfigStore.__init__) -> None:
        init(self, broker)
        self._store = Store(self._store)

    patch.setattr(config_store.ConfigStore, "__init__", init)


def a_kill_is_taken_for_a_clean_stop(patch: Patch) -> None:
    def find(*args: Any, find: Any = disk_message_store.find_losses, **more: Any) -> Losses:
        losses: Losses = find(*args, **more)
        losses.stop = Stop.CLEAN
        return losses

    patch.setattr(disk_message_store, "find_losses", find)


def lost_entries_are_not_rebuilt(patch: Patch) -> None:
    patch.setattr(Recovery, "_put", lambda self, queue, record, topic, from_first: True)


def records_are_not_checked(patch: Patch) -> None:
    def init(self: Recovery, *args: Any, init: Any = Recovery.__init__) -> None:
        init(self, *args)
        self._check_crc = False

    patch.setattr(Recovery, "__init__", init)


def the_index_is_trusted_after_a_crash(patch: Patch) -> None:
    patch.setattr(IndexFiles, "_durable_count", lambda self, file: None)


def live_progress_outlives_a_power_cut(patch: Patch) -> None:
    patch.setattr(mapped_progress, "file_mark", lambda file: bytes(16))


FAULTS: list[tuple[Callable[[Patch], None], list[str], list[str] | None]] = [
    (answered_before_the_sync, ["power"], None),
    (files_are_not_synced, ["power"], None),
    (folders_are_not_synced, ["power"], None),
    (the_end_is_read_after_the_sync, ["power", "slow"], None),
    (a_failed_sync_is_tried_again, ["errors", "power"], ["big"]),
    (the_checkpoint_is_ahead_of_its_log, ["power", "slow"], None),
    (tables_are_renamed_without_a_sync, ["power"], None),
    (progress_is_written_before_the_log, ["power"], None),
    (a_kill_is_taken_for_a_clean_stop, ["kills", "power"], ["big"]),
    (lost_entries_are_not_rebuilt, ["power"], None),
    (records_are_not_checked, ["power"], ["big"]),
    (the_index_is_trusted_after_a_crash, ["power"], None),
    (live_progress_outlives_a_power_cut, ["power"], None),
]


@contextlib.contextmanager
def planted(fault: Callable[[Patch], None]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # clients of a run that failed
        patch.setattr(RandomUsers, "AFTER_MS", 300_000)
        fault(patch)
        yield
        gc.collect()


def found_at(
    fault: Callable[[Patch], None], kinds: list[str], features: list[str] | None, seeds: int = MOST_SEEDS
) -> tuple[int, str]:
    """The first seed that finds it, and what it says; -1: none."""
    with planted(fault):
        for seed in range(1, seeds + 1):
            try:
                simulate(RandomUsers(150, features), seed=seed, weather=Weather(kinds), brokers=1, **RandomUsers.CONFIG)
            except (SimulationError, RocketMQError) as error:
                return seed, str(error)
    return -1, ""


QUICK = (files_are_not_synced, folders_are_not_synced, tables_are_renamed_without_a_sync)  # within seconds


@pytest.mark.parametrize(
    ("fault", "kinds", "features"),
    [
        pytest.param(*each, id=each[0].__name__, marks=pytest.mark.slow if each[0] in QUICK else pytest.mark.nightly)
        for each in FAULTS
    ],
)
def test_a_planted_fault_of_the_store_is_found(
    fault: Callable[[Patch], None], kinds: list[str], features: list[str] | None
) -> None:
    seed, _ = found_at(fault, kinds, features)
    assert seed > 0
