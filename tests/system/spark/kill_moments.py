# SPDX-License-Identifier: Apache-2.0
"""Driver and workers of three streams (killed_pipelines) are killed at random moments while rows flow; then all that they wrote is judged.

    producer --steady rows--> embedded broker (here, it survives) <--> child: JVM, driver, Spark's Python processes <--SIGKILL-- killer
                                                                 `--> standalone_cluster: workers, their executors <-------'

Without a cluster, executors are threads of the driver's JVM. At each fifth kill the broker restarts, at each seventh the topic raw gets a
queue more, up to twelve.

Who is killed, and when, is dealt by a seed from a deck (``_DECK``): the driver with its JVM; an executor, a worker or a Python process
of Spark; or whoever reaches a named point. The seed repeats the deal, not the machine's timing.

When nothing moves any more, kill_verdict says whether its laws hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from system.spark.kill_verdict import Judge, Verdict
from system.spark.killed_pipelines import DRIVER_POINTS, NAMES, POINTS
from system.spark.spark_processes import Found, kill, session_of
from system.spark.standalone_cluster import StandaloneCluster

# A new driver takes a busy machine minutes: most kills leave it alone.
_DECK: Final = ("driver", *["point"] * 4, *["worker"] * 5)
_DRIVER_AT_POINT: Final = 0.15
_ROWS_PER_S: Final = 15
_LIFE_S: Final = 600.0
# A slow machine makes the storm slow and nothing else: so long nothing new may come at the end.
_QUIET_S: Final = 240.0
_POINT_S: Final = 45.0
BROKER_EACH: Final = 5
QUEUE_EACH: Final = 7
QUEUES: Final = 3
MOST_QUEUES: Final = 12
_CHILD: Final = Path(__file__).with_name("killed_pipelines.py")


class KillMoments:
    """One storm. A context manager; ``run``, then ``judged``.

    Args:
        directory: empty; everything that is needed to look into a failure stays there.
        seed: of the deal.
        cluster: a standalone master and two workers run the executors, else they are threads of the driver's JVM.
    """

    def __init__(self, directory: Path, seed: int, *, cluster: bool = False) -> None:
        self.directory, self.seed = directory, seed
        path = [str(_CHILD.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._env = {"PYTHONPATH": os.pathsep.join(path), "KILL_IN": str(directory)}
        self._cluster = StandaloneCluster(directory / "cluster", self._env) if cluster else None
        self._sending = threading.Lock()
        self._raw_queues = QUEUES
        self._random = random.Random(seed)
        self._hand: list[str] = []
        self.kills: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()  # points that nobody reached in time: no kill
        self.changes: Counter[str] = Counter()  # of the broker
        self._orders = 0
        self.sent: dict[str, int] = {"raw": 0, "work": 0}
        self._child: subprocess.Popen[bytes] | None = None
        self._lives: list[int] = []
        self._stopped = threading.Event()
        self.mq = EmbeddedRocketMQ(
            clock="system", store_dir=directory / "store", messageDelayLevel="1s 1s 1s 1s 1s 1s 1s",
            # Old enough halves are asked about, again and again: a driver may be away for longer than fifteen questions take.
            transactionTimeOut=5_000, transactionCheckInterval=2_000, transactionCheckMax=100_000,
        )  # fmt: skip

    def __enter__(self) -> KillMoments:
        with contextlib.ExitStack() as opened:
            opened.enter_context(self.mq)
            for topic in ("raw", "work", "copied", "exact", "good"):
                self.mq.create_topic(topic, queues=self._raw_queues)
            if self._cluster is not None:
                opened.enter_context(self._cluster)
            self._opened = opened.pop_all()
        self._load = threading.Thread(target=self._flow, name="load")
        self._load.start()
        self._live()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._load.join()
        for leader in self._lives:
            for found in session_of(leader):
                kill(found.pid)
        if self._child is not None:
            self._child.wait()
        self._opened.close()

    # -- load ------------------------------------------------------------------------------------------------------------------

    def _flow(self) -> None:
        with self.mq.producer("load") as producer:
            while not self._stopped.wait(3 / _ROWS_PER_S):  # three rows to each topic
                with self._sending:
                    for topic, count in self.sent.items():
                        bodies = range(count, count + 3)
                        producer.send_batch([rmq.Message(topic, b"%d" % at, keys=f"k{at}") for at in bodies])
                        self.sent[topic] += 3

    def _change_the_broker(self, number: int) -> None:
        """A send that was under way might be stored and not answered, and its rows be there twice: none is."""
        if number % BROKER_EACH == 0:
            with self._sending:
                self.mq.restart_broker()
            self._note(number, "broker restarted", self.changes)
        if number % QUEUE_EACH == 0 and self._raw_queues < MOST_QUEUES:
            self._raw_queues += 1
            self.mq.create_topic("raw", queues=self._raw_queues)
            self._note(number, "a queue more", self.changes)

    # -- life and death --------------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        """Workers and driver that are dead live again."""
        if self._cluster is not None:
            self._cluster.revive()
        child = self._child
        if child is not None and child.poll() not in (None, -signal.SIGKILL):
            raise AssertionError(f"the driver ended by itself ({child.returncode}); see {self.directory}/child.log")
        if child is None or child.poll() is not None:
            for name in ("started", "running", "pids"):
                (self.directory / name).unlink(missing_ok=True)
            url = self._cluster.url if self._cluster is not None else ""
            with open(self.directory / "child.log", "ab") as log:
                self._child = subprocess.Popen(
                    [sys.executable, str(_CHILD), self.mq.namesrv_addr, str(self.directory), str(self.seed), *NAMES],
                    env={**os.environ, **self._env, "KILL_CLUSTER": url},
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            self._lives.append(self._child.pid)

    def _await(self, name: str, within_s: float = _LIFE_S) -> bool:
        """Whether file ``name`` appears; what dies meanwhile lives again."""
        deadline_s = time.monotonic() + within_s
        while True:
            self._live()
            if (self.directory / name).exists():
                return True
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.05)

    def run(self, kills: int, until_s: float = float("inf")) -> Iterator[int]:
        """Kill so often, but not after ``until_s`` (monotonic); the number of each kill is yielded."""
        number = 1
        while number <= kills and time.monotonic() < until_s:
            # Some kills hit streams that come back to life, or fail to.
            ready = "started" if self._random.random() < 0.4 else "running"
            if not self._await(ready):
                raise AssertionError(
                    f"the streams did not come back (seed {self.seed}); see {self.directory}/child.log"
                )
            self._hand = self._hand or self._random.sample(_DECK, len(_DECK))
            if getattr(self, f"_kill_{self._hand.pop()}")(number):
                self._change_the_broker(number)
                yield number
                number += 1

    def _pause(self, longest_s: float) -> None:
        time.sleep(self._random.uniform(0, longest_s))

    def _kill_driver(self, number: int) -> bool:
        self._pause(4.0)
        assert self._child is not None
        jvms = [found.pid for found in self._processes() if found.role == "jvm"]
        for pid in [*jvms, self._child.pid]:
            kill(pid)
        self._child.wait()
        self._note(number, "driver")
        return True

    def _kill_worker(self, number: int) -> bool:
        """Some process that Spark started: every role has the same chance, however many there are of it."""
        self._pause(3.0)
        deadline_s = time.monotonic() + 60
        roles: dict[str, list[int]] = {}
        while not roles and time.monotonic() < deadline_s:
            for found in self._processes():
                if found.role not in ("jvm", "driver", "master"):
                    roles.setdefault(found.role, []).append(found.pid)
        role = self._random.choice(sorted(roles))
        kill(self._random.choice(sorted(roles[role])))
        self._note(number, role)
        self._settle_down()
        return True

    def _kill_point(self, number: int) -> bool:
        """Whether somebody came by."""
        self._orders += 1
        child = self._child  # it may die, and another be there, before its death is seen
        victim = "driver" if self._random.random() < _DRIVER_AT_POINT else "self"
        point = self._random.choice(POINTS if victim == "driver" else [at for at in POINTS if at not in DRIVER_POINTS])
        passes = self._random.choice((0, 0, 1, 2))
        draft, order = self.directory / "kill-draft", self.directory / "kill-at"
        draft.write_text(f"{self._orders} {point} {victim} {passes}", "ascii")
        draft.rename(order)
        if not self._await(f"killed-{self._orders}", _POINT_S):
            order.unlink(missing_ok=True)
            if not (self.directory / f"killed-{self._orders}").exists():
                self.missed[point] += 1
                return False
        self._note(number, f"{point} ({victim})")
        if victim == "driver":
            assert child is not None
            child.wait(30)
        else:
            self._settle_down()
        return True

    def _settle_down(self) -> None:
        """A query that failed is started again by its driver: once that is seen, the next kill meets streams at work."""
        time.sleep(0.3)

    def _note(self, number: int, what: str, among: Counter[str] | None = None) -> None:
        (self.kills if among is None else among)[what] += 1
        with open(self.directory / "kills.jsonl", "a") as file:
            file.write(json.dumps({"time": time.time(), "number": number, "what": what}) + "\n")

    def _processes(self) -> list[Found]:
        own = list(session_of(self._child.pid)) if self._child is not None else []
        return own + (self._cluster.processes() if self._cluster is not None else [])

    def cores(self) -> list[str]:
        """Of the executors, in each life of the driver; none without a cluster."""
        lives = (self.directory / "lives.jsonl").read_text("ascii").splitlines()
        return [json.loads(life)["cores"] for life in lives if '"cores"' in life]

    # -- the judgement ---------------------------------------------------------------------------------------------------------

    def judged(self) -> Verdict:
        """Stop the load, wait until everything has arrived, and see."""
        self._stopped.set()
        self._load.join()
        judge = Judge(self.mq.messages, self.directory, self.seed, self.sent)
        came, deadline_s = -1, 0.0
        while self._open_halves() or not judge.all_came():
            if judge.came() > came:
                came, deadline_s = judge.came(), time.monotonic() + _QUIET_S
            elif time.monotonic() > deadline_s:
                break  # nothing moves any more: let the judge say what is missing
            self._live()
            time.sleep(1)
        (self.directory / "stop").touch()
        assert self._child is not None
        self._child.wait(120)
        verdict = judge.verdict()
        verdict.counts["kills"] = self.kills.total()
        verdict.holds("half messages are open", ["nobody ended them"] * self._open_halves())
        (self.directory / "verdict.json").write_text(json.dumps([verdict.counts, verdict.broken], indent=1))
        return verdict

    def _open_halves(self) -> int:
        return self.mq._on_loop(lambda: self.mq.broker.transactions.open_count)
