"""The short way of a send about which nothing is special: SEND_MESSAGE_V2 of a JSON client, one message, stored at once.

    frame --> typed header (one decode, no dict) --> what its properties say (remembered by their shape) --> put --> answer as bytes

The long way (``handlers.send``) is the truth; this one takes a request only when each of its checks passes beyond doubt, and leaves
everything else to it: unknown topics, retry topics, one-way, delays, transactions, odd numbers, headers that are no JSON.

Laws
1. Whatever goes the short way is stored and answered as on the long way, byte for byte.
2. What is refused here has changed nothing, so that the long way can begin anew.
3. Properties are judged by the long way's own functions, on a text with a probe in place of the UNIQ_KEY: as no value can hold the
   separator, no other value can change what they say. So the name must be there once: of two UNIQ_KEYs the last counts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from sprocketmq.broker.handlers.limits import REMEMBERED_LENGTH
from sprocketmq.broker.handlers.messages.send import waits_for_disk
from sprocketmq.broker.handlers.messages.special_messages import is_special
from sprocketmq.broker.tables.stamps import Stamps
from sprocketmq.broker.tables.topics import PERM_READ, PERM_WRITE, SEND_FORBIDDEN
from sprocketmq.errors import RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import StoredMessage
from sprocketmq.wire.codes import ANNOUNCED_VERSION, RequestCode
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import COMPRESSED

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["NUMBERS", "PlainSends", "SendAnswer", "SendHead", "read_head"]

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
NUMBERS: Final = {str(number): number for number in range(4096)}  # as everybody writes them; others go the long way
_COMPRESSION_BITS: Final = COMPRESSED | 0x700
_MOST_SHAPES: Final = 1024
_WORD = struct.Struct(">i").unpack_from
_KEY: Final = "UNIQ_KEY\x01"
_PROBE: Final = "0"


class _Ext(msgspec.Struct, gc=False):
    """SendMessageRequestHeaderV2 as it travels; everything is text, and what is not goes the long way."""

    a: str
    b: str
    c: str
    d: str
    e: str
    f: str
    g: str
    h: str
    i: str
    j: str = "0"
    k: str = "false"
    l: str = "0"  # noqa: E741 - wire name
    m: str = "false"
    n: str = ""


class SendHead(msgspec.Struct, gc=False):
    code: int
    extFields: _Ext  # noqa: N815 - wire name
    flag: int = 0
    language: str = ""
    opaque: _Int32 = 0
    remark: str = ""
    version: _Int32 = 0


_decode = msgspec.json.Decoder(SendHead).decode


class _Shape(msgspec.Struct, frozen=True):
    """What properties say, whatever their UNIQ_KEY: the tags code, the text the broker adds, whether the sender waits for the disk."""

    tags_code: int
    added: str


def read_head(broker: Broker, header: memoryview, code: int) -> SendHead | None:
    """The header of a send with ``code``, None where the long way has to look; whether it is a batch (``m``) is the caller's to judge."""
    try:
        head = _decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    ext = head.extFields
    topic, queue_id, sys_flag, born = ext.b, NUMBERS.get(ext.e), NUMBERS.get(ext.f), ext.g
    config = broker.topics.get(topic)
    if (
        config is None
        or queue_id is None
        or (queue_id >= config.write_queue_nums and queue_id >= config.read_queue_nums)
        or topic in SEND_FORBIDDEN
        or topic[0] == "%"
        or head.code != code
        or head.flag
        or sys_flag is None
        or sys_flag & ~_COMPRESSION_BITS
        or ext.h not in NUMBERS
        or ext.j != "0"
        or ext.k != "false"
        or ext.d not in NUMBERS
        or ext.l not in NUMBERS
        or not (0 < len(born) < 19 and born[0] != "0" and born.isascii() and born.isdigit())
    ):
        return None
    return head


