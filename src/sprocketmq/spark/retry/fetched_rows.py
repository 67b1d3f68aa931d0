# SPDX-License-Identifier: Apache-2.0
"""Fetches the rows of a DataFrame to the driver, without a memory leak in Spark: jobs of ``toLocalIterator`` start after their execution
has ended, and Spark 4.3.0 never releases those (``DAGScheduler.activeQueryToJobs``), half a megabyte for each micro-batch. ``toArrow``
runs its job inside the execution."""

from __future__ import annotations

from collections.abc import Container, Iterator
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

    def of_each_kind(self, equal: Container[str], limits: Container[str]) -> Iterator[dict[str, Any]]:
        """For rows that are equal in the columns ``equal`` up to three that stand for all: with the least and the largest values of each
        of ``limits``, and with null where a row has null."""
        import pyarrow.compute as pc

        names = self._table.column_names
        limited = [name for name in names if name in limits]
        wanted: list[Any] = [(name, what) for name in limited for what in ("min", "max")]
        wanted += [(name, "count", pc.CountOptions(mode="only_null")) for name in limited]
        kinds = self._table.group_by([name for name in names if name in equal]).aggregate(wanted)
        for batch in kinds.to_batches():
            for kind in rows(batch, "replace"):
                shared = {name: kind[name] for name in names if name in equal}
                least, most = ({name: kind[f"{name}_{end}"] for name in limited} for end in ("min", "max"))
                nulls = {name: None for name in limited if kind[f"{name}_count"]}
                yield from ({**shared, **least}, {**shared, **most}, *([{**shared, **least, **nulls}] if nulls else ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=_AT_ONCE):
            yield from rows(batch, "replace")
