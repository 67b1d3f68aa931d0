# SPDX-License-Identifier: Apache-2.0
"""Message properties: reserved names, and the text form in which they are sent and stored (Java: MessageConst, MessageDecoder).

    name \\x01 value \\x02 name \\x01 value \\x02 ...

There is no escaping, so names and values must not contain the two separators. Readers accept a missing last \\x02 and drop a pair whose
name or value is empty; of a name that occurs twice the last value counts. The text has at most 32,767 bytes (an int16).
``get_property``, ``set_property`` and ``remove_property`` work on the raw bytes: the broker needs two or three properties of a message,
and a dict of all would be slow.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_text

# Set by the attributes of a message.
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
SHARDING_KEY: Final = "__SHARDINGKEY"
INSTANCE_ID: Final = "INSTANCE_ID"

# Ids, and what the broker records about a message.
UNIQ_KEY: Final = "UNIQ_KEY"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
CLUSTER: Final = "CLUSTER"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
CRC32: Final = "__CRC32#"

# Retry, delay and dead letter.
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"

# Not in Apache: why a consumer sent this message back. For other readers it is a user property.
RETRY_REASON: Final = "RETRY_REASON"

# Not in Apache: the id of a replay of a dead letter. A replayed message keeps its message id and has no tries.
REPLAY_ID: Final = "REPLAY_ID"

# Not in Apache: the id of a row in a write of a Spark job, and the ledger of a transactional write.
SPARK_QUERY_ID: Final = "SPARK_QUERY_ID"
SPARK_BATCH_ID: Final = "SPARK_BATCH_ID"
SPARK_PARTITION: Final = "SPARK_PARTITION"
SPARK_SEQUENCE: Final = "SPARK_SEQUENCE"
SPARK_ATTEMPT: Final = "SPARK_ATTEMPT"
SPARK_TRY: Final = "SPARK_TRY"
SPARK_LEDGER: Final = "SPARK_LEDGER"
SPARK_MARKS: Final = frozenset(
    {SPARK_QUERY_ID, SPARK_BATCH_ID, SPARK_PARTITION, SPARK_SEQUENCE, SPARK_ATTEMPT, SPARK_TRY, SPARK_LEDGER}
)

# Set by the client that pulled the message; never stored.
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRANSIENT_TOPIC_SYS_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
TRANSIENT_GROUP_SYS_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"

# Transactions.
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"

# Request and reply.
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
MSG_TYPE: Final = "MSG_TYPE"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"

# Read but never set by us: POP, inner batches, light queues, escape bridge, and names of older systems.
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT: Final = "REDIRECT"
DUP_INFO: Final = "DUP_INFO"
BUYER_ID: Final = "BUYER_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"

# MessageConst.STRING_HASH_SET: names that the user-property API refuses. SHARDING_KEY and TRANSACTION_ID are not among them in Java.
RESERVED: Final = frozenset(
    (
        *(
            TRACE_ON,
            MSG_REGION,
            KEYS,
            TAGS,
            WAIT,
            DELAY,
            RETRY_TOPIC,
            REAL_TOPIC,
            REAL_QID,
            TRAN_MSG,
            PGROUP,
            MIN_OFFSET,
        ),
        *(MAX_OFFSET, BUYER_ID, ORIGIN_MESSAGE_ID, TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG, RECONSUME_TIME, UNIQ_KEY),
        *(MAX_RECONSUME_TIMES, CONSUME_START_TIME, POP_CK, POP_CK_OFFSET, FIRST_POP_TIME, TRAN_PREPARED_QUEUE_OFFSET),
        *(DUP_INFO, EXTEND_UNIQ_INFO, INSTANCE_ID, CORRELATION_ID, REPLY_TO_CLIENT, TTL, ARRIVE_TIME, PUSH_REPLY_TIME),
        *(CLUSTER, MSG_TYPE, INNER_MULTI_QUEUE_OFFSET, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, BORN_HOST),
        *(TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_OUT_MS, TIMER_DEL_UNIQKEY, TIMER_DELAY_LEVEL),
        *(BORN_TIMESTAMP, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, CRC32),
    )
)

# These belong to one message, not to its content: a message that is made from the properties of another one must not take them over.
OF_ONE_MESSAGE: Final = (
    RESERVED
    | SPARK_MARKS
    | {SHARDING_KEY, TRANSACTION_ID, TRANSACTION_CHECK_TIMES, CHECK_IMMUNITY_TIME_IN_SECONDS, TRACE_CONTEXT}
    | {RETRY_REASON, REPLAY_ID, INNER_NUM, INNER_BASE, INNER_MULTI_DISPATCH, FORWARD_QUEUE_ID, REDIRECT}
    | {TRANSIENT_TOPIC_SYS_FLAG, TRANSIENT_GROUP_SYS_FLAG}
)

KEY_SEPARATOR: Final = " "
MAX_PROPERTIES_BYTES: Final = 32_767
_BYTES: Final = (bytes, bytearray, memoryview)


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The text form as bytes, without pairs that have an empty value. Raises ConfigurationError: as ``joined_properties``, or it is
    longer than 32,767 bytes."""
    return encode_text(joined_properties(properties))


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the same as ``encode_properties``, as text for a header."""
    return header_text(joined_properties(properties))


def header_text(text: str) -> str:
    """Return a text form that is not too long for a header. Raises as ``encode_properties``."""
    if not text.isascii() or len(text) > MAX_PROPERTIES_BYTES:
        encode_text(text)
    return text


def encode_text(text: str) -> bytes:
    """Return the bytes of a text form. Raises ConfigurationError: they are more than 32,767."""
    raw = text.encode()
    if len(raw) > MAX_PROPERTIES_BYTES:
        raise ConfigurationError(
            f"the properties take {len(raw)} bytes, at most {MAX_PROPERTIES_BYTES} are allowed; put large values into the body"
        )
    return raw


def joined_properties(properties: Mapping[str, str]) -> str:
    """The text form. Properties may be changed until the message is sent, so they are checked here: to readers, a separator in a value
    would begin another property. Raises ConfigurationError: a name or value is not text, or holds a separator or a lone surrogate."""
    text = ""
    for name, value in properties.items():
        # Printable text contains no separator. A subclass of str may have its own ``__format__``, so it does not pass here.
        if (
            type(value) is not str
            or not value
            or not value.isprintable()
            or type(name) is not str
            or not name
            or not name.isprintable()
        ):
            return _joined_one_by_one(properties)
        text += f"{name}\x01{value}\x02"
    return text


def _joined_one_by_one(properties: Mapping[str, str]) -> str:
    r"""``joined_properties`` with an error message. A value may contain ``\x01``: readers take the first one of a pair as the separator."""
    parts: list[str] = []
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(_not_text(name, value))
        if not name or not value:
            continue  # as every reader does
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise ConfigurationError(
                f"property {name!r} is {value!r}; the characters \\x01 and \\x02 separate properties, remove them"
            )
        what = f"property {name!r}"
        parts.append(f"{_without_surrogates(what, name)}\x01{_without_surrogates(what, value)}\x02")
    return "".join(parts)


def _without_surrogates(what: str, text: str) -> str:
    """Return ``text``, the value of ``what``, as a plain str. Java writes "?" for half of a surrogate pair, and so the text is another."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{what} is {text!r}; {text[error.start]!r} is half of a character, or a byte that is not UTF-8, which no message can hold; "
            "remove it (bytes that are no text belong into the body)"
        ) from None
    return plain_text(text)


