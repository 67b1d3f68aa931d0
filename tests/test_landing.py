# SPDX-License-Identifier: Apache-2.0
"""What `.ci/run` makes of failures: told, counted, run again when they are few; and skipped is failed where it can run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
# Nothing of the run that this is a part of, and no plugins: they are most of what starting pytest costs.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HYPOTHESIS_"))}
ENVIRONMENT["PYTHONPATH"] = str(ROOT / "tests")
ENVIRONMENT["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
MAKE = """#!/bin/sh
case "$*" in *test-all) exec .venv/bin/python -m pytest -q tests;; esac
"""
CONFTEST = f"""
import importlib.util

found = importlib.util.spec_from_file_location("root_conftest", {str(ROOT / "tests/conftest.py")!r})
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
pytest_runtest_makereport, pytest_sessionfinish = module.pytest_runtest_makereport, module.pytest_sessionfinish
"""
FAILS_ONCE = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        assert False, "the first time"
"""
FAILS = "def test_it():\n    assert False\n"
PASSES = "def test_it():\n    pass\n"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def landing(
    to: Path, tests: dict[str, str], variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """`.ci/run` over a project of these tests, where setup and lint are no work."""
    for name in (".ci/run", "scripts/failed-tests"):
        (to / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    (to / "src").mkdir(exist_ok=True)
    program(to / ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program(to / "bin/make", MAKE)
    (to / "pytest.ini").write_text("[pytest]\n")
    (to / "conftest.py").write_text(CONFTEST)
    for name, text in tests.items():
        (to / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (to / "tests" / name).write_text(text)
    environment = {**ENVIRONMENT, **variables, "PATH": f"{to}/bin{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([to / ".ci/run"], cwd=to, env=environment, text=True, capture_output=True, timeout=120)


def test_tests_that_fail_and_then_pass_are_reported_with_name_and_number(tmp_path: Path) -> None:
    tests = {"interop/test_a.py": FAILS_ONCE, "system/spark/test_b.py": FAILS_ONCE, "unit/test_c.py": PASSES}
    done = landing(tmp_path, tests)
    assert done.returncode == 0, done.stdout + done.stderr
    end = done.stdout[done.stdout.index("FLAKY: 2 failed, then passed") :]
    assert "tests/interop/test_a.py::test_it" in end
    assert "tests/system/spark/test_b.py::test_it" in end
    assert "the first time" in done.stdout, "the first failure is shown"


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = landing(tmp_path, {"interop/test_a.py": FAILS, "interop/test_b.py": FAILS_ONCE})
    assert done.returncode != 0
    assert "FLAKY" not in done.stdout


# The second time one made-up example is tried, the simplest. Only what is kept of the first run can find the fault again.
FINDS_A_FAULT = """
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

seen = Path(__file__).with_suffix(".seen")
tries = 1 if seen.exists() else 500
seen.touch()

@settings(max_examples=tries)
@given(st.integers(0, 1000))
def test_it(number):
    assert number < 100, "the counterexample"
"""


def test_a_failure_found_by_hypothesis_fails_again(tmp_path: Path) -> None:
    """In a CI's environment, too, where Hypothesis would keep nothing of its own accord."""
    done = landing(tmp_path, {"unit/test_a.py": FINDS_A_FAULT}, {"CI": "true"})
    assert done.stdout.count("AssertionError: the counterexample") >= 2, done.stdout + done.stderr
    assert done.returncode != 0
    assert "FLAKY" not in done.stdout


def test_a_run_that_broke_off_does_not_land(tmp_path: Path) -> None:
    """What failed before passes when it is run again, and the rest was never run."""
    breaks = "import pytest\n\ndef test_it():\n    pytest.exit('broken off')\n"
    done = landing(tmp_path, {"interop/test_a.py": FAILS_ONCE, "interop/test_b.py": breaks})
    assert done.returncode != 0


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    assert landing(tmp_path, {f"interop/test_{n}.py": FAILS_ONCE for n in "abcdef"}).returncode != 0


SKIPS = """
import pytest

@pytest.mark.{mark}
@pytest.mark.skipif(True, reason="no Java here")
def test_it():
    pass

@pytest.mark.{mark}
def test_that_runs_and_has_nothing_to_show():
    pytest.skip("nothing to ask")
"""


@pytest.mark.parametrize(
    ("mark", "required", "outcome"),
    [("peer", "1", "1 skipped, 1 error"), ("other", "1", "2 skipped"), ("peer", "0", "2 skipped")],
)  # fmt: skip
def test_a_peer_test_that_is_skipped_before_it_begins_fails_where_peers_must_be(
    tmp_path: Path, mark: str, required: str, outcome: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    peer\n    spark\n    other\n")
    (tmp_path / "test_it.py").write_text(SKIPS.format(mark=mark))
    environment = {**ENVIRONMENT, "SPROCKETMQ_REQUIRE_PEERS": required}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if "error" in outcome else 0)
