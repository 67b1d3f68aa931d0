# SPDX-License-Identifier: Apache-2.0
"""The options of a push consumer, with Java's defaults and ranges (DefaultMQPushConsumer, checkConfig)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from sprocketmq.client.settings.unreadable_bodies import UnreadableBody
from sprocketmq.client.settings.validators import (
    MAX_INT,
    check_group,
    check_queue,
    check_range,
    check_settings,
    check_text,
)
from sprocketmq.client.settings.values import Deserializers, check_value_functions
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.consume.consume_timeout import DEFAULT_CONSUME_TIMEOUT_MS
from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.core.consume.pull_cursor import BROKER_PULL_BYTES
from sprocketmq.core.consume.queue_lock import LOCAL_LOCK_MAX_LIVE_MS, UNLOCK_DELAY_MS
from sprocketmq.core.group.allocation import AVG, AllocationStrategy, MachineRoomResolver, strategy_by_name
from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import ConsumeFromWhere, MessageModel
from sprocketmq.wire.records.message import MessageQueue

_STRATEGY = "group, client_id, queues, client_ids"


def consume_timestamp_ms(text: str) -> int:
    """Java's consumeTimestamp, ``yyyyMMddHHmmss`` in local time, as milliseconds since 1970. Raises ConfigurationError."""
    try:
        return int(datetime.strptime(text, "%Y%m%d%H%M%S").astimezone().timestamp() * 1000)
    except (TypeError, ValueError, OverflowError) as error:  # the last hours of the year 9999
        raise ConfigurationError(
            f"consume_timestamp is {text!r}, local time as yyyyMMddHHmmss is allowed, as in '20131223171201'"
        ) from error


# What Kafka (auto.offset.reset), NATS (DeliverPolicy) and Pulsar call it.
_OFFSET_RESETS: Final = {
    **dict.fromkeys(("EARLIEST", "BEGINNING", "SMALLEST", "FIRST", "ALL"), "CONSUME_FROM_FIRST_OFFSET"),
    **dict.fromkeys(("LATEST", "END", "LARGEST", "LAST", "NEW"), "CONSUME_FROM_LAST_OFFSET"),
    **dict.fromkeys(("TIMESTAMP", "BY_START_TIME"), "CONSUME_FROM_TIMESTAMP"),
}


