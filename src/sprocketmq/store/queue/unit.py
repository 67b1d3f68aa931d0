"""The unit of a consume queue: where a message's record is (Java: ConsumeQueue.CQ_STORE_UNIT_SIZE).

Offset n of a queue is the unit at byte n * ``UNIT_SIZE_BYTES``. A filler, which stands for no message, has ``FILLER_SIZE``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.wire.layout import Layout

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FILLER_SIZE", "UNIT", "UNIT_LAYOUT", "UNIT_SIZE_BYTES", "unit_run", "unit_type"]

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


def unit_run(count: int, physical_offset: int, size_bytes: int, tags_code: int) -> bytes:
    """The units of ``count`` records of one size and the same tags that follow each other in the log."""
    import numpy as np

    units = np.empty(count, unit_type())
    units["physical_offset"] = np.arange(physical_offset, physical_offset + size_bytes * count, size_bytes)
    units["size"], units["tags_code"] = size_bytes, tags_code
    return units.tobytes()
