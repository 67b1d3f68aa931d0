"""Rows of a DataFrame that the driver works on, without leaving anything behind in Spark.

``toLocalIterator`` would hold one partition at a time, but Spark 4.3.0 never forgets a job that is begun after the execution it belongs to
has ended (``DAGScheduler.activeQueryToJobs``, emptied by ``doCleanupQueryJobs`` at the end of the execution), and each job of that iterator
is one: half a megabyte for each micro-batch of a small stream, until the driver has no heap left. ``toArrow`` runs its job inside of the
execution. So all rows are here at once, as Arrow, and become Python objects a few thousand at a time: select the columns that are needed,
no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["fetched_rows"]

_AT_ONCE: Final = 4096


def fetched_rows(rows: DataFrame) -> Iterator[dict[str, Any]]:
    """Each row as a dict; bodies are ``bytes``, a map is a list of pairs."""
    for batch in rows.toArrow().to_batches(max_chunksize=_AT_ONCE):
        yield from batch.to_pylist()
