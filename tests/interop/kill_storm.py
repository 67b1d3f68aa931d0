# SPDX-License-Identifier: Apache-2.0
"""A broker under a mixed load that is killed again and again, at moments of all kinds, and audited after each restart.

    under load       SIGKILL while everything is under way
    while starting   SIGKILL somewhere in start and recovery, right after a kill
    while stopping   SIGTERM under load, SIGKILL somewhere in the clean stop

Now and then it is stopped cleanly: then the store's own check runs, and the next audit reads everything. `StormLedger` has the laws.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interop.forked_server import ForkedServer
from interop.storm_ledger import STORM_CONF, StormLedger
from sprocketmq.store.tools.check import check_directory


class KillStorm:
    """One store, one ledger, many kills. Use as a context manager.

    Args:
        folder: where the store and the server's log go.
        broker_port: fixed.
        seed: of work and moments; ``settings``: broker.conf keys beside `STORM_CONF`.
        check_every: kills between two clean stops.
    """

    def __init__(
        self,
        folder: Path,
        broker_port: int,
        seed: int,
        *,
        check_every: int = 50,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.ledger = StormLedger(seed)
        self.kills: Counter[str] = Counter()
        self.checks = 0
        self.too_late = 0  # clean stops that were over when the kill came; they do not count as kills
        self.store_dir, self.log_path = folder / "store", folder / "server.log"
        self._moments = random.Random(seed + 1)
        self._check_every = check_every
        self._server = ForkedServer(self.store_dir, self.log_path, broker_port, {**STORM_CONF, **(settings or {})})

    def __enter__(self) -> KillStorm:
        return self

    def __exit__(self, *args: object) -> None:
        self._server.close()

    def run(self, kills: int, deadline_s: float = float("inf")) -> Iterator[int]:
        """Yields the number of kills after each round, until there were ``kills`` or ``time.monotonic()`` is past the deadline.

        Raises:
            AssertionError: a law is broken; the first ones are in the message.
        """
        checked = 0
        first, whole = True, False
        while self.kills.total() < kills and time.monotonic() < deadline_s:
            self._server.spawn()
            if self._kill_while_starting():
                yield self.kills.total()
                continue
            self._server.wait_ready()
            if first:
                asyncio.run(self.ledger.create_names(self._server.broker_addr))
                first = False
            self._audit(whole=whole)
            whole = self.kills.total() - checked >= self._check_every
            if whole:
                checked = self.kills.total()
                asyncio.run(self.ledger.load(*self._addresses, _after(0.2)))
                self._stop_and_check()
                continue
            self._kill_under_load()
            yield self.kills.total()

    def settle(self, timeout_s: float = 180.0) -> None:
        """After the last kill: everything that waits happens, a clean stop leaves a sound store, a whole audit finds all laws kept.

        Raises:
            AssertionError, TimeoutError: it is not so.
        """
        self._server.spawn()
        self._server.wait_ready()
        deadline = time.monotonic() + timeout_s
        while True:
            asyncio.run(self.ledger.load(*self._addresses, _after(0.5), idle=True))
            self._audit()
            if not self.ledger.outstanding():
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"still to come after {timeout_s:g} s: {self.ledger.outstanding()}")
        self._stop_and_check()
        self._server.spawn()
        self._server.wait_ready()
        self._audit(whole=True)
        assert (broken := self.ledger.broken_deliveries()) == [], broken
        self._stop_and_check()
        log = self.log_path.read_text("utf-8", "replace")
        assert "Traceback" not in log, log[-3000:]

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    @property
    def _addresses(self) -> tuple[str, str]:
        return self._server.broker_addr, self._server.namesrv_addr

    def _audit(self, *, whole: bool = False) -> None:
        broken = asyncio.run(self.ledger.audit(*self._addresses, whole=whole))
        assert broken == [], f"after {self.kills.total()} kills: " + "\n".join(broken)

    def _kill_while_starting(self) -> bool:
        """Now and then, if there was a kill before."""
        if not self.kills or self._moments.random() > 0.2:
            return False
        time.sleep(self._moments.uniform(0, 0.25))
        self._count("while starting", self._server.kill())
        return True

    def _kill_under_load(self) -> None:
        if self._moments.random() < 0.2:
            wait_s = self._moments.uniform(0, 0.15)

            def end() -> None:
                self._server.signal(signal.SIGTERM)
                time.sleep(wait_s)
                self._count("while stopping", self._server.kill())

        else:

            def end() -> None:
                self._count("under load", self._server.kill())

        wanted = self.ledger.acknowledged + self._moments.randrange(1, 250)
        moment_s = self._moments.uniform(0, 0.05)
        ready: list[float] = []

        def enough() -> bool:
            if self.ledger.acknowledged < wanted:
                return False
            # A little later than right behind an answer.
            ready.append(time.monotonic())
            if ready[-1] - ready[0] < moment_s:
                return False
            end()
            return True

        asyncio.run(self.ledger.load(*self._addresses, enough))

    def _stop_and_check(self) -> None:
        code = self._server.stop()
        assert code == 0, f"a clean stop ended with {code}; see {self.log_path}"
        problems = [str(problem) for problem in check_directory(self.store_dir) if not problem.note]
        assert problems == [], problems[:20]
        self.checks += 1

    def _count(self, moment: str, code: int) -> None:
        assert code in (-signal.SIGKILL, 0), f"killed {moment}, it had ended with {code}; see {self.log_path}"
        if code:
            self.kills[moment] += 1
        else:
            self.too_late += 1


def _after(seconds: float) -> Callable[[], bool]:
    until_s = time.monotonic() + seconds
    return lambda: time.monotonic() >= until_s
