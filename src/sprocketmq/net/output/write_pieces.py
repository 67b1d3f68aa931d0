# SPDX-License-Identifier: Apache-2.0
"""Writing many pieces with one call, so that the transport still reports when its peer does not read.

asyncio's own selector transport of Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not check its high-water mark in ``writelines``
(CPython issue 127655): ``pause_writing`` is never called, and the bytes for a peer that does not read grow without limit. Setting the mark
makes the transport check it. uvloop's transport, and asyncio's in other versions, check it in ``writelines``.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["write_pieces"]


def write_pieces(transport: asyncio.Transport, pieces: list[Any], high_bytes: int, *, is_paused: bool) -> None:
    """Write all pieces.

    Args:
        high_bytes: the transport's high-water mark.
        is_paused: the transport has already called ``pause_writing``, which it does once.
    """
    transport.writelines(pieces)
    if not is_paused and transport.get_write_buffer_size() > high_bytes:
        transport.set_write_buffer_limits(high=high_bytes)