MEMBERS: Final[Mapping[str, type[Enum]]] = {
    "message_model": MessageModel,
    "consume_from_where": ConsumeFromWhere,
    "unreadable_body": UnreadableBody,
}
"""The options that are members of an enum, or their names in any case."""


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every option of a push consumer beyond ClientOptions.

    Args:
        message_model: CLUSTERING shares the queues out; BROADCASTING gives each member all.
        consume_from_where: where a group without progress begins.
        consume_timestamp: for CONSUME_FROM_TIMESTAMP, ``yyyyMMddHHmmss`` local time; default half an hour ago.
        allocate_strategy: how the queues are divided, equal in all members: "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG",
            "MACHINE_ROOM", "MACHINE_ROOM_NEARBY" (or "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", ...), a class ``Allocate...``, or a
            function (group, client_id, queues, client_ids) that returns the queues of client_id.
        allocate_queues: the queues for "CONFIG" (no default); one member must name one of ``%RETRY%group``, or nobody reads it.
        allocate_rooms: the rooms of which "MACHINE_ROOM" shares the queues (no default); a broker is called ``room@name`` then.
        machine_room_resolver: for "MACHINE_ROOM_NEARBY" (no default): an object with ``broker_deploy_in(queue)`` and
            ``consumer_deploy_in(client_id)``, which return the name of a room.
        client_rebalance: False lets a 5.x broker allocate the queues (QUERY_ASSIGNMENT), not for orderly consumption.
        consume_thread_count: listener calls at once (threads, or tasks for ``async def`` listeners), 1 to 1000.
        consume_thread_max: while ``adjust_thread_pool_nums_threshold`` messages or more wait at the brokers, one more call a minute
            may run at once up to this number, and one less when few wait; default ``consume_thread_count``, which never changes by
            itself.
        adjust_thread_pool_nums_threshold: messages that wait at the brokers, for ``consume_thread_max``.
        consume_message_batch_max_size: messages per listener call, 1 to 1024 (``batch_size=`` of the listener wins).
        pull_batch_size: messages requested in one pull, 1 to 1024; a broker returns at most 32 by default.
        pull_batch_size_in_bytes: a 5.x broker ends an answer behind the message that reaches so many bytes.
        pull_interval_ms: pause between pulls that found something.
        pull_threshold_for_queue: messages cached of one queue before pulling from it pauses, 1 to 65535.
        pull_threshold_size_for_queue: MiB cached of one queue before pulling from it pauses, 1 to 1024.
        pull_threshold_for_topic: messages cached of one topic, shared out to its queues; -1 is off.
        pull_threshold_size_for_topic: MiB cached of one topic, shared out to its queues; -1 is off.
        consume_concurrently_max_span: offsets cached from a queue's oldest unfinished message on before pulling pauses.
        max_reconsume_times: tries after the first before the dead-letter topic; -1 means 16 (orderly: without limit).
        consume_timeout_ms: limit of a delivery, after which the message is sent back and passed; 0 is off.
        follow_group_retry_policy: wait between retries as the group's retry policy on a 5.x broker says, if it has one (Java's
            remoting clients ignore it); without one, and at 4.9 brokers, the delay levels decide.
        suspend_current_queue_time_ms: orderly pause after a failure, 10 to 30000.
        unlock_delay_ms: how long an orderly queue given away with messages cached stays locked, so that a listener may
            end before the next member begins; 0 is Java's since 5.3.
        await_termination_ms: how long shutdown waits for running listeners.
        pull_time_delay_when_exception_ms: pause after a failed pull.
        unreadable_body: what happens to a message whose body cannot be opened: UnreadableBody.STOP, SKIP or DELIVER. Default: stop
            for a library that is not installed, and deliver bodies that no library can open. Each case is logged at ERROR.
        value_deserializer: converts a body to ``message.value``: a function of bytes, such as ``json_deserializer`` or
            ``Order.model_validate_json``, or a dict of topics and functions; default none.
        post_subscription_when_pull: send the filter with each pull instead of relying on the heartbeat.
        record: a file to which every decision of this consumer is written, for ``sprocketmq replay``, default none; its predecessor
            moves to ``FILE.1``. Ids, keys, tags, sizes and places of messages are in it, bodies are not.
        record_max_bytes: how much of it is kept, 64 KiB or more; the oldest is dropped.
        local_offset_store_dir: where broadcasting progress is kept; default ``~/.rocketmq_offsets``. The file is named after client
            id and group, not the cluster: to broadcast in one group of two clusters, give each client an ``instance_name``.
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
    consume_thread_count: int = 20
    consume_thread_max: int | None = None
    adjust_thread_pool_nums_threshold: int = 100_000
    consume_message_batch_max_size: int = 1
    pull_batch_size: int = 32
    pull_batch_size_in_bytes: int = BROKER_PULL_BYTES
    pull_interval_ms: int = 0
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    consume_concurrently_max_span: int = 2000
    max_reconsume_times: int = -1
    consume_timeout_ms: int = DEFAULT_CONSUME_TIMEOUT_MS
    follow_group_retry_policy: bool = True
    suspend_current_queue_time_ms: int = 1000
    unlock_delay_ms: int = UNLOCK_DELAY_MS
    await_termination_ms: int = 5000
    pull_time_delay_when_exception_ms: int = 1000
    unreadable_body: UnreadableBody | None = None
    value_deserializer: Deserializers | None = None
    post_subscription_when_pull: bool = False
    local_offset_store_dir: str | os.PathLike[str] | None = None
    record: str | os.PathLike[str] | None = None
    record_max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        check_settings(self, frozenset(("group",)))
        force_setattr(self, "group", check_group(self.group, "the consumer group"))
        for name, enum in MEMBERS.items():
            if (value := getattr(self, name)) is not None or name != "unreadable_body":
                force_setattr(self, name, _member(enum, name, value))
        self._check_allocation()
        if isinstance(self.allocate_strategy, str):
            found = strategy_by_name(
                self.allocate_strategy,
                queues=self.allocate_queues,
                rooms=self.allocate_rooms,
                resolver=self.machine_room_resolver,
            )
            force_setattr(self, "allocate_strategy", found)
        else:
            check_callback("allocate_strategy", self.allocate_strategy, _STRATEGY, "or name one, such as 'AVG'")
        check_value_functions("value_deserializer", self.value_deserializer, "body")
        if self.consume_timestamp is not None:
            consume_timestamp_ms(self.consume_timestamp)
        if self.record is not None and not (isinstance(self.record, str | os.PathLike) and _is_path(self.record)):
            raise ConfigurationError(f"record is {self.record!r}, the path of a file is allowed")
        folder = self.local_offset_store_dir or None
        if folder is not None and not (isinstance(folder, str | os.PathLike) and _is_path(folder)):
            raise ConfigurationError(f"local_offset_store_dir is {folder!r}, the path of a folder is allowed")
        if self.consume_thread_max is not None:
            most = check_range("consume_thread_max", self.consume_thread_max, 1, 1000)
            if most < self.consume_thread_count:
                raise ConfigurationError(
                    f"consume_thread_max is {most}, a whole number from consume_thread_count ({self.consume_thread_count}) to 1000 is "
                    "allowed"
                )
        for name, low, high in _RANGES:
            check_range(name, getattr(self, name), low, high)
        for name, high in (("pull_threshold_for_topic", 6_553_500), ("pull_threshold_size_for_topic", 102_400)):
            if getattr(self, name) != -1:
                check_range(name, getattr(self, name), 1, high)

    def _check_allocation(self) -> None:
        for name, given in (("allocate_queues", self.allocate_queues), ("allocate_rooms", self.allocate_rooms)):
            if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Collection)):
                raise ConfigurationError(f"{name} is {given!r}, a list is allowed")
        if self.allocate_queues is not None:
            queues = [check_queue(queue, "a queue of allocate_queues") for queue in self.allocate_queues]
            force_setattr(self, "allocate_queues", queues)
        if self.allocate_rooms is not None:
            force_setattr(
                self, "allocate_rooms", [check_text("a room of allocate_rooms", room) for room in self.allocate_rooms]
            )
        resolver = self.machine_room_resolver
        if resolver is not None:
            for method, parameter in (("broker_deploy_in", "queue"), ("consumer_deploy_in", "client_id")):
                check_callback(f"machine_room_resolver.{method}", getattr(resolver, method, None), parameter)

    @property
    def strategy(self) -> AllocationStrategy:
        assert not isinstance(self.allocate_strategy, str)
        return self.allocate_strategy

    @property
    def clustering(self) -> bool:
        return self.message_model is MessageModel.CLUSTERING

    @property
    def flow_limits(self) -> FlowLimits:
        """The thresholds as ``core.consume.flow_control`` takes them (bytes instead of MiB)."""
        mib = 1024 * 1024
        topic_mib = self.pull_threshold_size_for_topic
        return FlowLimits(
            max_count=self.pull_threshold_for_queue,
            max_size_bytes=self.pull_threshold_size_for_queue * mib,
            max_span=self.consume_concurrently_max_span,
            topic_max_count=self.pull_threshold_for_topic,
            topic_max_size_bytes=-1 if topic_mib == -1 else topic_mib * mib,
        )


