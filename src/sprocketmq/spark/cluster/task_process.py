# SPDX-License-Identifier: Apache-2.0
"""Settings of a Python process of Spark's in which tasks read or write.

Spark runs a full garbage collection after each task. The objects of PySpark, Arrow, NumPy and this package, some 57,000, live as long as
the process; to look at them again took 26 ms after each task, a tenth of the Python time of one that reads 250,000 messages.
"""

from __future__ import annotations

import gc
import os
from typing import Final

from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds

# Process ids: a forked child inherits the settings, and is prepared again for its own objects.
_prepared: Final[set[int]] = set()


def prepare_task_process() -> None:
    """Keep freed memory (``malloc_settings``), and exclude what is loaded from garbage collection. Does something once in each process."""
    raise_malloc_thresholds()
    if os.getpid() in _prepared:
        return
    _prepared.add(os.getpid())
    gc.collect()  # what is garbage now would stay forever
    gc.freeze()
