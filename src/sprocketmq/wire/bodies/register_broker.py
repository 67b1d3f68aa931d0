# SPDX-License-Identifier: Apache-2.0
"""REGISTER_BROKER: all topics of a broker, as plain JSON or compressed (Java: RegisterBrokerBody).

The compressed form is one zlib stream of length-prefixed parts, each length an i32::

    DataVersion as JSON | count | count * "name readQueues writeQueues perm filterType attributesJSON" | filter servers as JSON
    | from brokers of 5.0 on: count | count * TopicQueueMappingInfo as JSON      (static topics, not read here)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from sprocketmq.wire.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from sprocketmq.wire.text import fastjson

_INT32: Final = struct.Struct(">i")
# Java writes each topic as standard JSON. A step may read hundreds, so a few KiB in the slow dialect for each would block the loop.
_MAX_ODD_TOPIC_BYTES: Final = 0


class RegisterBrokerBody(Body):
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = msgspec.field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] = []

    def encode(self) -> bytes:
        return fastjson.dumps_sorted(self)


class RegistrationTopics:
    """A registration whose topics are read in shares, because a large one takes long to read. ``count``: of its topics."""

    def __init__(self, data_version: DataVersion, count: int, topics: Iterator[TopicConfig]) -> None:
        self.data_version, self.count, self._topics = data_version, count, topics

    @classmethod
    def of_request(
        cls, data: bytes | bytearray | memoryview, max_bytes: int, *, compressed: bool
    ) -> RegistrationTopics:
        """Read the registration in the body of a request. Raises ProtocolError: it is longer than ``max_bytes``, or not a
        registration; :meth:`shares` may find the latter later."""
        if compressed:
            return cls.of_compressed(data, max_bytes)
        if len(data) > max_bytes:
            raise ProtocolError(
                f"a registration has {len(data)} bytes, {max_bytes} are allowed; "
                "let the broker send it in parts (enableSplitRegistration), or raise the name server's maxRegistrationBytes"
            )
        if len(data) <= fastjson.MAX_ODD_REQUEST_BYTES:
            wrapper = RegisterBrokerBody.of_request(data).topic_config_serialize_wrapper
            return cls(wrapper.data_version, len(wrapper.topic_config_table), iter(wrapper.topic_config_table.values()))
        raw = fastjson.decode(data, _RawBody, fastjson.MAX_ODD_REQUEST_BYTES).topic_config_serialize_wrapper
        table = raw.topic_config_table
        topics = (fastjson.decode(topic, TopicConfig, _MAX_ODD_TOPIC_BYTES) for topic in table.values())
        return cls(raw.data_version, len(table), topics)

    @classmethod
    def of_compressed(
        cls, data: bytes | bytearray | memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> RegistrationTopics:
        """Read a registration in the compressed form. Raises as :meth:`of_request`."""
        plain, at = decompress(bytes(data), 0, max_bytes), 0
        part, at = _part(plain, at)
        data_version = DataVersion.of_request(part)
        (count,), at = _INT32.unpack(_slice(plain, at, 4)), at + 4
        if count < 0 or count * 4 > len(plain) - at:
            raise ProtocolError(f"a registration of {len(plain)} bytes cannot hold {count} topics")

        def topics() -> Iterator[TopicConfig]:
            # Not a method, because a reference cycle would keep the text until the next full collection.
            place = at
            for _ in range(count):
                line, place = _part(plain, place)
                yield _topic_config(line)
            part, _ = _part(plain, place)
            fastjson.decode(
                part, list, fastjson.MAX_ODD_REQUEST_BYTES
            )  # not used here, but a registration without it is invalid

        return cls(data_version, count, topics())

    def shares(self, size: int) -> Iterator[dict[str, TopicConfig]]:
        """Yield all topics by name, ``size`` at a time."""
        while share := list(islice(self._topics, size)):
            yield {topic.topic_name: topic for topic in share}


class _RawTable(Body):
    topic_config_table: dict[str, msgspec.Raw] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)


class _RawBody(Body):
    topic_config_serialize_wrapper: _RawTable = msgspec.field(default_factory=_RawTable)


def _part(plain: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _INT32.unpack(_slice(plain, at, 4))
    return _slice(plain, at + 4, size), at + 4 + size


def _slice(plain: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(plain):
        raise ProtocolError(f"a registration has {len(plain)} bytes, a part of {size} at {at} does not fit")
    return plain[at : at + size]


def _topic_config(line: bytes) -> TopicConfig:
    try:
        words: list[Any] = line.decode().split(" ", 5)
        name, read_queue_nums, write_queue_nums, perm, filter_type = words[0], *map(int, words[1:4]), words[4]
    except (ValueError, IndexError) as error:
        raise ProtocolError(f"a registration has the topic {line!r}, which cannot be read") from error
    attributes = fastjson.decode(words[5].encode(), dict, _MAX_ODD_TOPIC_BYTES) if len(words) > 5 and words[5] else {}
    return TopicConfig(name, read_queue_nums, write_queue_nums, perm, filter_type, attributes=attributes)
