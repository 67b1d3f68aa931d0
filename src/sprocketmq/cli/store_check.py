# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq store check DIR``: checks a store. Prints one line for each problem, then what was checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from sprocketmq.core.quantities import counted
from sprocketmq.logs import escaped
from sprocketmq.store.tools.check import check_directory
from sprocketmq.store.tools.check_report import Problem, StoreSummary
from sprocketmq.user_paths import user_path


def check_store(directory: Path, as_json: bool) -> int:
    """Check the store in ``directory``, which no broker may have open. Returns the exit code: 1 if there is a problem."""
    summary = StoreSummary()
    found: list[Problem] = []
    for problem in check_directory(user_path(directory), summary=summary):
        found.append(problem)
        if not as_json:
            print(escaped(f"{'note: ' if problem.note else ''}{problem}"), flush=True)
    broken = sum(not problem.note for problem in found)
    if as_json:
        answer = {
            "directory": str(directory),
            "sound": not broken,
            "problems": [dataclasses.asdict(problem) for problem in found],
            **dataclasses.asdict(summary),
        }
        print(json.dumps(answer))
        return 1 if broken else 0
    verdict = "sound" if not broken else counted(broken, "problem")
    parts = (
        f"{counted(summary.record_count, 'record')} in {counted(summary.record_bytes, 'byte')}",
        f"{counted(summary.entry_count, 'entry', 'entries')} in {counted(summary.queue_count, 'queue')}",
        f"{counted(summary.key_count, 'key')} in {counted(summary.index_file_count, 'index file')}",
        counted(summary.offset_count, "offset"),
    )
    print(f"{directory}: {verdict}; {', '.join(parts)}")
    return 1 if broken else 0