def decode_properties(raw: bytes) -> dict[str, str]:
    """Return the pairs of a text form. Drops malformed pairs and replaces malformed UTF-8 with U+FFFD, as Java does; never raises."""
    properties: dict[str, str] = {}
    for pair in raw.decode("utf-8", "replace").split("\x02"):
        name, _, value = pair.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


@functools.lru_cache(maxsize=256)
def _needles(name: str) -> tuple[bytes, bytes]:
    """Return the bytes of ``name`` at the beginning of the text form, and after another pair."""
    needle = name.encode() + b"\x01"
    return needle, b"\x02" + needle


def get_property(raw: bytes, name: str) -> str | None:
    """Return the value of ``name`` in a raw text form, or None: the same as ``decode_properties(raw).get(name)``, but much faster."""
    needle, inner = _needles(name)
    end = len(raw)
    while True:
        # The last occurrence counts; one with an empty value does not.
        found = raw.rfind(inner, 0, end)
        if found < 0:
            if not raw.startswith(needle):
                return None
            start = len(needle)
        else:
            start = found + 1 + len(needle)
        stop = raw.find(b"\x02", start)
        value = raw[start:] if stop < 0 else raw[start:stop]
        if value:
            return value.decode("utf-8", "replace")
        if found < 0:
            return None
        end = found + 1


def remove_property(raw: bytes, name: str) -> bytes:
    """Return ``raw`` without ``name``; the same object if it does not contain it. Other pairs keep their bytes and order."""
    needle, inner = _needles(name)
    if not raw.startswith(needle) and inner not in raw:
        return raw
    text = b"\x02" + raw if raw.endswith(b"\x02") else b"\x02%b\x02" % raw
    kept: list[bytes] = []
    begin, at = 0, text.find(inner)
    while at >= 0:
        kept.append(text[begin:at])
        begin = text.find(b"\x02", at + 1)
        at = text.find(inner, begin)
    return b"".join([*kept, text[begin:]])[1:]


def set_property(raw: bytes, name: str, value: str) -> bytes:
    """Return ``raw`` with ``name`` set to ``value``, as the last pair. Other pairs keep their bytes and order."""
    rest = remove_property(raw, name)
    if rest and not rest.endswith(b"\x02"):
        rest += b"\x02"
    return rest + f"{name}\x01{value}\x02".encode()


