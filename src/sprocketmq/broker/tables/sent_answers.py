# SPDX-License-Identifier: Apache-2.0
"""The answer to a stored send, with a header from constant parts (Java: SendMessageResponseHeader and two additional fields)."""

from __future__ import annotations

from typing import Final

import msgspec

from sprocketmq.wire.codes import ANNOUNCED_VERSION, LANGUAGE_CODES
from sprocketmq.wire.frames.command import BINARY_HEAD, FLAG_RESPONSE, SERIALIZE_ROCKETMQ, Command, binary_field
from sprocketmq.wire.frames.raw_command import RawCommand, raw_answer
from sprocketmq.wire.records import properties as props


class SentAnswers:
    """``id_prefix`` begins each offset message id; 16 digits follow. ``region_id``, ``trace_on``: fields of each answer."""

    def __init__(self, id_prefix: str, region_id: str, trace_on: str) -> None:
        self._id_prefix = id_prefix.encode()
        fields = {props.MSG_REGION: region_id, props.TRACE_ON: trace_on}
        constant = b",".join(b"%b:%b" % (_json(name), _json(value)) for name, value in fields.items())
        self._json = (
            b'{"code":0,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d",%b'
            + constant.replace(b"%", b"%%")
            + b'},"flag":%d,"language":"PYTHON","opaque":' % FLAG_RESPONSE
            + b'%d,"serializeTypeCurrentRPC":"JSON","version":'
            + b"%d}" % ANNOUNCED_VERSION
        )
        # Answers to one message with an id of its sender, which are nearly all.
        self._json_of_one = self._json.replace(b"%b", self._id_prefix + b"%016X", 1).replace(
            b"%b", b'"transactionId":"%b",', 1
        )
        self._binary_end = b"".join([binary_field(name, value.encode()) for name, value in fields.items()])

    def of_one(
        self, command: Command, physical_offset: int, queue_id: int, queue_offset: int, unique_key: str
    ) -> RawCommand:
        opaque, key = command.opaque, unique_key.encode()
        # Others may have to be escaped in JSON.
        if command.serialize_type == SERIALIZE_ROCKETMQ or not key.isalnum():
            message_id = b"%b%016X" % (self._id_prefix, physical_offset)
            return self._general(command, message_id, queue_id, queue_offset, unique_key)
        return raw_answer(opaque, self._json_of_one % (physical_offset, queue_id, queue_offset, key, opaque))

    def of_batch(
        self, command: Command, message_ids: str, queue_id: int, queue_offset: int, unique_key: str | None
    ) -> RawCommand:
        """The answer to a batch: all offset message ids joined by commas, and the batch's own key; a 4.9 client gives it none."""
        return self._general(command, message_ids.encode(), queue_id, queue_offset, unique_key)

    def _general(
        self, command: Command, message_ids: bytes, queue_id: int, queue_offset: int, unique_key: str | None
    ) -> RawCommand:
        opaque = command.opaque
        if command.serialize_type != SERIALIZE_ROCKETMQ:
            transaction_id = b"" if unique_key is None else b'"transactionId":%b,' % _json(unique_key)
            return raw_answer(opaque, self._json % (message_ids, queue_id, queue_offset, transaction_id, opaque))
        queue, offset, key = b"%d" % queue_id, b"%d" % queue_offset, (unique_key or "").encode()
        fields = (
            _MSG_ID,
            len(message_ids).to_bytes(4, "big"),
            message_ids,
            _QUEUE_ID,
            len(queue).to_bytes(4, "big"),
            queue,
            _QUEUE_OFFSET,
            len(offset).to_bytes(4, "big"),
            offset,
            *(() if unique_key is None else (_TRANSACTION_ID, len(key).to_bytes(4, "big"), key)),
            self._binary_end,
        )
        ext = b"".join(fields)
        head = BINARY_HEAD.pack(0, _PYTHON, ANNOUNCED_VERSION, opaque, FLAG_RESPONSE, 0, len(ext))
        return raw_answer(opaque, head + ext, SERIALIZE_ROCKETMQ)


def _json(text: str) -> bytes:
    return msgspec.json.encode(text)


_PYTHON: Final = LANGUAGE_CODES["PYTHON"]
# Names of fields as a ROCKETMQ header has them; the length of the value follows.
_MSG_ID: Final = binary_field("msgId", b"")[:-4]
_QUEUE_ID: Final = binary_field("queueId", b"")[:-4]
_QUEUE_OFFSET: Final = binary_field("queueOffset", b"")[:-4]
_TRANSACTION_ID: Final = binary_field("transactionId", b"")[:-4]
