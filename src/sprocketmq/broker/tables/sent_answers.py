"""The answer to a send that was stored, its header made of constant parts (Java: SendMessageResponseHeader and two fields beside it)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.codes import ANNOUNCED_VERSION
from sprocketmq.wire.frames.command import FLAG_RESPONSE, SERIALIZE_ROCKETMQ, Command, binary_field, binary_header
from sprocketmq.wire.frames.raw_command import RawCommand, raw_answer
from sprocketmq.wire.records import properties as props

__all__ = ["SentAnswers"]


class SentAnswers:
    """The answers of one broker.

    Args:
        id_prefix: how each of its offset message ids begins; 16 digits follow.
        region_id, trace_on: what it tells with each answer.
    """

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
        # Of one message, with the id of its sender: nearly all answers.
        self._json_of_one = self._json.replace(b"%b", self._id_prefix + b"%016X", 1).replace(
            b"%b", b'"transactionId":"%b",', 1
        )
        self._binary_end = b"".join([binary_field(name, value.encode()) for name, value in fields.items()])

    def of_one(
        self, command: Command, physical_offset: int, queue_id: int, queue_offset: int, unique_key: str
    ) -> RawCommand:
        """The answer to the send of one message."""
        opaque = command.opaque
        # What is not alphanumeric may have to be escaped in JSON.
        if command.serialize_type == SERIALIZE_ROCKETMQ or not unique_key.isalnum():
            message_id = b"%b%016X" % (self._id_prefix, physical_offset)
            return self._general(command, message_id, queue_id, queue_offset, unique_key)
        return raw_answer(
            opaque, self._json_of_one % (physical_offset, queue_id, queue_offset, unique_key.encode(), opaque)
        )

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
        fields = (
            binary_field("msgId", message_ids),
            binary_field("queueId", b"%d" % queue_id),
            binary_field("queueOffset", b"%d" % queue_offset),
            b"" if unique_key is None else binary_field("transactionId", unique_key.encode()),
            self._binary_end,
        )
        header = binary_header(0, "PYTHON", ANNOUNCED_VERSION, opaque, FLAG_RESPONSE, b"", b"".join(fields))
        return raw_answer(opaque, header, SERIALIZE_ROCKETMQ)


def _json(text: str) -> bytes:
    return msgspec.json.encode(text)
