# SPDX-License-Identifier: Apache-2.0
"""Writing many pieces with one call, so that the transport still reports when its peer does not read. asyncio's own selector transport of
Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not check its high-water mark in ``writelines`` (CPython issue 127655): ``pause_writing`` is
never called, and the bytes grow without limit. Setting the mark makes the transport check it.

Over TLS asyncio makes a record of each piece (``sslproto.SSLProtocol._do_write``): 22 more bytes, an encryption and a decryption for
each. So small pieces are joined to full records. OpenSSL encrypts one call's data into a buffer that grows, and that the connection
keeps: eight answers of 256 KiB took 1.4 MiB of each connection for good. So one call is given five records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

_RECORD_BYTES: Final = 16 * 1024  # the most that a record of TLS holds (RFC 8446, 5.1)
_TLS_WRITE_BYTES: Final = 5 * _RECORD_BYTES  # 64 requests of 1 KB are one call


def write_pieces(transport: asyncio.Transport, pieces: list[Any], high_bytes: int, *, is_paused: bool) -> None:
    """Write all pieces. ``high_bytes``: the transport's high-water mark. ``is_paused``: the transport has already called
    ``pause_writing``, which it does once."""
    if transport.get_extra_info("sslcontext") is None:
        transport.writelines(pieces)
    else:
        for portion in portions(full_records(pieces)):
            transport.writelines(portion)
    if not is_paused and transport.get_write_buffer_size() > high_bytes:
        transport.set_write_buffer_limits(high=high_bytes)


def full_records(pieces: Iterable[Any]) -> Iterator[Any]:
    """The same bytes in fewer pieces: small ones joined until they fill a record of TLS, large ones as they are."""
    small: list[Any] = []
    small_bytes = 0
    for piece in pieces:
        if len(piece) < _RECORD_BYTES:
            small.append(piece)
            small_bytes += len(piece)
            if small_bytes < _RECORD_BYTES:
                continue
        if small:
            yield b"".join(small)
            small, small_bytes = [], 0
        if len(piece) >= _RECORD_BYTES:
            yield piece
    if small:
        yield b"".join(small)


def portions(pieces: Iterable[Any]) -> Iterator[list[Any]]:
    """The same bytes in lists of five records of TLS at most."""
    portion: list[Any] = []
    room = _TLS_WRITE_BYTES
    for piece in pieces:
        for at in range(0, len(piece), _TLS_WRITE_BYTES):
            part = piece if len(piece) <= _TLS_WRITE_BYTES else memoryview(piece)[at : at + _TLS_WRITE_BYTES]
            if len(part) > room:
                yield portion
                portion, room = [], _TLS_WRITE_BYTES
            portion.append(part)
            room -= len(part)
    if portion:
        yield portion
