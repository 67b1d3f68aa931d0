# SPDX-License-Identifier: Apache-2.0
"""The unit of a consume queue: where a message's record is (Java: ConsumeQueue.CQ_STORE_UNIT_SIZE).

Offset n of a queue is the unit at byte n * ``UNIT_SIZE_BYTES``. A filler, which stands for no message, has ``FILLER_SIZE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.wire.layout import Layout

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
    """The element type of a NumPy array of units."""
    import numpy as np

    columns: np.dtype[Any] = np.dtype(UNIT_LAYOUT.columns())
    return columns


def units_of(physical_offsets: Ints, sizes: Ints | int, tags_codes: Sequence[int]) -> bytes:
    """The units of several records; the sizes are one for each, or one for all."""
    import numpy as np

    units = np.empty(len(physical_offsets), unit_type())
    units["physical_offset"], units["size"], units["tags_code"] = physical_offsets, sizes, tags_codes
    return units.tobytes()
