# SPDX-License-Identifier: Apache-2.0
"""A command as the first process of a container: the kernel drops signals that PID 1 does not handle."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child"]
# Stops in the middle of the imports, where the signal comes.
PROGRAM = """
import sys, threading
class Stop:
    def find_spec(self, name, *_):
        if name == "sprocketmq.cli.main":
            print("importing", flush=True)
            threading.Event().wait()
sys.meta_path.insert(0, Stop())
from sprocketmq.cli.__main__ import main
main()
"""


def may_unshare() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_unshare(), reason="this user may not make a namespace of processes")
@pytest.mark.parametrize("number", ["TERM", "HUP"])
def test_a_signal_during_the_imports_ends_it(number):
    # The signal has to come from outside of the namespace: from inside the kernel drops it even if it is handled by default.
    with subprocess.Popen([*UNSHARE, sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "importing\n"
            (child,) = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
            subprocess.run(["kill", f"-{number}", child], check=True)
            assert process.wait(60) == {"TERM": 143, "HUP": 129}[number]
        finally:
            process.kill()
