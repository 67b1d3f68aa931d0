"""What all tests share: Hypothesis without deadlines, one Spark session, two columns side by side, and the count by folder at the end.

With ``-n 2`` the tests that start JVMs, and mostly wait for them, run beside all others, which mostly compute: two columns and no more, so
that each server and the Spark session still start once. docs/decisions/0010.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from spark_home import make_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import Scheduling

_ROOT = Path(__file__).parent

# No test asserts a duration, and a slow machine is no failure.
settings.register_profile("sprocketmq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sprocketmq")

# Programs inherit an ignored Ctrl-C, from nohup as from a worker of pytest-xdist; those that tests start are to be stopped by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if "SPARK_HOME" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="sprocketmq-spark-home-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        if home := make_spark_home(folder):
            os.environ["SPARK_HOME"] = str(home)  # of every process that a test starts, too


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Columns(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "jvm" if nodeid.startswith(("tests/interop/", "tests/system/spark/")) else "python"

    return Columns(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for a run: it takes seconds to start."""
    from spark_session import spark_session

    os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path_factory.mktemp("spark"))
    session = spark_session("sprocketmq-tests", str(tmp_path_factory.mktemp("warehouse")))
    yield session
    session.stop()


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
