# SPDX-License-Identifier: Apache-2.0
"""A stream of bytes as the commands in it, decoded one by one: as a connection without readers does."""

from __future__ import annotations

from sprocketmq.wire.frames.command import Command, decode_command
from sprocketmq.wire.frames.frame import FrameDecoder


def decoded(decoder: FrameDecoder, data: bytes | bytearray | memoryview) -> list[Command]:
    """The commands that are complete with ``data``."""
    whole, spans = decoder.cut(data)
    view = memoryview(whole)
    for at, _, word in spans:
        assert word == int.from_bytes(view[at : at + 4], "big")
    return [decode_command(view[at:stop]) for at, stop, _ in spans]
