# SPDX-License-Identifier: Apache-2.0
"""The options of a producer, with Java's defaults (DefaultMQProducer)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from sprocketmq.client.settings.validators import (
    DAY_MS,
    MAX_BODY_BYTES,
    MAX_INT,
    check_group,
    check_range,
    check_settings,
    check_topic,
)
from sprocketmq.client.settings.values import Serializers, check_value_functions
from sprocketmq.core.resource_names import DEFAULT_TOPIC
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.compression import CompressionType

_MIB: Final = 1024 * 1024

# DefaultMQProducer.retryResponseCodes: another broker may well take it.
RETRY_RESPONSE_CODES: Final = frozenset(
    {
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
        int(ResponseCode.SYSTEM_ERROR),
        int(ResponseCode.NO_PERMISSION),
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.GO_AWAY),
        204,  # NO_BUYER_ID
        205,  # NOT_IN_CURRENT_UNIT
    }
)


class SendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a producer (DefaultMQProducer).

    Args:
        topics: topics whose brokers get a heartbeat when the producer starts, not only after the first send: for transaction
            producers that answer the check-backs of one that died.
        send_msg_timeout_ms: limit of one send, all tries together.
        send_msg_max_timeout_per_request_ms: limit of one try; -1: the first may use up the whole timeout, as in Java.
        retry_times_when_send_failed: further tries after a failure.
        retry_another_broker_when_not_store_ok: also try again after FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT and
            SLAVE_NOT_AVAILABLE, which stores the message twice.
        retry_response_codes: after an answer with one of these another broker is tried.
        compress_msg_body_over_bytes: bodies of this size and more are compressed (single messages only).
        compress_type: "ZLIB", "LZ4" or "ZSTD"; a 4.9 consumer only understands ZLIB.
        compress_level: 0 (hardly) to 9 (best); of ZSTD up to 22.
        max_message_bytes: largest body, or batch, in bytes; the broker has a limit of its own (4 MiB by default).
        auto_batch: send messages for the same queue or topic as one batch (5.x: autoBatch, ProduceAccumulator).
        batch_max_delay_ms: how long the first message of a batch waits for others, 1 to 30000.
        batch_max_bytes: a batch of this size is sent at once, 1 to 2 MiB.
        total_batch_max_bytes: while so many bytes of batches are not answered, batches are sent at once.
        enable_backpressure_for_async_mode: a send waits while too many are under way, at most for its timeout.
        back_pressure_for_async_send_num: sends under way at once, at least 10.
        back_pressure_for_async_send_size_bytes: bytes of their bodies, at least 1 MiB.
        send_latency_fault_enable: avoid brokers that were slow or unreachable lately.
        start_detector_enable: ask unreachable brokers whether they answer again, to prefer one if all are avoided (5.x).
        detect_timeout_ms: how long the answer to ``start_detector_enable`` may take.
        detect_interval_ms: how often ``start_detector_enable`` asks a broker.
        create_topic_key: topic whose route is used for topics that do not exist yet.
        default_topic_queue_nums: queues of a topic that is created by sending to it.
        value_serializer: converts values to bodies in ``producer.message(topic, value)``: a function, such as ``json_serializer``,
            or a dict of topics and functions; default none.
    """

    group: str
    topics: Collection[str] = ()
    send_msg_timeout_ms: int = 3_000
    send_msg_max_timeout_per_request_ms: int = -1
    retry_times_when_send_failed: int = 2
    retry_another_broker_when_not_store_ok: bool = False
    retry_response_codes: Collection[int] = RETRY_RESPONSE_CODES
    compress_msg_body_over_bytes: int = 4_096
    compress_type: str = "ZLIB"
    compress_level: int = 5
    max_message_bytes: int = MAX_BODY_BYTES
    auto_batch: bool = False
    batch_max_delay_ms: int = 10
    batch_max_bytes: int = 32 * 1024
    total_batch_max_bytes: int = 32 * _MIB
    enable_backpressure_for_async_mode: bool = False
    back_pressure_for_async_send_num: int = 1024
    back_pressure_for_async_send_size_bytes: int = 100 * _MIB
    send_latency_fault_enable: bool = False
    start_detector_enable: bool = False
    detect_timeout_ms: int = 200
    detect_interval_ms: int = 2_000
    create_topic_key: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = 4
    value_serializer: Serializers | None = None

    def __post_init__(self) -> None:
        check_settings(self, frozenset(("group",)))
        force_setattr(self, "group", check_group(self.group, "the producer group"))
        check_value_functions("value_serializer", self.value_serializer, "value")
        check_topic(self.create_topic_key, "create_topic_key")
        force_setattr(self, "topics", self._checked_topics())
        force_setattr(self, "retry_response_codes", self._checked_codes())
        if self.send_msg_max_timeout_per_request_ms != -1:
            check_range("send_msg_max_timeout_per_request_ms", self.send_msg_max_timeout_per_request_ms, 1, DAY_MS)
        for name, low, high in _RANGES:
            check_range(name, getattr(self, name), low, high)
        kind = CompressionType.of(self.compress_type)
        check_range("compress_level", self.compress_level, 0, 22 if kind is CompressionType.ZSTD else 9)

    def _checked_topics(self) -> tuple[str, ...]:
        if isinstance(self.topics, str | bytes | Mapping) or not isinstance(self.topics, Collection):
            raise ConfigurationError(f"topics is {self.topics!r}, a list of names is allowed, as in ['flights']")
        return tuple(check_topic(topic, "one of topics") for topic in self.topics)

    def _checked_codes(self) -> frozenset[int]:
        if isinstance(self.retry_response_codes, str | bytes | Mapping) or not isinstance(
            self.retry_response_codes, Collection
        ):
            raise ConfigurationError(
                f"retry_response_codes is {self.retry_response_codes!r}, a list of response codes is allowed, as in [1, 2]"
            )
        return frozenset(
            check_range("a code of retry_response_codes", code, 1, MAX_INT) for code in self.retry_response_codes
        )


_RANGES: Final = (
    ("send_msg_timeout_ms", 1, DAY_MS),
    ("retry_times_when_send_failed", 0, 1000),
    ("compress_msg_body_over_bytes", 1, MAX_INT),
    ("max_message_bytes", 1, MAX_INT),
    ("batch_max_delay_ms", 1, 30_000),
    ("batch_max_bytes", 1, 2 * _MIB),
    ("total_batch_max_bytes", 1, 1 << 40),
    ("back_pressure_for_async_send_num", 10, MAX_INT),
    ("back_pressure_for_async_send_size_bytes", _MIB, 1 << 40),
    ("detect_timeout_ms", 1, DAY_MS),
    ("detect_interval_ms", 1, DAY_MS),
    ("default_topic_queue_nums", 1, 65_535),
)
