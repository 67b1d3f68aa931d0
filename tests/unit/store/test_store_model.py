# SPDX-License-Identifier: Apache-2.0
"""Random histories against a naive model: lists of bodies. Both stores; the disk store is also stopped, killed and reopened."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from examples import examples
from sprocketmq.store import DiskMessageStore, MessageStore, ReadStatus
from sprocketmq.wire.records.record import decode_records

from .stores import NOW_MS, SMALL, batch_of, crash, message, problems

QUEUES = [("T", 0), ("T", 1), ("%RETRY%g", 0)]
queues = st.sampled_from(QUEUES)
sizes = st.integers(min_value=1, max_value=700)
CONFIG = dataclasses.replace(SMALL, max_mapped_queue_files=2)  # every third append meets an unmapped queue


class StoreAgainstLists(RuleBasedStateMachine):
    on_disk = False

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="store-model-"))
        self.number = 0
        self.now_ms = NOW_MS
        self.model: dict[tuple[str, int], list[tuple[bytes, int]]] = {key: [] for key in QUEUES}

    @initialize()
    def open(self):
        self.path = self.root / "s0"
        self.store: DiskMessageStore | MessageStore = (
            DiskMessageStore(self.path, CONFIG) if self.on_disk else MessageStore(CONFIG)
        )
        self.store.load()

    def body(self, size):
        self.number += 1
        return (b"%d." % self.number * size)[:size]

    @rule(key=queues, size=sizes, passed_ms=st.integers(0, 3))
    def append(self, key, size, passed_ms):
        self.now_ms += passed_ms
        body = self.body(size)
        result = self.store.append(message(*key, body), self.now_ms)
        assert result.queue_offset == len(self.model[key])
        self.model[key].append((body, self.now_ms))

    @rule(key=queues, batch=st.lists(st.integers(1, 150), min_size=1, max_size=6))
    def append_batch(self, key, batch):
        bodies = [self.body(size) for size in batch]
        result = self.store.append_batch(batch_of([message(*key, body) for body in bodies]), self.now_ms)
        assert (result.queue_offset, len(result.physical_offsets)) == (len(self.model[key]), len(bodies))
        self.model[key] += [(body, self.now_ms) for body in bodies]

    @rule(key=queues, offset=st.integers(-1, 60), count=st.integers(1, 40), limit=st.integers(1, 3000))
    def read(self, key, offset, count, limit):
        expected = self.model[key]
        result = self.store.read(*key, offset, count, limit)
        if not expected:
            assert result.status is ReadStatus.NO_MESSAGE_IN_QUEUE
        elif not 0 <= offset < len(expected):
            assert result.count == 0
            assert result.status is not ReadStatus.FOUND
        else:
            read = [m for chunk in result.chunks for m in decode_records(chunk)]
            assert [m.body for m in read] == [body for body, _ in expected[offset : offset + len(read)]]
            assert [m.queue_offset for m in read] == list(range(offset, offset + len(read)))
            assert 1 <= len(read) <= count
            assert len(read) == 1 or result.bytes <= limit
            assert result.next_offset == offset + len(read)

    @rule(key=queues, ago_ms=st.integers(-2, 30))
    def search(self, key, ago_ms):
        at = self.now_ms - ago_ms
        times = [stored for _, stored in self.model[key]]
        first = next((index for index, stored in enumerate(times) if stored >= at), len(times))
        assert self.store.offset_by_time(*key, at) == first

    @rule()
    def flush(self):
        self.store.flush()
        assert self.store.flushed_offset == self.store.max_physical_offset

    @precondition(lambda self: self.on_disk)
    @rule()
    def stop_and_start(self):
        self.store.close()
        self.store = DiskMessageStore(self.path, CONFIG)
        self.store.load()

    @precondition(lambda self: self.on_disk)
    @rule(lose_queues=st.booleans())
    def kill_and_start(self, lose_queues):
        assert isinstance(self.store, DiskMessageStore)
        self.path = crash(self.store, self.root / f"s{self.number}-{len(list(self.root.iterdir()))}")
        self.store.close()
        if lose_queues:
            shutil.rmtree(self.path / "consumequeue", ignore_errors=True)
        self.store = DiskMessageStore(self.path, CONFIG)
        self.store.load()

    @invariant()
    def ends_agree(self):
        if hasattr(self, "store"):
            for key, expected in self.model.items():
                assert self.store.max_offset(*key) == len(expected)

    def teardown(self):
        if hasattr(self, "store"):
            for key, expected in self.model.items():
                found: list[bytes] = []
                while len(found) < len(expected):
                    found += [
                        m.body for chunk in self.store.read(*key, len(found)).chunks for m in decode_records(chunk)
                    ]
                assert found == [body for body, _ in expected]
            assert problems(self.store) == []
            self.store.close()
        shutil.rmtree(self.root)


class DiskAgainstLists(StoreAgainstLists):
    on_disk = True


@pytest.mark.parametrize("machine", [StoreAgainstLists, DiskAgainstLists])
def test_any_history_reads_back_as_a_list(machine):
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(20), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
