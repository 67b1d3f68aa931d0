"""A month of micro-batches of a transactional stream through the sink's own classes, driver and task each a process, called as Spark calls
them: `make transaction-soak` for 100,000 of them, some hundred here. What a process holds does not grow with the number of batches, nor,
in the long run, the time of a batch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest
from month_process import GROUP, ROWS, TOPIC
from soak_samples import Series, anonymous_bytes

import sprocketmq as rmq
from interop.child import Child

BATCHES = int(os.environ.get("SPROCKETMQ_MICRO_BATCHES", "400"))
IS_LONG = BATCHES >= 10_000
HERE = Path(__file__).parent
# Slower by less than that is the machine.
SLOWER_SHARE, SLOWER_MS = 0.25, 2.0

Start = Callable[..., Child]

pytestmark = [pytest.mark.timeout(300 + BATCHES // 10)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def start(script: str, *arguments: str) -> Child:
        env = {"PYTHONPATH": f"{HERE.parents[1]}:{HERE}:{HERE.parents[2] / 'src'}"}
        log = tmp_path / f"{len(children)}.log"
        children.append(Child([sys.executable, str(HERE / script), *arguments], log, env))
        return children[-1]

    yield start
    for child in reversed(children):
        child.stop()


def test_what_a_query_holds_and_the_time_of_a_batch_do_not_grow_with_its_batches(start: Start, tmp_path: Path) -> None:
    broker = start("soak_broker.py", str(tmp_path / "store"))
    words = dict(word.split("=") for word in broker.read_line(60).split()[1:])
    namesrv_addr = words["namesrv"]
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_topic(TOPIC, queues=2)
    task, driver = (start("month_process.py", role, namesrv_addr) for role in ("task", "driver"))
    for child in (task, driver):
        assert child.read_line(120) == "ready"
    took_ms: list[float] = []
    memory: dict[str, list[tuple[float, float]]] = {"task": [], "driver": []}
    held = 0
    for batch in range(BATCHES):
        began_s = time.perf_counter()
        task.write_line(str(batch))
        driver.write_line(f"{batch} {task.read_line(60)}")
        held = max(held, int(driver.read_line(60)))
        took_ms.append((time.perf_counter() - began_s) * 1000)
        if batch % max(1, BATCHES // 200) == 0:
            memory["task"].append((batch, anonymous_bytes(task.pid)))
            memory["driver"].append((batch, anonymous_bytes(driver.pid)))
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        assert sum(admin.max_offset(queue) for queue in admin.queues(TOPIC)) == BATCHES * ROWS
    early, late = median(took_ms[BATCHES // 10 : BATCHES // 5]), median(took_ms[-BATCHES // 10 :])
    grown = {role: Series(points).growth() / (1 << 20) for role, points in memory.items()}
    last = {role: points[-1][1] / (1 << 20) for role, points in memory.items()}
    print(
        f"{BATCHES} batches of group {GROUP}: {early:.1f} ms each at first, {late:.1f} ms at last; {held} facts of the ledger held"
    )
    print(f"MiB: {last}, grown by {grown}")
    assert held < 8_000
    for role, points in memory.items():
        assert Series(points).is_flat(), f"memory of the {role} grew by {grown[role]:.1f} MiB"
    assert not IS_LONG or late <= early * (1 + SLOWER_SHARE) + SLOWER_MS
