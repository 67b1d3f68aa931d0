# SPDX-License-Identifier: Apache-2.0
"""A real disk that another process fills: sends are refused with code 14, and nothing else happens. Longer: `make full-disk`."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import full_disk_writer
from interop.apache_cluster import free_ports
from interop.child import Child
from interop.full_disk import THENS, FullDisk
from interop.small_disk import KINDS, CannotMount, SmallDisk
from sprocketmq.store.tools.check import check_directory

pytestmark = pytest.mark.timeout(300)

MIB = 1 << 20
# None, and enough for the last step of space to get a part of what it asks for.
LEFT_BYTES = (0, 3 * MIB // 2)
ROUNDS = int(os.environ.get("SPROCKETMQ_FULL_DISK_ROUNDS", "0"))
SHORT = {"ext4": "kill", "xfs": "stop"}


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(request.param, tmp_path)
    try:
        disk.__enter__()
    except CannotMount as error:
        pytest.skip(str(error))
    yield disk
    disk.__exit__()


@pytest.fixture
def seed() -> int:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return seed


@pytest.mark.parametrize("disk", KINDS if ROUNDS else SHORT, indirect=True)
@pytest.mark.timeout(3_600 if ROUNDS else 300)
def test_a_disk_that_runs_full_under_load_costs_no_message_and_no_broker(disk, seed):
    moments, first = random.Random(seed), free_ports(1)
    thens = [moments.choice(THENS) for _ in range(ROUNDS)] or [SHORT[disk.kind]]
    with FullDisk(disk, (first, first + 1), seed) as broker:
        for turn, then in enumerate(thens, 1):
            print(f"{disk.kind}, round {turn} of {len(thens)}: {then}", flush=True)
            broker.run_full(then)
        broker.settle()
        assert set(broker.refused) == {14}
        assert broker.receipts


@pytest.mark.parametrize("left_bytes", LEFT_BYTES)
def test_a_store_on_a_full_disk_refuses_what_has_no_space_and_is_opened_again(disk, left_bytes, tmp_path):
    def writer(messages: int) -> Child:
        command = [sys.executable, str(full_disk_writer.__file__), str(disk.path / "store"), str(messages)]
        child = Child(command, tmp_path / "err.log")
        assert child.read_line() == "prepared"
        return child

    def ended(child: Child) -> int:
        child.write_line("")
        count = int(child.read_line())
        assert child.wait() == 0
        child.kill()
        return count

    first = writer(3_000)
    disk.fill(left_bytes)
    count = ended(first)
    assert count >= 3_000
    again = ended(writer(0))  # where the first one ended without a clean stop
    assert again >= count
    disk.free()
    assert [str(problem) for problem in check_directory(disk.path / "store") if not problem.note] == []
    disk.fill(left_bytes)
    assert ended(writer(0)) >= again
