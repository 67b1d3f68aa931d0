"""Writing many pieces with one call, to a transport that then says when its peer does not read.

asyncio's own selector transport of Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not look at its high-water mark in ``writelines``
(CPython issue 127655): ``pause_writing`` is never called, and what waits for a deaf peer grows without end. Setting the mark has it look.
uvloop's transport, and that of other versions, have looked by then.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["write_pieces"]


def write_pieces(transport: asyncio.Transport, pieces: list[Any], high_bytes: int, *, is_paused: bool) -> None:
    """Write all pieces.

    Args:
        high_bytes: the transport's high-water mark.
        is_paused: it has said that its protocol should stop; it says so once.
    """
    transport.writelines(pieces)
    if not is_paused and transport.get_write_buffer_size() > high_bytes:
        transport.set_write_buffer_limits(high=high_bytes)