class PlainSends:
    """``send`` is the short way; :meth:`begin` is called, and ``now_ms`` set, before each read."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shapes: dict[str, _Shape | None] = {}
        self._stamps: Stamps | None = None
        self._max_body_bytes = 0
        self.answer = SendAnswer("", "", "")
        self.now_ms = 0

    def begin(self) -> bool:
        """Whether the way is open: an answer waits for nobody, and the broker may be written."""
        broker = self._broker
        if broker.sends_wait or broker.config.broker_permission != PERM_READ | PERM_WRITE:
            return False
        if self._stamps is not broker.stamps:
            self._stamps = stamps = broker.stamps
            self._shapes.clear()
            self.answer = SendAnswer(stamps.message_id_prefix, stamps.region_id, stamps.trace_on)
        self._max_body_bytes = broker.config.max_message_size
        return True

    def send(self, connection: Connection, view: memoryview, at: int, stop: int) -> bytes | None:
        (header_bytes,) = _WORD(view, at)  # above 24 bits: no JSON
        body_at = at + 4 + header_bytes
        if not at < body_at < stop or stop - body_at > self._max_body_bytes:
            return None
        head = read_head(self._broker, view[at + 4 : body_at], _SEND)
        if head is None or head.extFields.m != "false":
            return None
        ext = head.extFields
        raw = ext.i
        key_at = raw.find(_KEY) + 9
        key_end = raw.find("\x02", key_at)
        if key_at < 9 or key_end <= key_at:
            return None
        key = raw[key_at:key_end]
        template = raw[:key_at] + raw[key_end:]
        shape = self._shapes.get(template)
        if shape is None:
            shape = self._learn(template, key_at)
        if shape is None or not key.isascii() or not (key.isalnum() or _is_plain(key)):
            return None
        properties = (raw + shape.added).encode()
        if len(properties) > props.MAX_PROPERTIES_BYTES:
            return None
        message = StoredMessage(
            ext.b,
            NUMBERS[ext.e],
            view[body_at:stop],  # type: ignore[arg-type]  # copied once, into the log
            properties,
            NUMBERS[ext.h],
            NUMBERS[ext.f],
            int(ext.g),
            connection.state["born_host"],
            self._stamps.host,  # type: ignore[union-attr]
            0,
            0,
            shape.tags_code,
        )
        try:
            result = self._broker.put(message, self.now_ms)
        except RocketMQError:
            return None  # nothing was stored; the long way says why
        return self.answer.encode(result.physical_offset, ext.e, result.queue_offset, key, head.opaque)

    def _learn(self, template: str, key_at: int) -> _Shape | None:
        """Judge properties of a new shape; None (remembered too, unless it is long) for those that the long way has to look at."""
        assert self._stamps is not None
        if template in self._shapes:
            return None
        text = template[:key_at] + _PROBE + template[key_at:]
        shape = None
        if text.isascii() and text.count(_KEY) == 1:
            raw = text.encode()
            marked = self._stamps.mark(raw)
            plain = props.get_property(marked, props.UNIQ_KEY) == _PROBE and waits_for_disk(marked)
            if plain and not is_special(marked) and marked.startswith(raw):  # another broker's marks have to go
                tags = props.get_property(marked, props.TAGS)
                shape = _Shape(tags_code(tags), marked[len(raw) :].decode())
        if len(template) <= REMEMBERED_LENGTH:
            if len(self._shapes) >= _MOST_SHAPES:  # shapes come from the network: remember some, not all
                self._shapes.clear()
            self._shapes[template] = shape
        return shape


def _is_plain(key: str) -> bool:
    """Whether it stands in JSON as it is."""
    return key.isprintable() and '"' not in key and "\\" not in key


class SendAnswer:
    """SendMessageResponseHeader as its bytes, the constant parts made once."""

    def __init__(self, message_id_prefix: str, region_id: str, trace_on: str) -> None:
        def quoted(text: str) -> str:
            return msgspec.json.encode(text).decode()

        self._id_prefix = message_id_prefix
        self._stamps = (
            f'","MSG_REGION":{quoted(region_id)},"TRACE_ON":{quoted(trace_on)}}},"flag":1,"language":"PYTHON","opaque":'
        )
        self._end = f',"serializeTypeCurrentRPC":"JSON","version":{ANNOUNCED_VERSION}}}'
        self._pack = struct.Struct(">ii").pack

    def encode(self, physical_offset: int, queue_id: str, queue_offset: int, unique_key: str, opaque: int) -> bytes:
        return self.encode_ids(f"{self._id_prefix}{physical_offset:016X}", queue_id, queue_offset, unique_key, opaque)

    def encode_ids(self, message_ids: str, queue_id: str, queue_offset: int, unique_key: str, opaque: int) -> bytes:
        """The same for a batch, which has many ids, and need not have a key."""
        transaction_id = f'","transactionId":"{unique_key}' if unique_key else ""
        header = (
            f'{{"code":0,"extFields":{{"msgId":"{message_ids}","queueId":"{queue_id}","queueOffset":"{queue_offset}'
            f"{transaction_id}{self._stamps}{opaque}{self._end}"
        ).encode()
        size = len(header)
        return self._pack(size + 4, size) + header
