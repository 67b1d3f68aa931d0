# SPDX-License-Identifier: Apache-2.0
"""The public message types: MessageQueue, Message (to be sent), MessageExt (received). Java: the same names, and MessageClientExt. As in
Java, tags, keys and system values are in ``properties`` under reserved names (MessageConst). A received message parses its properties,
and most fixed fields, on first access, because most listeners read the body only. A message to be sent keeps them as text, made of
checked values, until the dict is read, which most senders never do; from then on only the dict counts, because its owner may change it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, cast

import msgspec

from sprocketmq.errors import ConfigurationError, ValueDeserializationError, described
from sprocketmq.plain_values import plain_int, plain_text, plain_value
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import offset_message_id
from sprocketmq.wire.records.record_head import LazyField, LazyHost

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar

    V = TypeVar("V", default=Any)  # so that MessageExt alone means MessageExt[Any]; Python has the default from 3.13 on
else:
    from typing import TypeVar

    V = TypeVar("V")
M = TypeVar("M", bound="MessageExt")

# A Message is created for each send; these avoid a lookup in the module each time.
_TAGS: Final = props.TAGS
_KEYS: Final = props.KEYS
_UNIQ_KEY: Final = props.UNIQ_KEY
_checked_value, _join_keys = props.checked_value, props.join_keys
_NONE: Final = 0
_NOTHING: Final[Mapping[str, str]] = {}
_INT32: Final = 0x7FFFFFFF


class MessageQueue(msgspec.Struct, frozen=True, order=True, gc=False):
    """A queue of a topic on a broker. Queues sort by (topic, broker_name, queue_id), as in Java; the allocation strategies rely on it."""

    topic: str
    broker_name: str = msgspec.field(name="brokerName")
    queue_id: int = msgspec.field(name="queueId")

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class Message:
    """A message to send.

    Args:
        topic: 1 to 127 characters from ``% | a-z A-Z 0-9 _ -``.
        body: 1 byte to 4 MiB. Encode text first, as in ``text.encode()``.
        tags: one tag, by which subscriptions can filter; default: none.
        keys: one or several index keys without blanks; default: none. Brokers can find the message by each of them.
        properties: names and values, both text; default: none. Reserved names (``wire.records.properties.RESERVED``) are refused.
        flag: an int32 for the application; it is delivered unchanged.
        delay_level: the delay level, by default 1 to 18 (1s 5s 10s 30s 1m ... 2h); 0 means no delay. A producer refuses levels above its
            ``max_delay_level``.
        wait_store_msg_ok: False: the broker answers without waiting for flush and replication.

    Topic and body are checked when the message is sent.

    Raises:
        ConfigurationError: a type is wrong, or a name is reserved; the sentence says which.
    """

    __slots__ = ("_properties", "_text", "_unique_key", "body", "flag", "topic", "transaction_id")

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        wait_store_msg_ok: bool = True,
    ) -> None:
        if type(body) is not bytes:
            if not isinstance(body, bytes | bytearray | memoryview):
                raise ConfigurationError(f"body is {type(body).__name__}, bytes are allowed; {encoding_advice(body)}")
            body = bytes(body)
        if type(topic) is not str or flag is not _NONE or delay_level is not _NONE or wait_store_msg_ok is not True:
            topic, flag, delay_level = _check_rare(topic, flag, delay_level, wait_store_msg_ok)
        self.topic = topic
        self.body: bytes = body
        self.flag = flag
        self.transaction_id: str | None = None
        self._unique_key: str | None = None  # the one in the text
        text = "" if properties is None else props.user_properties_text(properties)
        if tags is not None:
            # The conditions are those of ``checked_value`` for most values, without a call.
            if type(tags) is not str or not tags.isprintable() or not tags or tags.isspace():
                tags = _checked_value("tags", tags)
            text = f"{text}TAGS\x01{tags}\x02"
        if keys is not None:
            if type(keys) is not str or not keys.isprintable() or not keys or " " in keys:
                keys = _join_keys(keys)
            if keys:  # there may be none in a list
                text = f"{text}KEYS\x01{keys}\x02"
        # While it is there, it has nothing that the parameters above cannot say, but for the UNIQ_KEY.
        self._text: str | None = text
        self._properties: dict[str, str]  # set when the text is None
        if delay_level:
            self.properties[props.DELAY] = str(delay_level)
        if not wait_store_msg_ok:
            self.properties[props.WAIT] = "false"

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including those of the system, by their names on the wire."""
        text = self._text
        if text is not None:
            self._properties = props.pairs_of_text(text)
            self._text = None
        return self._properties

    @property
    def properties_text(self) -> str:
        """The text form of the properties (see ``wire.records.properties``). Raises ConfigurationError (the dict was changed, and a
        name or value is not text, or holds a separator)."""
        text = self._text
        return props.joined_properties(self.properties) if text is None else text

    @property
    def exposed_properties(self) -> Mapping[str, str]:
        """The properties if the dict was read, and may have been changed. Else none: then there are only tags, keys,
        properties of the user and the UNIQ_KEY."""
        return _NOTHING if self._text is not None else self.properties

    @property
    def unique_key(self) -> str | None:
        """The id that a producer gave it when it was first sent (UNIQ_KEY); None before."""
        if self._text is not None:
            return self._unique_key
        key = self.properties.get(_UNIQ_KEY)
        return plain_text(key) if isinstance(key, str) else key

    def identify(self, unique_key: str) -> None:
        """Give it its id. Called by producers, for a message without one. ``unique_key``: as ``wire.records.message_id`` says."""
        if self._text is None:
            self.properties[_UNIQ_KEY] = unique_key
        else:
            self._text += f"{_UNIQ_KEY}\x01{unique_key}\x02"
            self._unique_key = unique_key

    def _property(self, name: str) -> str | None:
        text = self._text
        return self.properties.get(name) if text is None else props.pairs_of_text(text).get(name)

    @property
    def tags(self) -> str | None:
        """The tag; None if there is none."""
        return self._property(_TAGS)

    @tags.setter
    def tags(self, tags: str) -> None:
        self.properties[props.TAGS] = props.checked_value("tags", tags)

    @property
    def keys(self) -> list[str]:
        """The index keys. The property KEYS holds them, separated by blanks."""
        return (self._property(_KEYS) or "").split()

    @keys.setter
    def keys(self, keys: str | Iterable[str]) -> None:
        self.properties[props.KEYS] = props.join_keys(keys)

    @property
    def delay_level(self) -> int:
        """The delay level; 0 means no delay."""
        return 0 if self._text is not None else props.int_property(self.properties, props.DELAY, 0)

    @property
    def wait_store_msg_ok(self) -> bool:
        """False: the broker answers without waiting for flush and replication."""
        return self._text is not None or self.properties.get(props.WAIT, "true") != "false"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(topic={self.topic!r}, tags={self.tags!r}, keys={self.keys!r}, body={len(self.body)} bytes)"


