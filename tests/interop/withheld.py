# SPDX-License-Identifier: Apache-2.0
"""Time that the machine withheld from a thread: it was ready to run and did not, because others ran or the hypervisor had the processor.

A promise of the client is judged with it: who is not let run can keep none. What the client itself waits for, blocks, or computes is
not in it, so that it hides nothing of the client's own. Linux counts it by itself (``/proc``); elsewhere it is 0.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_NS: Final = 1_000_000_000
_STEAL: Final = 8  # the field of a "cpu" line: "cpu", user, nice, system, idle, iowait, irq, softirq, steal


def withheld_s(*threads: tuple[int, int]) -> float:
    """Seconds so far, of all ``threads`` together.

    Args:
        threads: process id and native thread id of each.
    """
    ready_ns = 0
    for process, thread in threads:
        # Gone meanwhile: it was withheld nothing more.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
            ready_ns += int(Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[1])
    return ready_ns / _NS + _stolen_s()


def _stolen_s() -> float:
    try:
        with Path("/proc/stat").open() as stat:
            return int(stat.readline().split()[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except FileNotFoundError:
        return 0.0
