"""What all tests share: the count by folder at the end of a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per tier (tests/unit, tests/inproc, ...), so that a tier that did not run cannot hide."""
    counts: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            if getattr(report, "when", "call") in ("call", "setup"):
                parts = Path(report.nodeid.split("::")[0]).parts
                counts.setdefault(parts[1] if len(parts) > 2 else "(root)", Counter())[outcome] += 1
    if counts:
        terminalreporter.section("tests by folder")
        for folder, outcomes in sorted(counts.items()):
            terminalreporter.line(
                f"{folder:10} " + ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
            )