def _check_rare(topic: object, flag: object, delay_level: object, wait_store_msg_ok: object) -> tuple[str, int, int]:
    """Check the arguments if one has an unusual value. Topic and body can still change; the sender checks them."""
    if not isinstance(topic, str):
        raise ConfigurationError(f"topic is {topic!r}, a name (str) is allowed")
    level = plain_int(delay_level)
    if type(level) is not int or not 0 <= level <= _INT32:
        raise ConfigurationError(
            f"delay_level is {delay_level!r}, a whole number from 0 to {_INT32} is allowed; 0 means at once"
        )
    if not isinstance(wait_store_msg_ok, bool):
        raise ConfigurationError(f"wait_store_msg_ok is {wait_store_msg_ok!r}, True or False is allowed")
    return plain_text(topic), check_flag(flag), level


def encoding_advice(body: object) -> str:
    """How to turn a value that is not bytes into a body, as the end of a sentence."""
    if body is None:
        return "give at least 1 byte"
    if isinstance(body, str):
        return "encode text first, as in text.encode()"
    if isinstance(body, Collection):
        return "encode it first, as in json.dumps(value).encode()"
    return "encode it first, as in str(value).encode()"


def check_flag(flag: object) -> int:
    """The flag. Raises ConfigurationError if it is not an int32."""
    number = plain_int(flag)
    if type(number) is not int or not -_INT32 - 1 <= number <= _INT32:
        raise ConfigurationError(f"flag is {flag!r}, a whole number from {-_INT32 - 1} to {_INT32} is allowed")
    return number