def pairs_of_text(text: str) -> dict[str, str]:
    """Return the pairs of a text form that was made here: each name once, none of them and no value empty, each pair with its end."""
    properties: dict[str, str] = {}
    for pair in text.split("\x02"):
        if pair:
            name, _, value = pair.partition("\x01")
            properties[name] = value
    return properties


def text_with(text: str, name: str, value: str) -> str:
    """Return a text form that was made here, with ``name`` set to ``value``, which is checked already."""
    if f"{name}\x01" in text:  # perhaps in a value
        return joined_properties({**pairs_of_text(text), name: value})
    return f"{text}{name}\x01{value}\x02"


def user_properties_text(properties: Mapping[str, str]) -> str:
    """The text form of properties that a user sets. Raises ConfigurationError: a name or value is not text, is empty or contains a
    separator (``\\x01``, ``\\x02``) or a lone surrogate, or a name is reserved."""
    text = ""
    if not isinstance(properties, Mapping):
        raise ConfigurationError(
            f"properties is {properties!r}, a mapping of text to text is allowed, as in {{'year': '2013'}}"
        )
    for name, value in properties.items():
        # Printable text contains no separator, and no white space except blanks. Most pairs need nothing more than this.
        if (
            type(name) is not str
            or not name.isprintable()
            or not name
            or name in RESERVED
            or type(value) is not str
            or not value.isprintable()
            or not value
            or value.isspace()
        ):
            name, value = _checked_user_property(name, value)
        text += f"{name}\x01{value}\x02"
    return text


def _checked_user_property(name: object, value: object) -> tuple[str, str]:
    if not isinstance(name, str):
        raise ConfigurationError(f"the property name {name!r} is {type(name).__name__}, text (str) is allowed")
    if name in RESERVED:
        raise ConfigurationError(
            f"the property name {name!r} is reserved by RocketMQ; choose another name, or use the message's own attribute for it"
        )
    if not name or "\x01" in name or "\x02" in name:
        raise ConfigurationError(
            f"the property name {name!r} is empty or contains \\x01 or \\x02, which separate properties"
        )
    return _without_surrogates("the property name", name), checked_value(f"property {name!r}", value)


def checked_value(name: str, value: Any) -> str:
    """The value of the property ``name`` as a plain str. Raises ConfigurationError: it is not text, is blank, or contains a separator or
    a lone surrogate."""
    # Printable text contains no separator, and no white space except blanks. Most values pass here, with three calls.
    if type(value) is str and value.isprintable() and value and not value.isspace():
        return value
    if not isinstance(value, str):
        advice = _advice(value)
        if name == "tags" and isinstance(value, Collection) and not isinstance(value, _BYTES):
            advice = "a message has one tag, as in tags='UA'; further words belong into keys or properties"
        raise ConfigurationError(f"{name} is {value!r} ({type(value).__name__}), text (str) is allowed; {advice}")
    if not value or value.isspace():
        raise ConfigurationError(f"{name} is blank, which RocketMQ does not allow; leave it out instead")
    if "\x01" in value or "\x02" in value:
        raise ConfigurationError(
            f"{name} is {value!r}; the characters \\x01 and \\x02 separate properties, remove them"
        )
    return _without_surrogates(name, value)


def _not_text(name: object, value: object) -> str:
    advice = _advice(value if isinstance(name, str) else name)
    return f"property {name!r} is {value!r} ({type(value).__name__}), text (str) is allowed for both; {advice}"


def _advice(value: object) -> str:
    if value is None:
        return "leave it out for none"
    if isinstance(value, _BYTES):
        return "convert it, as in bytes(value).decode()"
    if isinstance(value, Mapping):
        return "convert it, as in json.dumps(value)"
    if isinstance(value, Collection):
        return "convert it, as in ','.join(value)"
    return "convert it, as in str(value)"


def join_keys(keys: str | Iterable[str]) -> str:
    """Index keys, separated by blanks; one text may contain several, as in Java's setKeys. Raises ConfigurationError: a key is not text,
    is blank, or (in a list) contains white space."""
    if isinstance(keys, str):
        if keys.isprintable() and keys and KEY_SEPARATOR not in keys:
            return plain_text(keys)
        return KEY_SEPARATOR.join(checked_value("keys", keys).split())
    words: list[str] = []
    if not isinstance(keys, Iterable) or isinstance(keys, (*_BYTES, Mapping)):
        advice = "give its values, as in list(value.values())" if isinstance(keys, Mapping) else _advice(keys)
        said = f"keys is {keys!r} ({type(keys).__name__}), text or several texts are allowed, as in ['N14228']"
        raise ConfigurationError(f"{said}; {advice}")
    for key in keys:
        word = checked_value("a key", key)
        if len(word.split()) != 1 or word != word.strip():
            raise ConfigurationError(f"the key {word!r} has white space, which separates keys; remove or replace it")
        words.append(word)
    return KEY_SEPARATOR.join(words)


def int_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return property ``name`` as a whole number, or ``default`` if it is missing or not a number (Java: NumberUtils.toInt)."""
    value = properties.get(name)
    if value is None:
        return default
    try:
        return int(value)
    except ValueError:
        return default
