# SPDX-License-Identifier: Apache-2.0
"""Fetches the rows of a DataFrame to the driver, without a memory leak in Spark.

``toLocalIterator`` would hold one partition at a time. But its jobs start after their execution has ended, and Spark 4.3.0 never releases
such jobs (``DAGScheduler.activeQueryToJobs``, which ``doCleanupQueryJobs`` empties at the end of the execution). That costs half a megabyte
for each micro-batch of a small stream, until the driver has no heap left. ``toArrow`` runs its job inside the execution. So all rows are in
memory at once, as Arrow, and become Python objects a few thousand at a time: select only the columns that are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE: Final = 4096


class FetchedRows:
    """The rows of ``rows``, which are computed once, now. Each row is a dict; bodies are ``bytes``, a map is a list of pairs."""

    def __init__(self, rows: DataFrame) -> None:
        self._table = rows.toArrow()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=_AT_ONCE):
            yield from batch.to_pylist()
