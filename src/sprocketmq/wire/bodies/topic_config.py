# SPDX-License-Identifier: Apache-2.0
"""Topics of a broker: config/topics.json, codes 18 and 21 (Java: TopicConfig, DataVersion)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.text import fastjson


class DataVersion(Body):
    """The version of a table: each change sets a new ``timestamp`` (ms) and the next ``counter``."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next_version(self, now_ms: int) -> None:
        self.timestamp = now_ms
        self.state_version = 0
        self.counter += 1


class TopicConfig(Body):
    """One topic on one broker. ``perm`` bits: read 4, write 2, inherit 1."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicConfigSerializeWrapper(Body):
    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)

    def encode(self) -> bytes:
        return fastjson.dumps_sorted(self)


class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper):
    """Body of a 5.x broker's answer to GET_ALL_TOPIC_CONFIG (21): the same with mappings of static topics, of which there are none."""

    mapping_data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_queue_mapping_detail_map: dict[str, str] = {}
    topic_queue_mapping_info_map: dict[str, str] = {}


class CreateTopicListRequestBody(Body):
    """Body of UPDATE_AND_CREATE_TOPIC_LIST (18): topics to create or change. Attributes are changes: ``{"+message.type": "FIFO"}``."""

    topic_config_list: list[TopicConfig]
