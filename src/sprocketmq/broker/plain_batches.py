"""The short way of a batch about which nothing is special: SEND_BATCH_MESSAGE of a JSON client, its messages alike, stored at once.

    frame --> typed header --> one table of the messages --> what they say (remembered by their shape) --> put --> answer as bytes

As with ``plain_sends`` the long way (``handlers.send``) is the truth, and gets everything that is odd in any way: messages that do not look
alike, delays, empty bodies, keys that JSON has to escape. A batch of 100 costs some fifty calls here, of which none is for one message.

Laws
1. Whatever goes the short way is stored and answered as on the long way, byte for byte.
2. What is refused here has changed nothing, so that the long way can begin anew.
3. Properties are judged by the long way's own functions, once per shape. Of the messages: the text without the values of UNIQ_KEY and
   KEYS, which hold no separator (``uniform_batch``, law 2) and so cannot change what the rest says. Of the batch: the text without its own
   UNIQ_KEY, with a probe in its place (``plain_sends``, law 3).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.limits import REMEMBERED_LENGTH
from sprocketmq.broker.handlers.messages.special_messages import is_delayed
from sprocketmq.broker.plain_sends import NUMBERS, PlainSends, read_head
from sprocketmq.errors import RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import StoredMessage
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import has_more_elements
from sprocketmq.wire.records.uniform_batch import UniformBatch

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["PlainBatches"]

_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_FROM_BYTES: Final = 1024  # below, the long way is as fast
_MOST_SHAPES: Final = 1024
_WORD = struct.Struct(">i").unpack_from
_KEY: Final = "UNIQ_KEY\x01"
_PROBE: Final = "0"


class PlainBatches:
    """``send`` is the short way; open when that of single sends is, whose ``begin`` comes before."""

    def __init__(self, broker: Broker, sends: PlainSends) -> None:
        self._broker, self._sends = broker, sends
        self._shapes: dict[tuple[bytes, str], int | None] = {}

    def send(self, connection: Connection, view: memoryview, at: int, stop: int) -> bytes | None:
        (header_bytes,) = _WORD(view, at)  # above 24 bits: no JSON
        body_at, broker = at + 4 + header_bytes, self._broker
        if not at < body_at <= stop - _FROM_BYTES or stop - body_at > broker.config.max_message_size:
            return None
        head = read_head(broker, view[at + 4 : body_at], _BATCH)
        if head is None or head.extFields.m not in ("true", "false"):
            return None
        ext = head.extFields
        if has_more_elements(view[body_at:stop], broker.config.max_messages_per_batch):
            return None
        batch = UniformBatch.of(bytes(view[body_at:stop]))
        if batch is None or not batch.body:
            return None
        key, common = _own_key(ext.i)
        if key and not (key.isascii() and key.isalnum()):
            return None
        properties = batch.properties
        tags = self._tags_code(batch.template, properties, common)
        if tags is None or len(properties) > props.MAX_PROPERTIES_BYTES:
            return None
        first = StoredMessage(
            ext.b,
            NUMBERS[ext.e],
            batch.body,
            properties,
            batch.flag,
            NUMBERS[ext.f],
            int(ext.g),
            connection.state["born_host"],
            broker.stamps.host,
            0,
            0,
            tags,
        )
        try:
            result = broker.put_uniform(first, batch, self._sends.now_ms)
        except RocketMQError:
            return None  # nothing was stored; the long way says why
        if result is None:
            return None
        ids = broker.stamps.offset_message_ids(result.physical_offset, result.size, batch.count)
        return self._sends.answer.encode_ids(ids, ext.e, result.queue_offset, key, head.opaque)

    def _tags_code(self, template: bytes, raw: bytes, common: str) -> int | None:
        """The tags code of messages with properties like ``raw``; None (remembered too) when the long way has to look at it.

        ``template`` is ``raw`` without what differs within a shape, ``common`` the batch's own properties with the probe as its key.
        """
        known = self._shapes.get((template, common), self)
        if known is not self:
            return known  # type: ignore[return-value]
        of_batch, code = common.encode(), None
        # The key found is the batch's own: neither the second of two, nor that of a name that ends alike.
        has_key = props.get_property(of_batch, props.UNIQ_KEY) == _PROBE
        if common.count(_KEY) == has_key and not is_delayed(raw) and not is_delayed(of_batch):
            code = tags_code(props.get_property(raw, props.TAGS))
        if len(template) + len(common) <= REMEMBERED_LENGTH:
            if len(self._shapes) >= _MOST_SHAPES:  # shapes come from the network: remember some, not all
                self._shapes.clear()
            self._shapes[template, common] = code
        return code


def _own_key(properties: str) -> tuple[str, str]:
    """The batch's own UNIQ_KEY, empty when there is none, and its properties with the probe in the key's place."""
    begin = properties.find(_KEY) + len(_KEY)
    if begin < len(_KEY):
        return "", properties
    end = properties.find("\x02", begin)
    if end < 0:
        end = len(properties)
    return properties[begin:end], properties[:begin] + _PROBE + properties[end:]
