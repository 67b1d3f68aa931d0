"""One Spark session for all tests (it takes seconds to start), one embedded RocketMQ for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(name: str, warehouse: str) -> SparkSession:
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


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path_factory.mktemp("spark"))
    session = spark_session("sprocketmq-tests", str(tmp_path_factory.mktemp("warehouse")))
    yield session
    session.stop()


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """Real time: Spark's processes do not know a manual clock. The retry delays are short instead."""
    with EmbeddedRocketMQ(clock="system", messageDelayLevel="1s 1s 1s 1s 1s 1s 1s") as embedded:
        yield embedded
