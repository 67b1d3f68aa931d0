"""REGISTER_BROKER: all topics of a broker, as plain JSON or compressed (Java: RegisterBrokerBody).

The compressed form is one zlib stream of length-prefixed parts, each length an i32::

    DataVersion as JSON | count | count * "name readQueues writeQueues perm filterType attributesJSON" | filter servers as JSON
    | from brokers of 5.0 on: count | count * TopicQueueMappingInfo as JSON      (static topics, not looked at here)
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire import fastjson
from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from sprocketmq.wire.compression import decompress

__all__ = ["RegisterBrokerBody"]

_INT32: Final = struct.Struct(">i")


class RegisterBrokerBody(Body):
    """Body of code 103. Its header says in which form it comes: ``compressed``."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = msgspec.field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] = []

    def encode(self) -> bytes:
        return fastjson.dumps_sorted(self)

    def encode_compressed(self) -> bytes:
        """The compressed form, with an empty section of static topics, which a name server before 5.0 does not read."""
        wrapper = self.topic_config_serialize_wrapper
        topics = [_topic_line(topic).encode() for topic in wrapper.topic_config_table.values()]
        parts = [_prefixed(wrapper.data_version.encode()), _INT32.pack(len(topics)), *map(_prefixed, topics)]
        parts += [_prefixed(fastjson.dumps(self.filter_server_list)), _INT32.pack(0)]
        return zlib.compress(b"".join(parts), 9)

    @classmethod
    def decode_compressed(cls, data: bytes | bytearray | memoryview) -> RegisterBrokerBody:
        """The body in the compressed form.

        Raises:
            ProtocolError: it is none.
        """
        plain, at = decompress(bytes(data), 0), 0
        part, at = _part(plain, at)
        wrapper = TopicConfigSerializeWrapper(data_version=DataVersion.decode(part))
        (count,), at = _INT32.unpack(_slice(plain, at, 4)), at + 4
        for _ in range(count):
            part, at = _part(plain, at)
            topic = _topic_config(part)
            wrapper.topic_config_table[topic.topic_name] = topic
        part, at = _part(plain, at)
        return cls(wrapper, fastjson.decode(part, list))


def _prefixed(part: bytes) -> bytes:
    return _INT32.pack(len(part)) + part


def _part(plain: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _INT32.unpack(_slice(plain, at, 4))
    return _slice(plain, at + 4, size), at + 4 + size


def _slice(plain: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(plain):
        raise ProtocolError(f"a registration has {len(plain)} bytes, a part of {size} at {at} does not fit")
    return plain[at : at + size]


def _topic_line(topic: TopicConfig) -> str:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type} {fastjson.dumps(topic.attributes).decode()}"


def _topic_config(line: bytes) -> TopicConfig:
    try:
        words: list[Any] = line.decode().split(" ", 5)
        name, read_queue_nums, write_queue_nums, perm, filter_type = words[0], *map(int, words[1:4]), words[4]
    except (ValueError, IndexError) as error:
        raise ProtocolError(f"a registration has the topic {line!r}, which cannot be read") from error
    attributes = fastjson.decode(words[5].encode(), dict) if len(words) > 5 and words[5] else {}
    return TopicConfig(name, read_queue_nums, write_queue_nums, perm, filter_type, attributes=attributes)
