# SPDX-License-Identifier: Apache-2.0
"""Fetches the rows of a DataFrame to the driver, without a memory leak in Spark: jobs of ``toLocalIterator`` start after their execution
has ended, and Spark 4.3.0 never releases those (``DAGScheduler.activeQueryToJobs``), half a megabyte for each micro-batch. ``toArrow``
runs its job inside the execution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.spark.columns.cells import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE: Final = 4096


class FetchedRows:
    """The rows are computed once, now, and are all in memory, as Arrow. Each row is a dict; bodies are ``bytes``, a map is a list of
    pairs; bytes of a text that are not UTF-8 are U+FFFD."""

    def __init__(self, rows: DataFrame) -> None:
        self._table = rows.toArrow()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=_AT_ONCE):
            yield from rows(batch, "replace")
