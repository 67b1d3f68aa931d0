# SPDX-License-Identifier: Apache-2.0
"""A month of micro-batches of a transactional stream through the sink's own classes, broker, driver and task each a process, called as
Spark calls them: `make transaction-soak` for 100,000 of them, some hundred here. What a process holds does not grow with the number of
batches, nor the time of a batch: at the end of each tenth it is held against that of a young stream, with processes and a broker of its
own, batch by batch by turns, so that a machine that is slow for a while is slow for both."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

import sprocketmq as rmq
from interop.child import Child
from system.spark.month_process import GROUP, ROWS, TOPIC
from system.spark.soak_samples import Series, anonymous_bytes

BATCHES = int(os.environ.get("SPROCKETMQ_MICRO_BATCHES", "400"))
PARTS = 10 if BATCHES >= 10_000 else 1
# Of a young stream: what it needs to be warm, and what is compared.
WARM, PAIRS = (1_000, 500) if BATCHES >= 10_000 else (150, 100)
# An old batch takes at most so many times as long as a young one.
MOST_RATIO = 1.25
HERE = Path(__file__).parent

Start = Callable[..., Child]

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300 + BATCHES // 10)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def start(script: str, *arguments: str) -> Child:
        env = {"PYTHONPATH": f"{HERE.parents[1]}:{HERE.parents[2] / 'src'}"}
        log = tmp_path / f"{len(children)}.log"
        children.append(Child([sys.executable, str(HERE / script), *arguments], log, env))
        return children[-1]

    yield start
    for child in reversed(children):
        child.stop()


class Stream:
    """A transactional stream and its broker."""

    def __init__(self, start: Start, store: Path) -> None:
        broker = start("soak_broker.py", str(store))
        words = dict(word.split("=") for word in broker.read_line(60).split()[1:])
        self.namesrv_addr = words["namesrv"]
        with rmq.Admin(namesrv_addr=self.namesrv_addr) as admin:
            admin.create_topic(TOPIC, queues=2)
        task, driver = (start("month_process.py", role, self.namesrv_addr) for role in ("task", "driver"))
        self.children = {"task": task, "driver": driver, "broker": broker}
        for child in (task, driver):
            assert child.read_line(120) == "ready"
        self.batches = self.held = 0

    def batch(self) -> float:
        """How many milliseconds it took."""
        task, driver = self.children["task"], self.children["driver"]
        began_s = time.perf_counter()
        task.write_line(str(self.batches))
        driver.write_line(f"{self.batches} {task.read_line(60)}")
        self.held = max(self.held, int(driver.read_line(60)))
        self.batches += 1
        return (time.perf_counter() - began_s) * 1000

    def appeared(self) -> int:
        with rmq.Admin(namesrv_addr=self.namesrv_addr) as admin:
            return sum(admin.max_offset(queue) for queue in admin.queues(TOPIC))

    def stop(self) -> None:
        for child in self.children.values():
            child.stop()


def beside_a_young_one(old: Stream, start: Start, store: Path) -> float:
    """How many times as long a batch of ``old`` takes."""
    young = Stream(start, store)
    for _ in range(WARM):
        young.batch()
    ratio = median(old.batch() / young.batch() for _ in range(PAIRS))
    assert young.appeared() == young.batches * ROWS
    young.stop()
    return ratio


def test_what_a_query_holds_and_the_time_of_a_batch_do_not_grow_with_its_batches(start: Start, tmp_path: Path) -> None:
    old = Stream(start, tmp_path / "store")
    memory: dict[str, list[tuple[float, float]]] = {role: [] for role in old.children}
    ratio = 0.0
    print(f"\n{BATCHES} batches of group {GROUP}")
    for part in range(PARTS):
        took_ms: list[float] = []
        for number in range(BATCHES // PARTS):
            took_ms.append(old.batch())
            if number % max(1, BATCHES // 200) == 0:
                for role, child in old.children.items():
                    memory[role].append((old.batches, anonymous_bytes(child.pid)))
        ratio = beside_a_young_one(old, start, tmp_path / f"young-{part}")
        mib = ", ".join(f"{role} {points[-1][1] / (1 << 20):.1f} MiB" for role, points in memory.items())
        print(f"{old.batches:7}: {median(took_ms):.1f} ms each, {ratio:.2f} times a young one's; {mib}", flush=True)
    assert old.appeared() == old.batches * ROWS
    grown = {role: Series(points).growth() / (1 << 20) for role, points in memory.items()}
    print(
        f"grown by { ({role: f'{mib:.1f} MiB' for role, mib in grown.items()}) }; {old.held} facts of the ledger held"
    )
    assert old.held < 8_000
    for role, points in memory.items():
        assert Series(points).is_flat(), f"memory of the {role} grew by {grown[role]:.1f} MiB"
    assert ratio <= MOST_RATIO
