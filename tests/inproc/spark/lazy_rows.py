# SPDX-License-Identifier: Apache-2.0
"""Stands in for a DataFrame where a test needs no Spark but what makes one treacherous: whoever looks at it has its rows made anew, unless
somebody asked it to keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sprocketmq.spark.options.source_columns import COLUMNS

Row = dict[str, Any]


class Flag:
    """A column of booleans, told by the row."""

    def __init__(self, of: Callable[[Row], bool]) -> None:
        self.of = of

    def __invert__(self) -> Flag:
        return Flag(lambda row: not self.of(row))


class LazyRows:
    """The calls that ``RowRetry`` makes, named as Spark names them.

    Args:
        columns: their names.
        make: the rows; called for each look.
    """

    def __init__(self, columns: list[str], make: Callable[[], list[Row]]) -> None:
        self.columns, self._make = columns, make
        self.dtypes = [(name, "boolean" if name == "failed" else COLUMNS.get(name, "string")) for name in columns]
        self._kept: list[Row] | None = None
        self._keeps = False

    def rows(self) -> list[Row]:
        if self._kept is not None:
            return self._kept
        rows = self._make()
        if self._keeps:
            self._kept = rows
        return rows

    def persist(self) -> LazyRows:
        self._keeps = True
        return self

    def unpersist(self) -> LazyRows:
        self._keeps, self._kept = False, None
        return self

    def where(self, flag: Flag) -> LazyRows:
        return LazyRows(self.columns, lambda: [row for row in self.rows() if flag.of(row)])

    def drop(self, *names: str) -> LazyRows:
        columns = [name for name in self.columns if name not in names]
        return LazyRows(columns, lambda: [{name: row[name] for name in columns} for row in self.rows()])

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist([{name: row[name] for name in self.columns} for row in self.rows()])
