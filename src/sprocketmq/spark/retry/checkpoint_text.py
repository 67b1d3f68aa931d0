# SPDX-License-Identifier: Apache-2.0
"""Small texts in the checkpoint of a query, on whatever storage it is: in a classic session by Hadoop's file systems, without a job;
with Spark Connect, where Python has no JVM, by a job of Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_classic(spark: SparkSession) -> bool:
    return hasattr(spark, "_jsparkSession")


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """``path`` in a classic session, and its file system, as objects of the JVM."""
    jvm: Any = spark._jvm
    found = jvm.org.apache.hadoop.fs.Path(path)
    return found, found.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def read_text(spark: SparkSession, path: str) -> str | None:
    """The text of the file at ``path``, or of the one file in the folder there; None if there is nothing."""
    return _read_by_hadoop(spark, path) if is_classic(spark) else _read_by_spark(spark, path)


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Replace what is at ``path``. A crash leaves all of it or nothing there."""
    (_write_by_hadoop if is_classic(spark) else _write_by_spark)(spark, path, text)


def _read_by_hadoop(spark: SparkSession, path: str) -> str | None:
    place, system = hadoop_path(spark, path)
    if not system.exists(place):
        return None
    if system.getFileStatus(place).isDirectory():  # by Spark Connect
        parts = [
            status.getPath() for status in system.listStatus(place) if status.getPath().getName().startswith("part-")
        ]
        if not parts:
            return None
        place = parts[0]
    stream = system.open(place)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def _write_by_hadoop(spark: SparkSession, path: str, text: str) -> None:
    place, system = hadoop_path(spark, path)
    new = place.suffix(".new")
    stream = system.create(new)
    try:
        stream.write(text.encode())
    finally:
        stream.close()
    system.delete(place, True)
    if not system.rename(new, place):
        raise OSError(f"{path}.new cannot be renamed to {path}")


def _read_by_spark(spark: SparkSession, path: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        # Twice, because of a single path that does not exist Spark logs a stack of Java (FileStreamSink.hasMetadata).
        found = spark.read.text([escaped_path(path)] * 2, wholetext=True).head()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    return found[0] if found else None


def _write_by_spark(spark: SparkSession, path: str, text: str) -> None:
    from pyspark.sql import functions as f

    spark.range(0, 1, 1, 1).select(f.lit(text).alias("value")).write.mode("overwrite").text(path)


def escaped_path(path: str) -> str:
    """``path`` for a read of Spark, which takes it as a glob pattern (``SparkHadoopUtil.isGlobPath``); a write does not."""
    return re.sub(r"[\[\]{}*?\\]", r"\\\g<0>", path)
