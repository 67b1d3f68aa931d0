# SPDX-License-Identifier: Apache-2.0
"""When PYSPARK_PYTHON is set for the user, and when it is left alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from sprocketmq.spark import worker_python
from sprocketmq.spark.worker_python import use_this_python

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the other Python is a shell script")

Python3 = Callable[[str], Path]


@pytest.fixture
def python3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Python3:
    """Writes what is found first in PATH."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(None))

    def write(text: str) -> Path:
        found = tmp_path / "python3"
        found.write_text(text)
        found.chmod(0o755)
        return found

    return write


def context(jvm: object) -> ModuleType:
    module = ModuleType("pyspark.core.context")
    vars(module)["SparkContext"] = SimpleNamespace(_jvm=jvm)
    return module


def jvm(environment: dict[str, str]) -> object:
    return SimpleNamespace(**{"java.lang.System": SimpleNamespace(getenv=environment.get)})


WITHOUT = "#!/bin/sh\nexit 1\n"


@pytest.mark.parametrize(
    ("text", "is_set"),
    [
        pytest.param(WITHOUT, True, id="without"),
        pytest.param("#!/bin/sh\nexit 0\n", False, id="with"),
        pytest.param(f'#!/bin/sh\nexec {sys.executable} "$@"\n', False, id="really with"),
        pytest.param(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', True, id="really without"),
        pytest.param("#!/no/such/interpreter\n", True, id="none that starts"),
        pytest.param(None, True, id="none"),
    ],
)
def test_it_is_set_unless_the_python3_of_path_has_the_package(python3: Python3, text: str | None, is_set: bool) -> None:
    if text is not None:
        python3(text)
    use_this_python()
    assert os.environ.get("PYSPARK_PYTHON") == (sys.executable if is_set else None)


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_choice_is_left_alone(python3: Python3, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    python3(WITHOUT)
    monkeypatch.setenv(name, "python-of-the-cluster")
    use_this_python()
    assert os.environ[name] == "python-of-the-cluster"
    assert sum(variable in os.environ for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")) == 1


def test_a_worker_of_spark_does_not_look(python3: Python3, monkeypatch: pytest.MonkeyPatch) -> None:
    python3(WITHOUT)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"), raising=False)
    use_this_python()
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "python3"),
        ({"PYSPARK_PYTHON": "wrong"}, "wrong"),
        ({"PYSPARK_DRIVER_PYTHON": "x", "PYSPARK_PYTHON": "y"}, "x"),
    ],
)
def test_a_jvm_that_runs_another_python_is_told_of(
    python3: Python3,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    environment: dict[str, str],
    told: str,
) -> None:
    python3(WITHOUT)
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(jvm(environment)))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # too late
    use_this_python()
    [record] = caplog.records
    assert f"{told}, which does not have sprocketmq, so format('rocketmq') is not found" in record.getMessage()
    assert record.getMessage().endswith(
        f"to {sys.executable} before Spark starts, or import sprocketmq.spark before the session is made"
    )


def test_a_jvm_that_runs_this_python_is_in_order(
    python3: Python3, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    python3(WITHOUT)
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(jvm({"PYSPARK_PYTHON": sys.executable})))
    use_this_python()
    assert not caplog.records
    assert "PYSPARK_PYTHON" not in os.environ


def test_under_spark_submit_it_is_too_late_for_the_variable(
    python3: Python3, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = python3(WITHOUT)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    use_this_python()
    assert "PYSPARK_PYTHON" not in os.environ
    [record] = caplog.records
    assert record.getMessage().startswith(f"Spark's workers run {found}, which")
    assert record.getMessage().endswith("before Spark starts")


def test_a_wheel_for_the_workers_is_to_be_renamed(
    python3: Python3, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark adds it to the path of the driver alone (SparkContext.PACKAGE_EXTENSIONS)."""
    monkeypatch.setattr(
        worker_python, "__file__", "/tmp/sprocketmq-1.0-py3-none-any.whl/sprocketmq/spark/worker_python.py"
    )
    use_this_python()
    assert "rename the wheel to sprocketmq-1.0-py3-none-any.zip" in caplog.text
    assert "PYSPARK_PYTHON" not in os.environ
