# SPDX-License-Identifier: Apache-2.0
"""What all tests share: Hypothesis without deadlines, one Spark session, columns side by side, and the counts at the end of a run.

SPROCKETMQ_REQUIRE_PEERS=1   a test of Apache's servers, of Spark or in a browser that is skipped before it begins counts as failed
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import inspect
import itertools
import logging
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from examples import examples
from spark_home import make_spark_home
from sprocketmq.store.files import mapped_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import Scheduling

# Many containers set this. Without bytecode each worker parses all tests and all of src again, and each program that a test starts compiles
# what it imports. `python -B` is the way to a run that writes none.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# Tests copy a directory for what a kill leaves of it, and no copy has the identity of its original. Programs that tests start see the
# real one.
_real_identity = mapped_progress._identity
mapped_progress._identity = lambda file: b""


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are copies."""
    monkeypatch.setattr(mapped_progress, "_identity", _real_identity)


def _no_sync(fd: Any) -> None:
    """No machine is stopped here, and with a busy disk a sync takes a hundred times as long as everything else."""
    os.fstat(fd if isinstance(fd, int) else fd.fileno())  # fails as the real one if the file is closed


os.fsync = os.fdatasync = _no_sync

# No test asserts a duration, and a slow machine is no failure. In a CI, too, other examples are tried each time, and what failed is kept:
# what is run once more (.ci/run) has to meet it again.
settings.register_profile(
    "sprocketmq",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=False,
    database=settings.get_profile("default").database,
)
settings.load_profile("sprocketmq")

# Programs inherit an ignored Ctrl-C, from nohup as from a worker of pytest-xdist; those that tests start are to be stopped by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same holds for a hang-up.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """``async def`` tests, each on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        os.nice(5)  # Spark gives its Python processes ten seconds to start, and gw0 has Spark's tests (columns.py)
    if "SPARK_HOME" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="sprocketmq-spark-home-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        if home := make_spark_home(folder):
            os.environ["SPARK_HOME"] = str(home)  # of every process that a test starts, too


def pytest_collection_finish() -> None:
    gc.freeze()  # half a million objects of modules and tests, which each gc.collect() of a test would visit again


@pytest.hookimpl(optionalhook=True)  # there is no such hook without xdist (-p no:xdist)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    from columns import Columns

    return Columns(config, log)


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    """A server's log would be on the stderr of all later commands in this process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def every_module_is_loaded() -> None:
    """pytest parses each module of a package that has a plugin, as ours. Python before 3.11.8 and 3.12.2 raises a SystemError if another
    thread parses at the same time (gh-106905), and a client imports some modules on its thread, when they are first used."""
    for name in ("broker", "client", "core", "net", "store", "wire"):
        package = importlib.import_module(f"sprocketmq.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for a run: it takes seconds to start."""
    from spark_session import SHORT_LIVED, spark_session

    os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path_factory.mktemp("spark"))
    # The first of the JVM's two compilers alone: a run is over before the second one's work is worth it.
    settings = {"spark.driver.extraJavaOptions": SHORT_LIVED["spark.driver.extraJavaOptions"]}
    session = spark_session("sprocketmq-tests", str(tmp_path_factory.mktemp("warehouse")), settings=settings)
    yield session
    session.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = os.environ.get("SPROCKETMQ_REQUIRE_PEERS") == "1" and {"browser", "peer", "spark"} & set(item.keywords)
    if required and report.skipped and report.when == "setup" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although SPROCKETMQ_REQUIRE_PEERS=1: {report.longrepr}"
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """For scripts/failed-tests: a run that broke off says nothing of the tests that it did not come to."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("sprocketmq/exit_code", int(exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per tier (tests/unit, tests/inproc, ...), so that a tier that did not run cannot hide; and what each column cost."""
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
    if getattr(terminalreporter.config.option, "numprocesses", None):
        from columns import column_lines

        everything = itertools.chain.from_iterable(terminalreporter.stats.values())
        if lines := column_lines(report for report in everything if isinstance(report, pytest.TestReport)):
            terminalreporter.section("tests by column")
            for line in lines:
                terminalreporter.line(line)
