# SPDX-License-Identifier: Apache-2.0
"""Cells of Arrow columns as Python objects, whatever bytes Spark's strings have (``string(body)`` of foreign bytes, for example). Arrow's
``to_pylist`` fails for a whole column if one of its texts is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import Array

# How bytes that are not UTF-8 are read: as lone surrogates, which no message may hold, so that the row is refused; or as U+FFFD (Java).
Foreign = Literal["surrogateescape", "replace"]


def cells(column: Array, foreign: Foreign) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_cell(value, foreign) for value in column]


def rows(batch: pa.RecordBatch, foreign: Foreign) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    for values in zip(*(cells(column, foreign) for column in batch.columns), strict=True):
        yield dict(zip(names, values, strict=True))


def readable(text: str) -> str:
    """A text of ``cells`` with U+FFFD for each lone surrogate."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _cell(value: Any, foreign: Foreign) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        pass
    kind = value.type
    if pa.types.is_map(kind):
        return list(zip(*(cells(value.values.field(at), foreign) for at in (0, 1)), strict=True))
    if pa.types.is_list(kind):
        return cells(value.values, foreign)
    return value.as_buffer().to_pybytes().decode("utf-8", foreign)