_RANGES: tuple[tuple[str, int, int], ...] = (
    ("consume_thread_count", 1, 1000),
    ("adjust_thread_pool_nums_threshold", 1, MAX_INT),
    ("consume_message_batch_max_size", 1, 1024),
    ("pull_batch_size", 1, 1024),
    ("pull_batch_size_in_bytes", 1, MAX_INT),
    ("pull_interval_ms", 0, 65_535),
    ("pull_threshold_for_queue", 1, 65_535),
    ("pull_threshold_size_for_queue", 1, 1024),
    ("consume_concurrently_max_span", 1, 65_535),
    ("max_reconsume_times", -1, MAX_INT),
    ("consume_timeout_ms", 0, MAX_INT),
    ("suspend_current_queue_time_ms", 10, 30_000),
    ("unlock_delay_ms", 0, LOCAL_LOCK_MAX_LIVE_MS),
    ("await_termination_ms", 0, MAX_INT),
    ("pull_time_delay_when_exception_ms", 0, MAX_INT),
    ("record_max_bytes", 64 * 1024, 1 << 40),
)


def _is_path(path: str | os.PathLike[str]) -> bool:
    text = os.fspath(path)
    return isinstance(text, str) and bool(text.strip()) and control_character_problem("path", text) is None


def _member(enum: type[Enum], name: str, value: object) -> Enum:
    try:
        return enum[value.strip().upper()] if isinstance(value, str) else enum(value)
    except (KeyError, ValueError):
        import difflib  # imported only for the error

        words = str(value).upper()
        near = [_OFFSET_RESETS[words]] if enum is ConsumeFromWhere and words in _OFFSET_RESETS else []
        near = near or difflib.get_close_matches(words, [member.name for member in enum], 1)
        if near:
            todo = f"did you mean {near[0]!r}?"
        else:
            todo = f"one of {', '.join(member.name for member in enum)} is allowed"
        raise ConfigurationError(f"{name} is {value!r}, {todo}") from None
