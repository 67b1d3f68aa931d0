# SPDX-License-Identifier: Apache-2.0
"""What Spark's garbage collection after each task need not look at."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_loaded_is_excluded_from_garbage_collection_once_in_each_process() -> None:
    program = """
import gc, os
from sprocketmq.spark.cluster.task_process import prepare_task_process

class Knot:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("gone", flush=True)

Knot()
first = gc.get_freeze_count()
prepare_task_process()
frozen = gc.get_freeze_count()
assert frozen > first + 1000
kept = [[] for _ in range(1000)]
prepare_task_process()
assert gc.get_freeze_count() <= frozen
if not os.fork():
    prepare_task_process()
    os._exit(gc.get_freeze_count() < frozen + 900)
print(os.wait()[1])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.split() == ["gone", "0"]
