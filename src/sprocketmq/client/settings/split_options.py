# SPDX-License-Identifier: Apache-2.0
"""Splits the keyword options of a public class into those of every client and those of this class; an unknown one raises an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError

# What kafka-python, aiokafka and other clients call it: our option, the first one that the class has, or a sentence.
_ELSEWHERE: Final[Mapping[str, tuple[str, ...] | str]] = {
    "bootstrap_servers": ("namesrv_addr",),
    "brokers": ("namesrv_addr",),
    "servers": ("namesrv_addr",),
    "hosts": ("namesrv_addr",),
    "endpoints": ("namesrv_addr",),
    "group_id": "the group is the first argument",
    "client_id": ("instance_name",),
    "consume_threads": ("consume_thread_count",),
    "concurrency": ("consume_thread_count",),
    "max_workers": ("consume_thread_count",),
    "threads": ("consume_thread_count",),
    "workers": ("consume_thread_count",),
    "prefetch_count": ("pull_batch_size",),
    "auto_offset_reset": ("consume_from_where",),
    "enable_auto_commit": ("auto_commit",),
    "max_poll_records": ("pull_batch_size",),
    "max_poll_interval_ms": ("consume_timeout_ms",),
    "consumer_timeout_ms": ("poll_timeout_ms",),
    "fetch_max_wait_ms": ("broker_suspend_max_time_ms",),
    "fetch_max_bytes": ("pull_batch_size_in_bytes",),
    "partition_assignment_strategy": ("allocate_strategy",),
    "session_timeout_ms": ("heartbeat_broker_interval_ms",),
    "metadata_max_age_ms": ("poll_name_server_interval_ms",),
    "timeout": ("poll_timeout_ms", "send_msg_timeout_ms", "consume_timeout_ms"),
    "request_timeout_ms": ("send_msg_timeout_ms", "mq_client_api_timeout_ms"),
    "retries": ("retry_times_when_send_failed", "max_reconsume_times"),
    "max_retries": ("retry_times_when_send_failed", "max_reconsume_times"),
    "linger_ms": ("batch_max_delay_ms",),
    "batch_size": ("batch_max_bytes", "pull_batch_size"),
    "max_batch_size": ("batch_max_bytes", "pull_batch_size"),
    "max_request_size": ("max_message_bytes",),
    "buffer_memory": ("back_pressure_for_async_send_size_bytes",),
    "max_in_flight_requests_per_connection": ("back_pressure_for_async_send_num",),
    "compression_type": ("compress_type",),
    "security_protocol": ("tls",),
    "ssl": ("tls",),
    "ssl_cafile": ("ssl_context",),
    "sasl_mechanism": ("access_key",),
    "sasl_plain_username": ("access_key",),
    "sasl_plain_password": ("secret_key",),
    "username": ("access_key",),
    "password": ("secret_key",),
    "acks": "the brokers decide when a message counts as stored (flushDiskType, brokerRole), and SendResult.status says so",
    "key_serializer": "keys are text; a value may be anything with value_serializer",
    "key_deserializer": "keys are text; a value may be anything with value_deserializer",
    "transactional_id": "use TransactionProducer",
    "enable_idempotence": "a consumer recognizes a message that came twice by its message_id or a key of yours",
    "partitioner": "give send a sharding_key, a queue or a selector",
}


# Options of which the first may not be more than the second one.
_PAIRS: Final = (
    ("consume_thread_count", "consume_thread_max"),
    ("broker_suspend_max_time_ms", "consumer_timeout_when_suspend_ms"),
)


def split_options(
    given: Mapping[str, object], client_options: type[ClientOptions], settings: type[msgspec.Struct] | None, what: str
) -> tuple[ClientOptions, dict[str, Any]]:
    """The ClientOptions, and the rest for ``settings``. Raises ConfigurationError (an unknown name; it suggests the nearest)."""
    own = set(client_options.__struct_fields__)
    others = set(settings.__struct_fields__) - {"group"} if settings is not None else set()
    for name in given:
        if name not in own and name not in others:
            raise ConfigurationError(f"{what} has no option {name!r}; {_hint(name, own | others)}")
    mine: dict[str, Any] = {name: value for name, value in given.items() if name in own}
    theirs: dict[str, Any] = {name: value for name, value in given.items() if name in others}
    for low, high in _PAIRS:
        if settings is not None and low in others and high in others and (low in theirs) is not (high in theirs):
            _follow(theirs, low, high, {field.name: field.default for field in msgspec.structs.fields(settings)})
    return client_options(**mine), theirs


def _follow(given: dict[str, Any], low: str, high: str, defaults: Mapping[str, Any]) -> None:
    """The one that is not given follows the other one, where its default would be on the wrong side of it."""
    if low in given:
        if type(given[low]) is int and defaults[high] is not None and given[low] > defaults[high]:
            given[high] = given[low]
    elif type(given[high]) is int and 0 < given[high] < defaults[low]:
        given[low] = given[high]


def _hint(name: str, known: set[str]) -> str:
    import difflib  # imported only for the error

    plain = re.sub("(?<=[a-z0-9])(?=[A-Z])|[.-]", "_", name).lower()  # bootstrap.servers, namesrvAddr
    meant = _ELSEWHERE.get(plain, ())
    if isinstance(meant, str):
        return meant
    near = [one for one in meant if one in known] or difflib.get_close_matches(plain, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"allowed are {', '.join(sorted(known))}"
