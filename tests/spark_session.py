# SPDX-License-Identifier: Apache-2.0
"""How tests start Spark: small, on this machine alone, patient on a busy one. The fixture `spark` (conftest.py) is one for a whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a life that is short: no time to compile well.
SHORT_LIVED: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def spark_session(
    name: str, warehouse: str, *, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A classic session with two cores; the caller stops it.

    Args:
        settings: of Spark, more than these or other than these.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # On a busy machine a Python process may take longer than Spark's 15 s to say hello.
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"
    small = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": warehouse,
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName(name)
    for setting, value in {**small, **(settings or {})}.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()
