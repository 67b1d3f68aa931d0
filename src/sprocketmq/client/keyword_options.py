# SPDX-License-Identifier: Apache-2.0
"""The options of the public classes as types: misspelt or mistyped ones are refused by type checkers, and completed by editors.

Written by `make generate` out of the structs that check the options while the program runs: change those.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypedDict

from sprocketmq.client.remoting.send import QueueSelector
from sprocketmq.client.results import ServerOutage
from sprocketmq.client.settings.unreadable_bodies import UnreadableBody
from sprocketmq.client.settings.values import Deserializers, Serializers
from sprocketmq.core.group.allocation import AllocationStrategy, MachineRoomResolver
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire.bodies import ConsumeFromWhere, MessageModel
from sprocketmq.wire.records.message import MessageQueue

__all__ = [
    "CommonOptions",
    "GroupSettings",
    "ProducerOptions",
    "PullConsumerOptions",
    "PushConsumerOptions",
    "RequestArguments",
    "SendArguments",
]


class CommonOptions(TypedDict, total=False):
    """Options that every client has.

    Keyword Args:
        namesrv_addr: ``host:9876``, several separated by ``;``; or the URL of a page that holds such a list, as in
            ``http://host:8080/rocketmq/nsaddr``; default the environment variable NAMESRV_ADDR. Page and variable are read again
            each 2 minutes.
        instance_name: clients of one instance name in one process share connections, heartbeat and client id, and must have equal
            options for these. "DEFAULT" makes a fresh name for each (``pid#nanoseconds``) (default 'DEFAULT').
        client_ip: first part of the client id; default the address by which this machine reaches other networks.
        unit_name: last part of the client id; default none.
        unit_mode: mark each request as one of a unit, for deployments of several units (Java: unitMode) (default False).
        namespace: ``namespace%`` stands before all topics and groups at the brokers; default what ``MQ_INST_x_y.host:port`` names.
        namespace_v2: send this namespace in each request instead (5.x), with unchanged names; default none.
        vip_channel_enabled: send to the brokers' second port, two below the first (default False).
        poll_name_server_interval_ms: how often routes are refreshed (milliseconds, default 30000).
        heartbeat_broker_interval_ms: milliseconds between two heartbeats; brokers forget a client after 120 s (default 30000).
        persist_consumer_offset_interval_ms: how often progress is written (milliseconds, default 5000).
        mq_client_api_timeout_ms: limit of one administrative request (milliseconds, default 3000).
        enable_trace: record what this client sends and consumes, for ``mqadmin queryMsgTraceById`` (default False).
        trace_topic: where ``enable_trace`` sends to; default RMQ_SYS_TRACE_TOPIC, or what the access channel names.
        trace_msg_batch_num: records that are sent together, 1 to 20; fewer leave after 5 s (default 10).
        max_delay_level: how many delay levels the brokers have (messageDelayLevel). Higher ones are refused; a broker would
            silently use its highest (default 18).
        access_channel: "LOCAL", or "CLOUD" for Alibaba Cloud's form of trace topics (default 'LOCAL').
        access_key: sign each request as this account, for a cluster with access control; default requests are not signed.
        secret_key: what ``access_key`` signs with; both are given or none (the default).
        security_token: sent with the signature, for temporary keys; default none.
        secret_key_file: a file with the secret key, or lines ``accessKey:``, ``secretKey:`` (as Apache's conf/tools.yml), which may
            be renewed while the client runs; default none.
        tls: use TLS, and check the servers' certificates against the authorities this machine trusts (default False).
        ssl_context: use TLS with this context (an ``ssl.SSLContext``); default as ``tls`` says.
        on_disconnected: a function of one ServerOutage, called when a server does not answer any more, in a thread, or on the
            client's loop if it is ``async def``; default none. Admin calls none.
        on_reconnected: the same, called with the first answer after that; default none.
        clock: the clock for periodic work and delays; tests pass a ManualClock (default the system's).
    """

    namesrv_addr: str | None
    instance_name: str
    client_ip: str | None
    unit_name: str | None
    unit_mode: bool
    namespace: str | None
    namespace_v2: str | None
    vip_channel_enabled: bool
    poll_name_server_interval_ms: int
    heartbeat_broker_interval_ms: int
    persist_consumer_offset_interval_ms: int
    mq_client_api_timeout_ms: int
    enable_trace: bool
    trace_topic: str | None
    trace_msg_batch_num: int
    max_delay_level: int
    access_channel: str
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    secret_key_file: str | None
    tls: bool
    ssl_context: ssl.SSLContext | None
    on_disconnected: Callable[[ServerOutage], object] | None
    on_reconnected: Callable[[ServerOutage], object] | None
    clock: Clock


class ProducerOptions(CommonOptions, total=False):
    """Options of producers, beside those of every client (CommonOptions).

    Keyword Args:
        topics: topics whose brokers get a heartbeat when the producer starts, not only after the first send: for transaction
            producers that answer the check-backs of one that died (default none).
        send_msg_timeout_ms: limit of one send, all tries together (milliseconds, default 3000).
        send_msg_max_timeout_per_request_ms: limit of one try; -1: the first may use up the whole timeout, as in Java (milliseconds,
            default -1).
        retry_times_when_send_failed: further tries after a failure (default 2).
        retry_another_broker_when_not_store_ok: also try again after FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT and
            SLAVE_NOT_AVAILABLE, which stores the message twice (default False).
        retry_response_codes: after an answer with one of these another broker is tried (default 1, 2, 14, 16, 17, 204, 205, 1500).
        compress_msg_body_over_bytes: bodies of this size and more are compressed (single messages only) (bytes, default 4 KiB).
        compress_type: "ZLIB", "LZ4" or "ZSTD"; a 4.9 consumer only understands ZLIB (default 'ZLIB').
        compress_level: 0 (hardly) to 9 (best); of ZSTD up to 22 (default 5).
        max_message_bytes: largest body, or batch, in bytes; the broker has a limit of its own (4 MiB by default) (default 4 MiB).
        auto_batch: send messages for the same queue or topic as one batch (5.x: autoBatch, ProduceAccumulator) (default False).
        batch_max_delay_ms: how long the first message of a batch waits for others, 1 to 30000 (milliseconds, default 10).
        batch_max_bytes: a batch of this size is sent at once, 1 to 2 MiB (bytes, default 32 KiB).
        total_batch_max_bytes: while so many bytes of batches are not answered, batches are sent at once (default 32 MiB).
        enable_backpressure_for_async_mode: a send waits while too many are under way, at most for its timeout (default False).
        back_pressure_for_async_send_num: sends under way at once, at least 10 (default 1024).
        back_pressure_for_async_send_size_bytes: bytes of their bodies, at least 1 MiB (default 100 MiB).
        send_latency_fault_enable: avoid brokers that were slow or unreachable lately (default False).
        start_detector_enable: ask unreachable brokers whether they answer again, to prefer one if all are avoided (5.x) (default
            False).
        detect_timeout_ms: how long the answer to ``start_detector_enable`` may take (milliseconds, default 200).
        detect_interval_ms: how often ``start_detector_enable`` asks a broker (milliseconds, default 2000).
        create_topic_key: topic whose route is used for topics that do not exist yet (default 'TBW102').
        default_topic_queue_nums: queues of a topic that is created by sending to it (default 4).
        value_serializer: converts values to bodies in ``producer.message(topic, value)``: a function, such as ``json_serializer``,
            or a dict of topics and functions; default none.
    """

    topics: Collection[str]
    send_msg_timeout_ms: int
    send_msg_max_timeout_per_request_ms: int
    retry_times_when_send_failed: int
    retry_another_broker_when_not_store_ok: bool
    retry_response_codes: Collection[int]
    compress_msg_body_over_bytes: int
    compress_type: str
    compress_level: int
    max_message_bytes: int
    auto_batch: bool
    batch_max_delay_ms: int
    batch_max_bytes: int
    total_batch_max_bytes: int
    enable_backpressure_for_async_mode: bool
    back_pressure_for_async_send_num: int
    back_pressure_for_async_send_size_bytes: int
    send_latency_fault_enable: bool
    start_detector_enable: bool
    detect_timeout_ms: int
    detect_interval_ms: int
    create_topic_key: str
    default_topic_queue_nums: int
    value_serializer: Serializers | None


class PushConsumerOptions(CommonOptions, total=False):
    """Options of push consumers, beside those of every client (CommonOptions).

    Keyword Args:
        message_model: CLUSTERING shares the queues out; BROADCASTING gives each member all (default MessageModel.CLUSTERING).
        consume_from_where: where a group without progress begins (default ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET).
        consume_timestamp: for CONSUME_FROM_TIMESTAMP, ``yyyyMMddHHmmss`` local time; default half an hour ago.
        allocate_strategy: how the queues are divided, equal in all members: "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG",
            "MACHINE_ROOM", "MACHINE_ROOM_NEARBY" (or "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", ...), a class ``Allocate...``, or a
            function (group, client_id, queues, client_ids) that returns the queues of client_id (default 'AVG').
        allocate_queues: the queues for "CONFIG" (no default); one member must name one of ``%RETRY%group``, or nobody reads it.
        allocate_rooms: the rooms of which "MACHINE_ROOM" shares the queues (no default); a broker is called ``room@name`` then.
        machine_room_resolver: for "MACHINE_ROOM_NEARBY" (no default): an object with ``broker_deploy_in(queue)`` and
            ``consumer_deploy_in(client_id)``, which return the name of a room.
        client_rebalance: False lets a 5.x broker allocate the queues (QUERY_ASSIGNMENT), not for orderly consumption (default
            True).
        consume_thread_count: listener calls at once (threads, or tasks for ``async def`` listeners), 1 to 1000 (default 20).
        consume_thread_max: while ``adjust_thread_pool_nums_threshold`` messages or more wait at the brokers, one more call a minute
            may run at once up to this number, and one less when few wait; default ``consume_thread_count``, which never changes by
            itself.
        adjust_thread_pool_nums_threshold: messages that wait at the brokers, for ``consume_thread_max`` (default 100000).
        consume_message_batch_max_size: messages per listener call, 1 to 1024 (``batch_size=`` of the listener wins) (default 1).
        pull_batch_size: messages requested in one pull, 1 to 1024; a broker returns at most 32 by default (default 32).
        pull_batch_size_in_bytes: a 5.x broker ends an answer behind the message that reaches so many bytes (default 256 KiB).
        pull_interval_ms: pause between pulls that found something (milliseconds, default 0).
        pull_threshold_for_queue: messages cached of one queue before pulling from it pauses, 1 to 65535 (default 1000).
        pull_threshold_size_for_queue: MiB cached of one queue before pulling from it pauses, 1 to 1024 (default 100).
        pull_threshold_for_topic: messages cached of one topic, shared out to its queues; -1 is off (default -1).
        pull_threshold_size_for_topic: MiB cached of one topic, shared out to its queues; -1 is off (default -1).
        consume_concurrently_max_span: offsets cached from a queue's oldest unfinished message on before pulling pauses (default
            2000).
        max_reconsume_times: tries after the first before the dead-letter topic; -1 means 16 (orderly: without limit) (default -1).
        consume_timeout_ms: limit of a delivery, after which the message is sent back and passed; 0 is off (milliseconds, default
            900000).
        follow_group_retry_policy: wait between retries as the group's retry policy on a 5.x broker says, if it has one (Java's
            remoting clients ignore it); without one, and at 4.9 brokers, the delay levels decide (default True).
        suspend_current_queue_time_ms: orderly pause after a failure, 10 to 30000 (milliseconds, default 1000).
        unlock_delay_ms: how long an orderly queue given away with messages cached stays locked, so that a listener may end before
            the next member begins; 0 is Java's since 5.3 (milliseconds, default 20000).
        await_termination_ms: how long shutdown waits for running listeners (milliseconds, default 5000).
        pull_time_delay_when_exception_ms: pause after a failed pull (milliseconds, default 1000).
        unreadable_body: what happens to a message whose body cannot be opened: UnreadableBody.STOP, SKIP or DELIVER. Default: stop
            for a library that is not installed, and deliver bodies that no library can open. Each case is logged at ERROR.
        value_deserializer: converts a body to ``message.value``: a function of bytes, such as ``json_deserializer`` or
            ``Order.model_validate_json``, or a dict of topics and functions; default none.
        post_subscription_when_pull: send the filter with each pull instead of relying on the heartbeat (default False).
        local_offset_store_dir: where broadcasting progress is kept; default ``~/.rocketmq_offsets``. The file is named after client
            id and group, not the cluster: to broadcast in one group of two clusters, give each client an ``instance_name``.
        record: a file to which every decision of this consumer is written, for ``sprocketmq replay``, default none; its predecessor
            moves to ``FILE.1``. Ids, keys, tags, sizes and places of messages are in it, bodies are not.
        record_max_bytes: how much of it is kept, 64 KiB or more; the oldest is dropped (bytes, default 64 MiB).
    """

    message_model: MessageModel | str
    consume_from_where: ConsumeFromWhere | str
    consume_timestamp: str | None
    allocate_strategy: AllocationStrategy | str
    allocate_queues: Sequence[MessageQueue] | None
    allocate_rooms: Collection[str] | None
    machine_room_resolver: MachineRoomResolver | None
    client_rebalance: bool
    consume_thread_count: int
    consume_thread_max: int | None
    adjust_thread_pool_nums_threshold: int
    consume_message_batch_max_size: int
    pull_batch_size: int
    pull_batch_size_in_bytes: int
    pull_interval_ms: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    consume_concurrently_max_span: int
    max_reconsume_times: int
    consume_timeout_ms: int
    follow_group_retry_policy: bool
    suspend_current_queue_time_ms: int
    unlock_delay_ms: int
    await_termination_ms: int
    pull_time_delay_when_exception_ms: int
    unreadable_body: UnreadableBody | str | None
    value_deserializer: Deserializers | None
    post_subscription_when_pull: bool
    local_offset_store_dir: str | os.PathLike[str] | None
    record: str | os.PathLike[str] | None
    record_max_bytes: int


class PullConsumerOptions(CommonOptions, total=False):
    """Options of pull consumers, beside those of every client (CommonOptions).

    Keyword Args:
        message_model: CLUSTERING shares the queues out; BROADCASTING gives each member all (default MessageModel.CLUSTERING).
        consume_from_where: where a group without progress begins (default ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET).
        consume_timestamp: for CONSUME_FROM_TIMESTAMP, ``yyyyMMddHHmmss`` local time; default half an hour ago.
        allocate_strategy: how the queues are divided, equal in all members: "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG",
            "MACHINE_ROOM", "MACHINE_ROOM_NEARBY" (or "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", ...), a class ``Allocate...``, or a
            function (group, client_id, queues, client_ids) that returns the queues of client_id (default 'AVG').
        allocate_queues: the queues for "CONFIG" (no default); one member must name one of ``%RETRY%group``, or nobody reads it.
        allocate_rooms: the rooms of which "MACHINE_ROOM" shares the queues (no default); a broker is called ``room@name`` then.
        machine_room_resolver: for "MACHINE_ROOM_NEARBY" (no default): an object with ``broker_deploy_in(queue)`` and
            ``consumer_deploy_in(client_id)``, which return the name of a room.
        client_rebalance: False lets a 5.x broker allocate the queues (QUERY_ASSIGNMENT), not for orderly consumption (default
            True).
        auto_commit: the next poll commits the messages that a poll returned; False leaves this to ``commit`` (default True).
        auto_commit_interval_ms: how soon after that, while polls are made, brokers get the progress; 1000 at least (milliseconds,
            default 5000).
        pull_batch_size: messages requested in one pull, 1 to 1024; a broker returns at most 32 by default (default 10).
        pull_threshold_for_all: messages that wait for a poll, over all queues, before pulling pauses (default 10000).
        pull_threshold_for_queue: messages of one queue that wait for a poll before pulling from it pauses (default 1000).
        pull_threshold_size_for_queue: MiB of one queue that wait for a poll before pulling from it pauses (default 100).
        consume_max_span: offsets between the oldest and the newest waiting message of a queue (default 2000).
        poll_timeout_ms: how long ``poll`` waits if it is called without ``timeout_ms`` (milliseconds, default 5000).
        topic_metadata_check_interval_ms: how often the queues of watched topics are looked up (milliseconds, default 30000).
        broker_suspend_max_time_ms: how long a broker holds a pull that finds nothing, 1000 at least (milliseconds, default 20000).
        consumer_timeout_when_suspend_ms: limit of a pull, at least ``broker_suspend_max_time_ms`` (milliseconds, default 30000).
        pull_time_delay_when_exception_ms: pause after a failed pull (milliseconds, default 1000).
        unreadable_body: what happens to a message whose body cannot be opened: UnreadableBody.STOP, SKIP or DELIVER. Default: stop
            for a library that is not installed, and deliver bodies that no library can open. Each case is logged at ERROR.
        value_deserializer: converts a body to ``message.value``: a function of bytes, such as ``json_deserializer`` or
            ``Order.model_validate_json``, or a dict of topics and functions; default none.
        local_offset_store_dir: where broadcasting progress is kept; default ``~/.rocketmq_offsets``. The file is named after client
            id and group, not the cluster: to broadcast in one group of two clusters, give each client an ``instance_name``.
    """

    message_model: MessageModel | str
    consume_from_where: ConsumeFromWhere | str
    consume_timestamp: str | None
    allocate_strategy: AllocationStrategy | str
    allocate_queues: Sequence[MessageQueue] | None
    allocate_rooms: Collection[str] | None
    machine_room_resolver: MachineRoomResolver | None
    client_rebalance: bool
    auto_commit: bool
    auto_commit_interval_ms: int
    pull_batch_size: int
    pull_threshold_for_all: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    consume_max_span: int
    poll_timeout_ms: int
    topic_metadata_check_interval_ms: int
    broker_suspend_max_time_ms: int
    consumer_timeout_when_suspend_ms: int
    pull_time_delay_when_exception_ms: int
    unreadable_body: UnreadableBody | str | None
    value_deserializer: Deserializers | None
    local_offset_store_dir: str | os.PathLike[str] | None


class SendArguments(TypedDict, total=False):
    """How one message is sent.

    Keyword Args:
        queue: exactly this queue (see ``publish_queues``), and no other one is tried; default: the queues in turn.
        selector: a function of (queues, message) that returns one of the queues; default: none.
        sharding_key: messages of one key stay in order in one queue, which all clients choose by Java's hash; default: none.
        delay_level: 1 to ``max_delay_level`` (1s 5s 10s 30s 1m ... 2h, unless the brokers have others); 0 means no delay (default
            0).
        delay_ms: the delay in milliseconds, accurate to the second (5.x; a 4.9 broker delivers at once); default: none.
        deliver_time_ms: milliseconds since 1970, or a datetime with a time zone (5.x); default: none.
        timeout_ms: the time limit for all tries together, in milliseconds; default: ``send_msg_timeout_ms``.
    """

    queue: MessageQueue | None
    selector: QueueSelector | None
    sharding_key: str | None
    delay_level: int
    delay_ms: int | None
    deliver_time_ms: int | datetime | None
    timeout_ms: int | None


class RequestArguments(TypedDict, total=False):
    """How one request is sent and its reply waited for.

    Keyword Args:
        timeout_ms: the time limit for sending and waiting, in milliseconds; the message carries it as TTL (default 3000).
        queue: exactly this queue (see ``publish_queues``), and no other one is tried; default: the queues in turn.
        selector: a function of (queues, message) that returns one of the queues; default: none.
        sharding_key: messages of one key stay in order in one queue, which all clients choose by Java's hash; default: none.
    """

    timeout_ms: int
    queue: MessageQueue | None
    selector: QueueSelector | None
    sharding_key: str | None


class GroupSettings(TypedDict, total=False):
    """Settings of a consumer group at the brokers.

    Keyword Args:
        consume_enable: whether the group may pull at all (default True).
        consume_from_min_enable: whether it may begin at the oldest message (default True).
        consume_broadcast_enable: whether its members may broadcast (default True).
        consume_message_orderly: whether it consumes in order (5.x) (default False).
        retry_queue_nums: queues of its retry topic on each broker (default 1).
        retry_max_times: number of retries before the dead-letter topic, unless the consumer sets a number itself (default 16).
        group_retry_policy: the delays of retries (5.x), as in ``{"type": "EXPONENTIAL", "exponentialRetryPolicy": {...}}``; the
            default CUSTOMIZED means the delay levels (default {'type': 'CUSTOMIZED'}).
        broker_id: the broker of a set from which it reads; 0 is the master (default 0).
        which_broker_when_consume_slowly: the broker from which it reads old messages that are on the disk (default 1).
        notify_consumer_ids_changed_enable: whether members are notified when others join or leave (default True).
        group_sys_flag: bits, as the broker's tools set them (default 0).
        consume_timeout_minute: how many minutes a consumer that pops may keep a message (5.x) (default 15).
        attributes: attributes of the group (5.x) (default none).
    """

    consume_enable: bool
    consume_from_min_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool
    retry_queue_nums: int
    retry_max_times: int
    group_retry_policy: dict[str, Any]
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool
    group_sys_flag: int
    consume_timeout_minute: int
    attributes: dict[str, str]
