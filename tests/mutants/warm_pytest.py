# SPDX-License-Identifier: Apache-2.0
"""A Python that has pytest and its plug-ins loaded already, and forks for each run: half of a short test's cost would else be that.

Nothing of the project is loaded before the fork, so each run sees the code as it is then. A run's output goes to a file; its whole process
group dies with it. As a script it serves one copy of the tree, its working folder, with one JSON list of pytest's arguments per line, and
answers each with the exit code, or with "late".
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_LOOK_S = 0.02
LATE = "late"
# Hypothesis writes its own modules' assertions anew where it is not loaded yet; nobody needs that here.
_OPTIONS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


class WarmPytest:
    """The parent's end. ``run`` is for one thread at a time; ``close`` ends the process."""

    def __init__(self, folder: Path, environment: dict[str, str], limit_s: float) -> None:
        self._output = folder / "output-of-pytest"
        self._process = subprocess.Popen(
            # -B: to pytest, bytecode of one mutant is that of another one if both have the same length and were written in the same second.
            [sys.executable, "-B", __file__, str(self._output), str(limit_s)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str]) -> tuple[int | None, str]:
        """Exit code (None: it did not end) and all that it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"the process that runs pytest has ended with {self._process.wait()}")
        return None if answer == LATE else int(answer), self._output.read_text("utf-8", "replace")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(output: str, limit_s: float) -> None:
    import _hypothesis_pytestplugin  # noqa: F401
    import hypothesis.strategies  # noqa: F401
    import pytest
    import pytest_timeout  # noqa: F401
    from hypothesis import Phase, settings

    # To make a failing example small takes far longer than to find it, and nobody reads it. The tests' own profile falls back on this.
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate, Phase.target))
    settings.load_profile("mutants")

    loaded = [name for name in sys.modules if name.partition(".")[0] in ("sprocketmq", "pyspark_rocketmq")]
    assert not loaded, f"{loaded[0]} is loaded before the first run"
    for line in sys.stdin:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
                os.dup2(os.open(output if number else os.devnull, flags), number)
            os.dup2(1, 2)
            # As "python -m pytest" has it: the working folder in the place of the script's.
            sys.path[0] = os.getcwd()
            sys.argv = ["pytest"]
            sys.exit(pytest.main([*_OPTIONS, *json.loads(line)]))
        print(_ended(pid, limit_s), flush=True)


def _ended(pid: int, limit_s: float) -> str:
    deadline_s = time.monotonic() + limit_s
    late = False
    try:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return LATE if late else str(os.waitstatus_to_exitcode(status))
            if time.monotonic() > deadline_s:
                late = True
                _kill(pid)
            time.sleep(_LOOK_S)
    except BaseException:  # Ctrl-C in the terminal does not reach its group
        _kill(pid)
        raise


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]))
