# SPDX-License-Identifier: Apache-2.0
"""A stream of bytes as the commands in it, decoded one by one: as a connection without readers does."""

from __future__ import annotations

from sprocketmq.wire.frames.command import Command, decode_command
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.requests.readers import READERS


def decoded(decoder: FrameDecoder, data: bytes | bytearray | memoryview) -> list[Command]:
    """The commands that are complete with ``data``."""
    whole, spans = decoder.cut(data)
    view = memoryview(whole)
    for at, _, word in spans:
        assert word == int.from_bytes(view[at : at + 4], "big")
    return [decode_command(view[at:stop]) for at, stop, _ in spans]


def read_by_code(frame: bytes) -> Command | None:
    """As a connection reads a frame for whose code there is a reader; None if that leaves it to ``decode_command``."""
    body_at = 8 + int.from_bytes(frame[5:8], "big")
    reader = READERS.get(frame[8:10] if frame[4] else frame[16:20])
    return None if reader is None else reader(frame[8:body_at], memoryview(frame)[body_at:])
