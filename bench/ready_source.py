# SPDX-License-Identifier: Apache-2.0
"""The ceiling of spark_bench.py and shapes_bench.py: a source that returns finished Arrow batches. No Python source can be faster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class ReadySource(DataSource):
    """Returns the batches of an Arrow file repeatedly.

    Options: ``path``, ``rows``, ``tasks``, and ``columns``, as our own source has them (default: all).
    """

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        from sprocketmq.spark.source import message_schema

        columns = self.options.get("columns")
        return message_schema(tuple(columns.split(","))) if columns else message_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReadyReader(self.options["path"], int(self.options["rows"]), int(self.options["tasks"]))


class _ReadyReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self._path, self._rows, self._tasks = path, rows, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with pa.memory_map(self._path) as file:
            opened = pa.ipc.open_file(file)
            batches = [opened.get_batch(number) for number in range(opened.num_record_batches)]
        left = self._rows // self._tasks
        for batch in cycle(batches):
            if left <= 0:
                return
            yield batch.slice(0, left) if batch.num_rows > left else batch
            left -= batch.num_rows
