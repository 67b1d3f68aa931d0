"""``sprocketmq store check DIR``: does a store keep its laws? Problems to stdout, one a line, then what was looked at."""

from __future__ import annotations

from pathlib import Path

from sprocketmq.store.check import StoreSummary, check_directory

__all__ = ["check_store"]


def check_store(directory: Path) -> int:
    """Check the store in ``directory``, which no broker has open. Returns the exit code: 0 sound, 1 a problem was found.

    Raises:
        StoreCorrupt: ``directory`` is no store directory.
    """
    summary = StoreSummary()
    problems = 0
    for problem in check_directory(directory.expanduser(), summary=summary):
        problems += 1
        print(problem)
    verdict = "sound" if not problems else f"{problems} problem{'s' if problems > 1 else ''}"
    print(
        f"{directory}: {verdict}; {summary.record_count:,} records in {summary.record_bytes:,} bytes, "
        f"{summary.entry_count:,} entries in {summary.queue_count:,} queues"
    )
    return 1 if problems else 0
