# SPDX-License-Identifier: Apache-2.0
"""Our own name server and broker as a user starts them: the `sprocketmq serve` command in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from interop.child import HANG_S, Child, poll_until
from interop.remoting import ask, create_topic, has_route

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Final = 200
_READY: Final = re.compile(r"ready namesrv=(\S+) broker=(\S+) pid=(\d+)")


class SprocketServer:
    """`sprocketmq serve` on free ports.

    Args:
        store_dir: default a folder that `stop` removes.
        ports: of name server and broker, for clients that outlive a kill; default any free ones, other ones at each start.
        checkout: another checkout of this project, set up by `make setup`; default the command installed beside this Python.
        prefix: what stands before the command: a program that runs it in its own way, and becomes it.
        settings: broker.conf keys for `--set`.
    """

    def __init__(
        self,
        store_dir: Path | None = None,
        *,
        ports: tuple[int, int] = (0, 0),
        checkout: Path | None = None,
        prefix: list[str] | None = None,
        **settings: str | int | bool,
    ) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="sprocket-"))
        self.store_dir = store_dir or self._scratch / "store"
        self.namesrv_addr = ""
        self.broker_addr = ""
        self.broker_pid = 0
        self.checkout = checkout
        self._prefix = prefix or []
        self._ports = ports
        self._settings = settings
        self._child: Child | None = None

    @staticmethod
    def command(checkout: Path | None = None) -> str | None:
        """Path of the installed command, None when there is none: beside this Python, or in the `.venv` of another checkout."""
        if checkout is not None:
            return shutil.which("sprocketmq", path=checkout / ".venv/bin")
        return shutil.which("sprocketmq", path=os.path.dirname(sys.executable)) or shutil.which("sprocketmq")

    def start(self, timeout_s: float = HANG_S) -> SprocketServer:
        """Return when it said that it is ready.

        Raises:
            TimeoutError, EOFError: it did not; its last words are in the message.
        """
        child = self.spawn()
        try:
            while not (ready := _READY.search(child.read_line(timeout_s))):
                pass
        except BaseException:
            self.stop()
            raise
        self.namesrv_addr, self.broker_addr, self.broker_pid = ready[1], ready[2], int(ready[3])
        return self

    def spawn(self) -> Child:
        """Start the process without waiting for anything: for who wants to kill it while it starts."""
        command = self.command(self.checkout)
        assert command is not None, "the sprocketmq command is not installed beside this Python"
        namesrv_port, broker_port = map(str, self._ports)
        args = [*self._prefix, command, "serve", "--store", str(self.store_dir)]
        args += ["--namesrv-port", namesrv_port, "--broker-port", broker_port]
        for key, value in self._settings.items():
            args += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        self._child = Child(args, self._scratch / "err.log")
        return self._child

    def create_topic(self, topic: str, queues: int = 8, **header: str) -> None:
        """Create a topic and wait until the name server knows it; `header` overrides fields of the request."""
        create_topic(self.broker_addr, topic, queues, header)
        poll_until(lambda: has_route(self.namesrv_addr, topic), f"topic {topic} reaches the name server")

    def create_group(self, group: str) -> None:
        """Create a consumer group, for a server that does not create them by itself."""
        body = json.dumps({"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16}).encode()
        answer = ask(self.broker_addr, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        assert answer.code == 0, answer.header

    def log_text(self) -> str:
        """What it logged so far, over all starts."""
        return (self._scratch / "err.log").read_text("utf-8", "replace")

    @property
    def exit_code(self) -> int | None:
        """Of the present process; None while it runs, or when none was started."""
        return None if self._child is None else self._child.exit_code

    def kill(self) -> None:
        """Kill it as a crash would; `start` starts anew on the same store."""
        assert self._child is not None, "the server is not started"
        self._child.kill()
        self._child = None

    def stop_process(self) -> int:
        """End it cleanly and return its exit code; the store stays."""
        assert self._child is not None, "the server is not started"
        code = self._child.stop()
        self._child = None
        return code

    def stop(self) -> None:
        """End it, and remove everything but a store folder that the caller gave."""
        if self._child is not None:
            self.stop_process()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> SprocketServer:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()
