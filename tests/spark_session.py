"""How tests start Spark: small, on this machine alone, patient on a busy one. The fixture `spark` (conftest.py) is one for a whole run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]


def spark_session(name: str, warehouse: str) -> SparkSession:
    """A classic session with two cores; the caller stops it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # On a busy machine a Python process may take longer than Spark's 15 s to say hello.
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"
    return (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", warehouse)
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