def format_host(address: bytes, port: int) -> str:
    """An address of 4 or 16 bytes and a port as ``ip:port``, with an IPv6 address in brackets."""
    if len(address) == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{port}"
    import ipaddress  # only needed for IPv6

    return f"[{ipaddress.IPv6Address(bytes(address))}]:{port}"


class MessageExt(Message, Generic[V]):
    """A stored message, as a consumer receives it.

    Attributes in addition to those of Message: ``broker_name``, ``queue_id``, ``queue_offset``, ``commit_log_offset``, ``sys_flag``,
    ``born_timestamp_ms``, ``store_timestamp_ms``, ``born_host`` and ``store_host`` (``ip:port``), ``reconsume_times`` (0 for the first
    delivery), ``prepared_transaction_offset`` (of a committed message: where its half is; negative where our broker delivered it after a
    wait), ``store_size_bytes``. ``message_id`` is the id that the producer made (UNIQ_KEY); retries
    keep it. ``offset_message_id`` identifies this stored copy.

    Args:
        topic: the topic in which it is stored.
        body: the body.
        fields: the attributes above and the arguments of Message, by name.
    """

    __slots__ = (
        "_born_host",
        "_deserialize",
        "_head",
        "_more_properties",
        "_raw_properties",
        "_store_host",
        "_value",
        "born_timestamp_ms",
        "broker_name",
        "commit_log_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_size_bytes",
        "store_timestamp_ms",
        "sys_flag",
    )

    def __init__(self, topic: str, body: bytes, **fields: Any) -> None:
        """Only code that creates such a message itself calls this; the decoder (``wire.records.record``) fills the slots directly."""
        own = {name: fields.pop(name) for name in list(fields) if name in _EXT_DEFAULTS}
        born_host, store_host = fields.pop("born_host", "127.0.0.1:0"), fields.pop("store_host", "127.0.0.1:0")
        # Set before the base class sets the properties, because the attribute ``properties`` reads it.
        self._raw_properties: bytes | None = None
        self._more_properties = b""
        super().__init__(topic, body, **fields)
        self._born_host = _parse_host("born_host", born_host)
        self._store_host = _parse_host("store_host", store_host)
        for name, default in _EXT_DEFAULTS.items():
            value = own.get(name, default)
            value = plain_value(value)
            if type(value) is not type(default):
                raise ConfigurationError(f"{name} is {value!r}, {type(default).__name__} is allowed")
            setattr(self, name, value)

    broker_name: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    sys_flag: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int
    prepared_transaction_offset: int
    store_size_bytes: int
    _born_host: tuple[bytes, int]
    _store_host: tuple[bytes, int]
    _head: bytes  # of the record, from which fields are parsed on access; unset if the message was not decoded
    _more_properties: bytes  # encoded properties that are appended to those of the record on access
    _deserialize: Callable[[bytes], V]  # unset without a value_deserializer for its topic
    _value: V  # unset until it is first read

    @property
    def properties(self) -> dict[str, str]:
        raw = self._raw_properties
        if raw is not None:
            if more := self._more_properties:
                raw = raw + more if not raw or raw.endswith(b"\x02") else raw + b"\x02" + more
            self._properties = props.decode_properties(raw)
            self._raw_properties = None
        return self._properties if self._text is None else super().properties

    @property
    def value(self) -> V:
        """The body as the consumer's ``value_deserializer`` reads it, when it is first asked for; ``body`` stays as it is. Raises
        ValueDeserializationError, with topic, id and reason, when the body is something else; ConfigurationError when the consumer has
        no ``value_deserializer`` for this topic."""
        if not hasattr(self, "_value"):
            self._value = self._deserialized()
        return self._value

    def _deserialized(self) -> V:
        try:
            deserialize = self._deserialize
        except AttributeError:
            raise ConfigurationError(
                f"the consumer has no value_deserializer for topic {self.topic!r}; give it one, or read message.body (a message that was "
                "pickled has its value only if it was read before)"
            ) from None
        try:
            return deserialize(self.body)
        except Exception as error:
            raise ValueDeserializationError(
                f"message {self.message_id} of topic {self.topic!r}: its body of {len(self.body)} bytes cannot be deserialized: "
                + described(error)
            ) from error

    def __copy__(self) -> Self:
        return self._copy_as(type(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        deep = copy.copy(self)
        if self._text is None and self._raw_properties is None:
            deep._properties = dict(self._properties)
        if hasattr(self, "_value"):
            deep._value = copy.deepcopy(self._value, memo)
        return deep

    def _copy_as(self, kind: type[M]) -> M:
        """A shallow copy that is a ``kind``. It reads no field that was not read yet."""
        made = kind.__new__(kind)
        for get, put in _SLOTS:
            try:
                put(made, get(self, MessageExt))
            except AttributeError:  # not read from the record yet
                continue
        return made

    def __getstate__(self) -> object:
        """For pickle: without the ``value_deserializer``, because few can be pickled; a value that was read goes along."""
        own, slots = cast("tuple[Any, dict[str, Any]]", super().__getstate__())
        slots.pop("_deserialize", None)
        return own, slots

    def forget_value(self) -> None:
        """The message is delivered again: what the last delivery did to the value is not seen."""
        if hasattr(self, "_value"):
            del self._value

    @property
    def born_host(self) -> str:
        """The sender's address, ``ip:port``."""
        return format_host(*self._born_host)

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it, ``ip:port``."""
        return format_host(*self._store_host)

    @property
    def offset_message_id(self) -> str:
        """The id of this stored copy: store host and commit log offset in hexadecimal. Brokers find the copy by it (VIEW_MESSAGE_BY_ID)."""
        return offset_message_id(self._store_host, self.commit_log_offset)

    @property
    def message_id(self) -> str:
        """The id that the producer made (UNIQ_KEY), which retries keep; the offset message id if there is none."""
        return self.properties.get(props.UNIQ_KEY) or self.offset_message_id

    @property
    def message_queue(self) -> MessageQueue:
        """The queue in which it is stored; for a retry, a queue of the retry topic."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(topic={self.topic!r}, tags={self.tags!r}, message_id={self.message_id!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, reconsume_times={self.reconsume_times}, body={len(self.body)} bytes)"
        )


# The fields that are parsed from the record's head on first access, by their names in the record.
for _name, _field in (
    ("store_size_bytes", "size"),
    ("flag", "flag"),
    ("commit_log_offset", "physical_offset"),
    ("sys_flag", "sys_flag"),
    ("born_timestamp_ms", "born_timestamp_ms"),
    ("store_timestamp_ms", "store_timestamp_ms"),
    ("reconsume_times", "reconsume_times"),
    ("prepared_transaction_offset", "prepared_transaction_offset"),
):
    setattr(MessageExt, _name, LazyField(getattr(MessageExt, _name), _field))
for _name, _field in (("_born_host", "born_host"), ("_store_host", "store_host")):
    setattr(MessageExt, _name, LazyHost(getattr(MessageExt, _name), _field))

# Getter and setter of each slot that a message may have filled: those of fields that are read late do not read them here.
_SLOTS: Final = tuple(
    (getattr(slot, "slot", slot).__get__, getattr(slot, "slot", slot).__set__)
    for kind in (Message, MessageExt)
    for name in kind.__slots__
    for slot in (vars(kind)[name],)
)

_EXT_DEFAULTS: dict[str, Any] = {
    "broker_name": "",
    "queue_id": 0,
    "queue_offset": 0,
    "commit_log_offset": 0,
    "sys_flag": 0,
    "born_timestamp_ms": 0,
    "store_timestamp_ms": 0,
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "store_size_bytes": 0,
}


def _parse_host(name: str, host: str) -> tuple[bytes, int]:
    import ipaddress  # only needed for messages that were not decoded

    try:
        ip, _, port = host.rpartition(":")
        return ipaddress.ip_address(ip.strip("[]")).packed, int(port)
    except (AttributeError, ValueError):
        raise ConfigurationError(f"{name} is {host!r}, ip:port is allowed, as in '127.0.0.1:10911'") from None
