# SPDX-License-Identifier: Apache-2.0
"""Registrations of brokers: taken as a name server's handler takes them, and in the compressed form that Java's brokers send."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from sprocketmq.core.cluster.namesrv_table import NamesrvTable
from sprocketmq.core.cluster.registration import RegistrationResult, TopicRegistration
from sprocketmq.wire.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from sprocketmq.wire.text import fastjson


def register(
    table: NamesrvTable,
    cluster: str,
    broker_name: str,
    broker_id: int,
    address: str,
    topics: Mapping[str, TopicConfig],
    data_version: DataVersion,
    now_ms: int,
    *,
    ha_address: str = "",
    owner: object = None,
    acting_master: bool | None = None,
) -> RegistrationResult | None:
    """All in one share."""
    begun = table.begin_registration(
        cluster, broker_name, broker_id, address, len(topics), data_version, now_ms,
        ha_address=ha_address, owner=owner, acting_master=acting_master,
    )  # fmt: skip
    if not isinstance(begun, TopicRegistration):
        return begun
    assert table.add_topics(begun, topics)
    return table.finish_registration(begun)


def compressed(body: RegisterBrokerBody) -> bytes:
    """Java: RegisterBrokerBody.encode of 5.x, with an empty section of static topics, which a name server before 5.0 does not read."""
    wrapper = body.topic_config_serialize_wrapper
    topics = [_topic_line(topic) for topic in wrapper.topic_config_table.values()]
    parts = [_prefixed(wrapper.data_version.encode()), struct.pack(">i", len(topics)), *map(_prefixed, topics)]
    return zlib.compress(b"".join([*parts, _prefixed(fastjson.dumps(body.filter_server_list)), struct.pack(">i", 0)]))


def _prefixed(part: bytes) -> bytes:
    return struct.pack(">i", len(part)) + part


def _topic_line(topic: TopicConfig) -> bytes:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type} ".encode() + fastjson.dumps(topic.attributes)
