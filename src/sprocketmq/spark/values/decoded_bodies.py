# SPDX-License-Identifier: Apache-2.0
"""A column of bodies as a column of structs: ``value``, or the ``reason`` why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from sprocketmq.spark.values.schema_registry import RegistryUnavailable

_ROWS_AT_ONCE: Final = 1_000  # as Python objects
_BYTES_AT_ONCE: Final = 4 << 20
_SHOWN: Final = 300  # characters of a reason

Read = Callable[[bytes], Any]


def decoded(bodies: pa.Array, read: Read, read_type: pa.DataType, value_type: pa.DataType) -> pa.StructArray:
    """``read`` gives the value of a body, of ``read_type``; what it raises is that row's reason. Raises RegistryUnavailable."""
    parts: list[pa.StructArray] = []
    values: list[Any] = []
    reasons: list[str | None] = []
    size = 0

    def finish() -> None:
        nonlocal size
        column = _column(values, reasons, read_type, value_type)
        parts.append(pa.StructArray.from_arrays([column, pa.array(reasons, pa.string())], ["value", "reason"]))
        values.clear()
        reasons.clear()
        size = 0

    for body in bodies:
        raw = body.as_py()
        value = reason = None
        try:
            if raw is None:
                raise ValueError("it is null")
            value = read(raw)
        except RegistryUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a library may raise anything about foreign bytes
            reason = _reason(error)
        values.append(value)
        reasons.append(reason)
        size += len(raw or b"")
        if len(values) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            finish()
    if values or not parts:
        finish()
    return pa.concat_arrays(parts)


def _column(values: list[Any], reasons: list[str | None], read_type: pa.DataType, value_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, read_type).cast(value_type)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        for n, value in enumerate(values):
            try:
                pa.array([value], read_type).cast(value_type)
            except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
                values[n], reasons[n] = None, _reason(error)
        return pa.array(values, read_type).cast(value_type)


_SHORT: Final = "it ends within the value"
_SAID: Final = {
    EOFError: _SHORT,
    IndexError: _SHORT,
    KeyError: "it has a number for which a union has no part, or an enum no symbol",
}


def _reason(error: Exception) -> str:
    return f"the body does not fit: {_SAID.get(type(error)) or str(error) or type(error).__name__}"[:_SHOWN]
