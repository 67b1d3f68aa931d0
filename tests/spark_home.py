# SPDX-License-Identifier: Apache-2.0
"""A home of Spark whose Python processes start in a third of the time.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` before all else on the path of each Python process that it starts. What is imported from a
zip without compiled code is compiled each time: 1.5 s of a process's start here, where the same modules take 0.5 s from the folder that pip
installed and compiled. Tests start hundreds of such processes, and on a busy machine some needed more than the ten seconds that Spark
waits (``PythonWorkerFactory``). So tests get a home that is the installed one without the zips.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

_LEFT_OUT = "python"  # holds the zips and nothing else that a local session needs


def make_spark_home(folder: Path) -> Path | None:
    """Fill ``folder`` with links to the installed PySpark; None where there is none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return None
    installed = Path(found.submodule_search_locations[0])
    for part in installed.iterdir():
        if part.is_dir() and part.name != _LEFT_OUT:
            (folder / part.name).symlink_to(part)
    (folder / _LEFT_OUT / "lib").mkdir(parents=True)
    return folder
