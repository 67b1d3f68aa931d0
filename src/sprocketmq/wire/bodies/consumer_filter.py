"""Filters of consumer groups: config/consumerFilter.json (Java: ConsumerFilterManager, ConsumerFilterData, BloomFilterData)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body

__all__ = ["BloomFilterData", "ConsumerFilterData", "ConsumerFilterWrapper", "FilterDataMapByTopic"]


class BloomFilterData(Body):
    """Which bits of a message's bit map stand for the group. Kept, not used: Apache reads a file without them as an empty one."""

    bit_num: int = 0
    bit_pos: list[int] | None = None


class ConsumerFilterData(Body):
    """The filter of one group in one topic. Dead since ``dead_time`` (ms) when that is not before ``born_time``.

    ``client_version``: the version of the subscription it was made from.
    """

    consumer_group: str
    topic: str
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0
    client_version: int = 0
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    """The filters of a topic, by group."""

    topic: str
    group_filter_data: dict[str, ConsumerFilterData] = {}


class ConsumerFilterWrapper(Body):
    """consumerFilter.json: the filters by topic."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = {}
