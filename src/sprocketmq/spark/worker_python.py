# SPDX-License-Identifier: Apache-2.0
"""Which Python Spark's workers run: it must have this package, or Spark says DATA_SOURCE_NOT_FOUND.

Spark starts the command in PYSPARK_DRIVER_PYTHON, else in PYSPARK_PYTHON, else ``python3`` of PATH, as they were when its JVM started
(PythonUtils.defaultPythonExec). So a program that is started by the python of a virtual environment that is not activated does not find
the source, although its own Python has the package.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

log = logging.getLogger("sprocketmq.spark")

_CHOICES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")  # in Spark's order
_FIND_SPEC: Final = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyspark_rocketmq') is None)"
_FIND_SPEC_S: Final = 10


def use_this_python() -> None:
    """Set PYSPARK_PYTHON to this process's Python, if nobody chose one, no JVM runs yet, and ``python3`` of PATH does not have the
    package: then the source would not be found, so nothing that works changes. If the JVM runs already, the log tells what is wrong."""
    if not sys.executable or find_spec("pyspark") is None or _is_worker():
        return
    wheel = next((folder for folder in Path(__file__).parents if folder.suffix == ".whl"), None)
    if wheel is not None:
        log.warning(
            "sprocketmq comes from %s, and Spark passes only .zip, .egg and .py files of --py-files to its workers; rename the wheel to %s",
            wheel,
            wheel.with_suffix(".zip").name,
        )
        return
    getenv = _environment_of_the_jvm()
    command = next((chosen for name in _CHOICES if (chosen := (getenv or os.environ.get)(name))), None)
    if (command is not None and getenv is None) or _has_the_package(command or "python3"):
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit and the shell start the JVM first
    if getenv is None and not is_submitted:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        log.info("PYSPARK_PYTHON is set to %s, because the python3 of PATH does not have sprocketmq", sys.executable)
        return
    log.warning(
        "Spark's workers run %s, which does not have sprocketmq, so format('rocketmq') is not found; set the environment variable "
        "PYSPARK_PYTHON to %s before Spark starts%s",
        command or shutil.which("python3") or "python3",
        sys.executable,
        "" if is_submitted else ", or import sprocketmq.spark before the session is made",
    )


def _is_worker() -> bool:
    """Whether Spark started this process, as ``python -m pyspark.daemon`` and the like."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def _environment_of_the_jvm() -> Callable[[str], str | None] | None:
    context = sys.modules.get("pyspark.core.context")
    jvm = None if context is None else context.SparkContext._jvm
    return None if jvm is None else cast("Callable[[str], str | None]", getattr(jvm, "java.lang.System").getenv)


def _has_the_package(command: str) -> bool:
    found = shutil.which(command)
    if found is None:
        return False
    mine = sys.executable
    if os.path.dirname(found) == os.path.dirname(mine) and os.path.realpath(found) == os.path.realpath(mine):
        return True  # an environment that is activated
    try:
        return subprocess.run([found, "-c", _FIND_SPEC], capture_output=True, timeout=_FIND_SPEC_S).returncode == 0
    except OSError:
        return False
    except subprocess.TimeoutExpired:
        return True  # unknown: change nothing
