# SPDX-License-Identifier: Apache-2.0
"""The unit of a consume queue, also called queue entry: where a message's record is (Java: ConsumeQueue.CQ_STORE_UNIT_SIZE). Offset n of
a queue is the unit at byte n * ``UNIT_SIZE_BYTES``. A filler, which stands for no message, has ``FILLER_SIZE``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.wire.layout import Layout
from sprocketmq.wire.records.sys_flag import TRANSACTION_PREPARED_TYPE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNIT_LAYOUT: Final = Layout(
    ("physical_offset", "q"),  # of the record in the commit log
    ("size", "i"),  # of the record
    ("tags_code", "q"),  # hash of the tags; the due time of a delayed message; an address in the extension
)
UNIT: Final = UNIT_LAYOUT.struct
UNIT_SIZE_BYTES: Final = UNIT_LAYOUT.size
FILLER_SIZE: Final = 0x7FFFFFFF


@lru_cache(maxsize=1)
def unit_type() -> np.dtype[Any]:
    import numpy as np

    columns: np.dtype[Any] = np.dtype(UNIT_LAYOUT.columns())
    return columns


def has_unit(sys_flag: int) -> bool:
    """Whether a record has a unit: all have one except those of prepared and rolled back transactions."""
    return not sys_flag & TRANSACTION_PREPARED_TYPE  # a bit of TRANSACTION_ROLLBACK_TYPE, too


def units_of(physical_offsets: Ints, sizes: Ints | int, tags_codes: Ints | Sequence[int]) -> bytes:
    """The units of several records; the sizes are one for each, or one for all."""
    import numpy as np

    units = np.empty(len(physical_offsets), unit_type())
    units["physical_offset"], units["size"], units["tags_code"] = physical_offsets, sizes, tags_codes
    return units.tobytes()
