"""The short way into a pull: PULL_MESSAGE of a JSON client, its header read in one step, its answer made of constant parts.

    frame --> typed header (one decode, no dict) --> nothing unusual, and records found? --> one text, one copy of the records
                                                 \\--> handlers.pull, as on the long way

Law: what goes this way is answered as on the long way, byte for byte, and leaves the same traces; nothing is changed before the last check.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from sprocketmq.broker.handlers.messages.pull import answer_pull
from sprocketmq.broker.handlers.messages.pull_checks import wants_everything
from sprocketmq.broker.lazy_imports import Library, is_loaded
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import ReadStatus
from sprocketmq.wire.codes import ANNOUNCED_VERSION, RequestCode
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["PlainPulls"]

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_WORD = struct.Struct(">i").unpack_from
_PREFIX = struct.Struct(">ii").pack
# Copying up to so much costs less than handing each record to the socket, and holds no view of the log for a slow reader.
_COPIED_BYTES: Final = 64 * 1024


class _Head(msgspec.Struct):
    code: int
    extFields: PullMessageRequestHeader  # noqa: N815 - wire name
    flag: _Int32 = 0
    language: str = "JAVA"
    opaque: _Int32 = 0
    remark: str = ""
    version: _Int32 = 0


_decode = msgspec.json.Decoder(_Head, strict=False).decode
_FOUND: Final = ReadStatus.FOUND
_END: Final = f',"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{ANNOUNCED_VERSION}}}'


class PlainPulls:
    """``pull`` is the short way; ``now_ms`` is set before each read."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.now_ms = 0

    def pull(self, connection: Connection, view: memoryview, at: int, stop: int) -> bytes | None:
        (header_bytes,) = _WORD(view, at)  # above 24 bits: no JSON
        if not 0 < header_bytes <= stop - at - 4:
            return None
        try:
            head = _decode(view[at + 4 : at + 4 + header_bytes])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if head.code != _PULL or head.flag:
            return None
        header = head.extFields
        if wants_everything(self._broker, header, self.now_ms):
            answer = self._found(connection, header, head.opaque)
            if answer is not None:
                return answer
        if header.expression_type == SQL92 and not is_loaded(Library.SQL92):
            return None
        command = Command(_PULL, head.opaque, 0, head.version, head.language)
        late = answer_pull(self._broker, connection, command, header, self.now_ms, may_park=True)
        return b"" if late is None else encode_command(late)

    def _found(self, connection: Connection, header: PullMessageRequestHeader, opaque: int) -> bytes | None:
        """The answer with the records that are there; None, having changed nothing, when there are none."""
        broker, config = self._broker, self._broker.config
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        limit, limit_bytes = config.max_transfer_count_in_memory, config.max_transfer_bytes_in_memory
        if header.max_msg_nums < limit:
            limit = max(header.max_msg_nums, 1)
        if header.max_msg_bytes is not None and 0 < header.max_msg_bytes < limit_bytes:
            limit_bytes = header.max_msg_bytes
        result = broker.store.read(topic, queue_id, header.queue_offset, limit, limit_bytes)
        if result.status is not _FOUND:
            return None
        next_offset, body_bytes = result.next_offset, result.bytes
        broker.offsets.note_pull(group, topic, queue_id, next_offset)
        if header.sys_flag & PULL_COMMIT_OFFSET:
            broker.offsets.commit(group, topic, queue_id, header.commit_offset)
        text = (
            f'{{"code":0,"extFields":{{"suggestWhichBrokerId":"0","nextBeginOffset":"{next_offset}","minOffset":"{result.min_offset}",'
            f'"maxOffset":"{result.max_offset}","topicSysFlag":"{broker.topics.table[topic].topic_sys_flag}",'
            f'"groupSysFlag":"{broker.groups.table[group].group_sys_flag}"}},"flag":1,"language":"PYTHON","opaque":{opaque}{_END}'
        ).encode()
        size = len(text)
        prefix = _PREFIX(4 + size + body_bytes, size)
        broker.counters.pulled_by(topic, group, result.count, body_bytes)
        if body_bytes <= _COPIED_BYTES:
            return b"".join((prefix, text, *result.chunks))
        connection.send_pieces([prefix + text, *result.chunks], body_bytes)
        return b""
