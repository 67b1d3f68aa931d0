# SPDX-License-Identifier: Apache-2.0
"""`sprocketmq serve` again and again, in processes forked from one that has imported everything: for who kills it hundreds of times.

Each child runs the command's own entry point on its arguments, just without waiting half a second for imports; a SIGKILL hits it
as it hits any other process.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from interop.child import HANG_S, Child

_READY: Final = re.compile(r"ready namesrv=(\S+) broker=(\S+) pid=(\d+)")
_ENDED: Final = re.compile(r"ended (-?\d+)")


class ForkedServer:
    """One server at a time on one store. ``spawn``, then ``wait_ready``; ``kill`` or ``stop`` ends the process, ``close`` the parent.

    Args:
        store_dir: of the server; ``log_path``: where its stderr goes, all starts in one file.
        broker_port: fixed, so that message ids stay the same.
        settings: broker.conf keys for `--set`.
    """

    def __init__(self, store_dir: Path, log_path: Path, broker_port: int, settings: Mapping[str, Any]) -> None:
        self.store_dir, self.log_path = store_dir, log_path
        self.broker_addr = f"127.0.0.1:{broker_port}"
        self.namesrv_addr = ""
        self.pid = 0
        self._args = ["serve", "--store", str(store_dir), "--namesrv-port", "0", "--broker-port", str(broker_port)]
        for key, value in settings.items():
            self._args += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        tests = str(Path(__file__).resolve().parents[1])
        env = {"PYTHONPATH": tests, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._parent = Child([sys.executable, "-m", "interop.forked_server"], log_path, env)

    def spawn(self) -> None:
        """Start the process; it is alive when this returns, and knows nothing yet."""
        self._parent.write_line(json.dumps(self._args))
        line = self._parent.read_line(60)
        assert line.startswith("forked "), line
        self.pid = int(line.split()[1])

    def wait_ready(self, timeout_s: float = HANG_S) -> None:
        """Return when it serves.

        Raises:
            RuntimeError: it ended instead; its last words are in the message.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._parent.read_line(deadline - time.monotonic())
            if ready := _READY.search(line):
                self.namesrv_addr = ready[1]
                return
            if ended := _ENDED.search(line):
                self.pid = 0
                raise RuntimeError(f"the server ended with {ended[1]} at its start; {self._parent.last_words()}")

    def kill(self) -> int:
        """SIGKILL now; returns how it ended: -9, or what it exited with just before."""
        self.signal(signal.SIGKILL)
        return self.wait_ended()

    def stop(self) -> int:
        """A clean stop; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_ended()

    def signal(self, number: int) -> None:
        # The parent reaps it and then says so; a signal in between finds nobody, which is as well.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait_ended(self, timeout_s: float = HANG_S) -> int:
        deadline = time.monotonic() + timeout_s
        while not (ended := _ENDED.search(self._parent.read_line(deadline - time.monotonic()))):
            pass
        self.pid = 0
        return int(ended[1])

    def close(self) -> None:
        if self.pid:
            self.kill()
        self._parent.stop()


def _run_child(args: list[str]) -> None:
    """In the fork: the command, and nothing of the parent behind it."""
    code = 70
    try:
        from sprocketmq.cli.main import main

        sys.argv = ["sprocketmq", *args]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever it is, it belongs into the log and must not reach the parent's loop
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve_forks() -> None:
    import sprocketmq.cli.main
    import sprocketmq.cli.serve.servers  # noqa: F401 - everything that a start would import

    for line in sys.stdin:
        args = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(0)  # the parent's commands are not the server's
            os.open(os.devnull, os.O_RDONLY)
            _run_child(args)
        print(f"forked {pid}", flush=True)
        _, status = os.waitpid(pid, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    _serve_forks()
