# SPDX-License-Identifier: Apache-2.0
"""The options of a write, parsed and checked once, on the driver, before a task runs. ``read_options`` does the same for a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.core.retry.retry_schedule import MOST_DELAY_LEVELS
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.access import ANONYMOUS, Access, access_of
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.named_topics import LEDGER_PREFIX, topic_to_write
from sprocketmq.spark.options.option_table import OPTION_OF, SEND_STATUSES
from sprocketmq.wire.records.compression import CompressionType, check_library

_DEFAULT_GROUP: Final = "SPARK_ROCKETMQ_SINK"
_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_NEVER: Final = 2**31 - 1


@dataclass(frozen=True)
class SinkOptions:
    namesrv_addr: str
    topic: str | None
    group: str
    mode: Literal["send", "ack", "replay"]
    delivery: Literal["atLeastOnce", "idempotent", "transactional"]
    send_timeout_ms: int
    max_in_flight: int
    max_reconsume_times: int
    delay_level: int
    retry_timeout_ms: int
    access: Access = ANONYMOUS
    ledger_topic: str = ""
    txn_app_id: str | None = None
    txn_version: int | None = None
    settle_timeout_ms: int = 180_000
    on_decided_batch: Literal["fail", "pass"] = "fail"
    accepted_send_status: frozenset[str] = frozenset({"SEND_OK"})
    on_error: Literal["fail", "drop", "dlq"] = "fail"
    max_message_bytes: int = _MESSAGE_BYTES
    max_delay_level: int = 18
    compress_type: Literal["none", "zlib", "lz4", "zstd"] = "none"
    compress_over_bytes: int = 4096

    @property
    def compress_from_bytes(self) -> int:
        """Bodies of this size and more are compressed and sent outside of batches."""
        return _NEVER if self.compress_type == "none" else self.compress_over_bytes

    def producer_settings(self) -> dict[str, Any]:
        """Message settings for a producer. Its size limit is also for batches, so it is never below that of brokers."""
        kind = "ZLIB" if self.compress_type == "none" else self.compress_type.upper()
        return {
            "max_message_bytes": max(self.max_message_bytes, _MESSAGE_BYTES),
            "max_delay_level": MOST_DELAY_LEVELS,
            "compress_type": kind,
            "compress_msg_body_over_bytes": self.compress_from_bytes,
        }


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises ConfigurationError (an unknown name, an invalid value, or a combination that is not allowed)."""
    given = GivenOptions(options)
    given.refuse_other_side("write")
    mode = given.choice("mode")
    if mode == "ack" and not given.has("group"):
        raise ConfigurationError("mode is 'ack' without group; name the consumer group whose messages are sent back")
    if mode != "ack":
        given.refuse_unused(("maxReconsumeTimes",), f"with mode {mode}, which sends no row back", "set mode to ack")
        given.refuse_unused(
            ("delayLevel",), f"with mode {mode}, where each row has its own delay", "use a column delayLevel"
        )
    else:
        given.refuse_unused(("acceptedSendStatus",), "with mode ack, which sends no row", "set mode to send")
    topic = topic_to_write(given)
    ledger_topic, txn_app_id, txn_version = _transaction(given, mode)
    return SinkOptions(
        namesrv_addr=given.namesrv_addr(),
        topic=topic,
        group=given.name("group", _DEFAULT_GROUP),
        mode=mode,  # type: ignore[arg-type]
        delivery=given.choice("delivery"),  # type: ignore[arg-type]
        send_timeout_ms=given.duration_ms("sendTimeoutMs"),
        max_in_flight=given.count("maxInFlight") or 1024,
        max_reconsume_times=given.count("maxReconsumeTimes") or 16,
        delay_level=given.count("delayLevel") or 0,
        retry_timeout_ms=given.duration_ms("retryTimeoutMs"),
        access=access_of(given),
        ledger_topic=ledger_topic,
        txn_app_id=txn_app_id,
        txn_version=txn_version,
        settle_timeout_ms=given.duration_ms("settleTimeoutMs"),
        on_decided_batch=given.choice("onDecidedBatch"),  # type: ignore[arg-type]
        accepted_send_status=_accepted(given),
        **_row_settings(given, mode),
    )


def _row_settings(given: GivenOptions, mode: str) -> dict[str, Any]:
    names = ("onError", "maxMessageBytes", "maxDelayLevel", "compressType", "compressOverBytes")
    if mode == "ack":
        given.refuse_unused(names, "with mode ack, which sends no row", "set mode to send")
    if mode == "replay":
        given.refuse_unused(("maxDelayLevel",), "with mode replay, which sends former messages", "set mode to send")
    if given.choice("delivery") == "transactional":
        given.refuse_unused(
            ("maxDelayLevel",), "with delivery transactional, which cannot delay a row", "use another delivery"
        )
    on_error = given.choice("onError")
    if on_error == "dlq" and not given.has("group"):
        raise ConfigurationError(
            "onError is 'dlq' without group; name the group whose dead letters (%DLQ%group) they become"
        )
    compress_type = given.choice("compressType")
    if compress_type == "none":
        given.refuse_unused(("compressOverBytes",), "without compressType", "add it")
    else:
        check_library(CompressionType.of(compress_type))
    return {
        "on_error": on_error,
        "max_message_bytes": given.count("maxMessageBytes") or _MESSAGE_BYTES,
        "max_delay_level": given.count("maxDelayLevel") or 18,
        "compress_type": compress_type,
        "compress_over_bytes": given.count("compressOverBytes") or 4096,
    }


def _accepted(given: GivenOptions) -> frozenset[str]:
    text = given.text("acceptedSendStatus")
    words = (OPTION_OF["acceptedSendStatus"].default if text is None else text).upper().split(",")
    names = {word.strip() for word in words}
    if not names.issubset(SEND_STATUSES):
        given.refuse("acceptedSendStatus")
    return frozenset({"SEND_OK", *names})


def _transaction(given: GivenOptions, mode: str) -> tuple[str, str | None, int | None]:
    """Ledger topic, txnAppId and txnVersion. The topic is empty unless the delivery is transactional."""
    app_id, version = given.text("txnAppId"), given.text("txnVersion")
    delivery = given.choice("delivery")
    if (mode == "ack" and delivery != "atLeastOnce") or (mode != "send" and delivery == "transactional"):
        raise ConfigurationError(
            f"delivery is {delivery!r} with mode {mode!r}; only rows that are sent can be {delivery}"
        )
    if delivery == "atLeastOnce":
        given.refuse_unused(
            ("txnAppId", "txnVersion"), "without delivery idempotent or transactional", "add one of them"
        )
    if delivery != "transactional":
        given.refuse_unused(
            ("ledgerTopic", "settleTimeoutMs", "onDecidedBatch"), "without delivery transactional", "add it"
        )
    else:
        given.refuse_unused(
            ("acceptedSendStatus",), "with delivery transactional, which is strict", "use another delivery"
        )
    if delivery == "transactional" and not given.has("group"):
        raise ConfigurationError(
            "delivery is 'transactional' without group; name a producer group of its own, which answers for the half messages"
        )
    if (app_id is None) != (version is None) or app_id == "":
        raise ConfigurationError("txnAppId and txnVersion belong together; give both or none")
    if app_id is not None and control_character_problem("txnAppId", app_id) is not None:
        given.refuse("txnAppId")
    if version is not None and not (version.strip().isascii() and version.strip().isdigit()):
        given.refuse("txnVersion")
    ledger = given.name("ledgerTopic", LEDGER_PREFIX + given.name("group", "")) if delivery == "transactional" else ""
    return ledger, app_id, None if version is None else int(version)
