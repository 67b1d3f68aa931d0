# SPDX-License-Identifier: Apache-2.0
"""Columns of strings as Spark hands them to a sink: with any bytes, UTF-8 or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import text

Cell = bytes | None


def strings(values: Sequence[Cell]) -> Any:
    known = pa.array(values, pa.binary())
    return text(known, known.buffers()[0])


def lists(values: Sequence[Sequence[Cell]]) -> Any:
    return pa.ListArray.from_arrays(_ends(values), strings([one for row in values for one in row]))


def maps(values: Sequence[Sequence[tuple[bytes, Cell]]]) -> Any:
    pairs = [pair for row in values for pair in row]
    names, texts = strings([name for name, _ in pairs]), strings([value for _, value in pairs])
    return pa.MapArray.from_arrays(_ends(values), names, texts)


def _ends(values: Sequence[Sequence[object]]) -> Any:
    return pa.array(np.cumsum([0, *map(len, values)]), pa.int32())
