# SPDX-License-Identifier: Apache-2.0
"""END_TRANSACTION frames for many half messages of one topic, written from a template: only three numbers differ. They are, byte for
byte, those of ``encode_command``."""

from __future__ import annotations

import struct
from typing import Final

from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import encode_command
from sprocketmq.wire.headers import EndTransactionRequestHeader

_pack_lengths: Final = struct.Struct(">ii").pack
# Placeholder numbers that occur nowhere else in a header; the largest possible offset is 9.2e18.
_QUEUE_MARK: Final = 9_137_415_926_535_897_932
_LOG_MARK: Final = 9_127_182_818_284_590_452
_OPAQUE_MARK: Final = 2_141_421_356


class EndTransactionTemplate:
    """The request that ends half messages. ``header``: of any of them; its two offsets are not read."""

    __slots__ = ("_text",)

    def __init__(self, header: EndTransactionRequestHeader) -> None:
        fields = {**header.to_ext(), "tranStateTableOffset": str(_QUEUE_MARK), "commitLogOffset": str(_LOG_MARK)}
        command = requests.messages.END_TRANSACTION.command(header)
        command.ext_fields, command.opaque = fields, _OPAQUE_MARK
        text = encode_command(command)[8:].replace(b"%", b"%%")
        for mark, name in ((_QUEUE_MARK, b"%(queue)d"), (_LOG_MARK, b"%(log)d"), (_OPAQUE_MARK, b"%(opaque)d")):
            text = text.replace(b"%d" % mark, name)
        self._text = text

    def frame(self, opaque: int, queue_offset: int, commit_log_offset: int) -> bytes:
        header = self._text % {b"queue": queue_offset, b"log": commit_log_offset, b"opaque": opaque}
        size = len(header)
        return _pack_lengths(4 + size, size) + header
