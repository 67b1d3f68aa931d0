# SPDX-License-Identifier: Apache-2.0
"""The options of a pull consumer, with Java's defaults and ranges (DefaultLitePullConsumer)."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import force_setattr

from sprocketmq.client.settings.push_settings import MEMBERS, PushSettings
from sprocketmq.client.settings.unreadable_bodies import UnreadableBody
from sprocketmq.client.settings.validators import DAY_MS, MAX_INT, check_range, check_settings
from sprocketmq.client.settings.values import Deserializers
from sprocketmq.core.group.allocation import AVG, AllocationStrategy, MachineRoomResolver
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import ConsumeFromWhere, MessageModel
from sprocketmq.wire.records.message import MessageQueue


class PullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every option of a pull consumer beyond ClientOptions. What is not explained here is as in PushSettings.

    Args:
        auto_commit: the next poll commits the messages that a poll returned; False leaves this to ``commit``.
        auto_commit_interval_ms: how soon after that, while polls are made, brokers get the progress; 1000 at least.
        pull_threshold_for_all: messages that wait for a poll, over all queues, before pulling pauses.
        pull_threshold_for_queue: messages of one queue that wait for a poll before pulling from it pauses.
        pull_threshold_size_for_queue: MiB of one queue that wait for a poll before pulling from it pauses.
        consume_max_span: offsets between the oldest and the newest waiting message of a queue.
        poll_timeout_ms: how long ``poll`` waits if it is called without ``timeout_ms``.
        topic_metadata_check_interval_ms: how often the queues of watched topics are looked up.
        broker_suspend_max_time_ms: how long a broker holds a pull that finds nothing, 1000 at least.
        consumer_timeout_when_suspend_ms: limit of a pull, at least ``broker_suspend_max_time_ms``.
    """

    group: str
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp: str | None = None
    allocate_strategy: AllocationStrategy | str = AVG
    allocate_queues: Sequence[MessageQueue] | None = None
    allocate_rooms: Collection[str] | None = None
    machine_room_resolver: MachineRoomResolver | None = None
    client_rebalance: bool = True
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    pull_batch_size: int = 10
    pull_threshold_for_all: int = 10_000
    pull_threshold_for_queue: int = 1_000
    pull_threshold_size_for_queue: int = 100
    consume_max_span: int = 2_000
    poll_timeout_ms: int = 5_000
    topic_metadata_check_interval_ms: int = 30_000
    broker_suspend_max_time_ms: int = 20_000
    consumer_timeout_when_suspend_ms: int = 30_000
    pull_time_delay_when_exception_ms: int = 1_000
    unreadable_body: UnreadableBody | None = None
    value_deserializer: Deserializers | None = None
    local_offset_store_dir: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        for name, low, high in _RANGES:
            check_range(name, getattr(self, name), low, high)
        if self.consumer_timeout_when_suspend_ms < self.broker_suspend_max_time_ms:
            raise ConfigurationError(
                f"consumer_timeout_when_suspend_ms is {self.consumer_timeout_when_suspend_ms}, at least "
                f"broker_suspend_max_time_ms ({self.broker_suspend_max_time_ms}) is allowed: the broker may hold a pull that long"
            )
        shared = self.as_push_settings()  # checks what both kinds of consumer share
        for name in ("allocate_queues", "allocate_rooms", *MEMBERS):
            force_setattr(self, name, getattr(shared, name))

    def as_push_settings(self) -> PushSettings:
        """These settings for the parts that a pull consumer shares with a push consumer. The filter goes with each pull, as Java's lite
        pull sends it: two consumers of one group may then read the same topic with different filters."""
        both = {name: getattr(self, name) for name in self.__struct_fields__ if name in PushSettings.__struct_fields__}
        return PushSettings(
            **both, consume_concurrently_max_span=self.consume_max_span, post_subscription_when_pull=True
        )


_RANGES: tuple[tuple[str, int, int], ...] = (
    ("auto_commit_interval_ms", 1_000, DAY_MS),
    ("pull_threshold_for_all", 1, MAX_INT),
    ("consume_max_span", 1, 65_535),
    ("poll_timeout_ms", 0, MAX_INT),
    ("topic_metadata_check_interval_ms", 10, DAY_MS),
    ("broker_suspend_max_time_ms", 1_000, 300_000),
    ("consumer_timeout_when_suspend_ms", 1, MAX_INT),
)
