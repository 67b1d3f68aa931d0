# SPDX-License-Identifier: Apache-2.0
"""What a caller sees of a public call that fails: one sentence for arguments that do not fit, and none of our frames below the call.

``checked_calls`` wraps the public methods of a class. ``Message`` and ``send_async`` are called too often for a wrapper; they take what
does not fit as ``*others`` and ``**unknown`` and raise ``misfit`` themselves.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from sprocketmq.errors import ConfigurationError, RocketMQError

__all__ = ["checked_call", "checked_calls", "hint", "misfit"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# What kafka-python, confluent-kafka, aiokafka and other clients call it: our name, the first one that there is, or a sentence.
_ELSEWHERE: Final[Mapping[str, tuple[str, ...] | str]] = {
    "bootstrap_servers": ("namesrv_addr",),
    "brokers": ("namesrv_addr",),
    "servers": ("namesrv_addr",),
    "hosts": ("namesrv_addr",),
    "endpoints": ("namesrv_addr",),
    "group_id": "the group is the first argument",
    "group_name": "the group is the first argument",
    "consumer_group": "the group is the first argument",
    "producer_group": "the group is the first argument",
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
    "request_timeout_ms": ("send_msg_timeout_ms", "mq_client_api_timeout_ms"),
    "timeout": ("timeout_ms", "poll_timeout_ms", "send_msg_timeout_ms", "consume_timeout_ms"),
    "timeout_s": ("timeout_ms", "poll_timeout_ms", "send_msg_timeout_ms", "consume_timeout_ms"),
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
    # Of messages and sends.
    "key": ("keys",),
    "tag": ("tags", "expression"),
    "headers": ("properties",),
    "attributes": ("properties",),
    "value": ("body",),
    "data": ("body", "value"),
    "payload": ("body", "value"),
    "content": ("body", "value"),
    "delay": ("delay_ms", "delay_level"),
    "delay_s": ("delay_ms", "delay_level"),
    "delay_seconds": ("delay_ms", "delay_level"),
    "countdown": ("delay_ms", "delay_level"),
    "eta": ("deliver_time_ms", "delay_level"),
    "partition": ("queue",),
    "partitions": ("queues",),
    "num_partitions": ("queues",),
    "partition_key": ("sharding_key",),
    "routing_key": ("sharding_key",),
    "message_group": ("sharding_key",),
    "filter": ("expression",),
    "callback": "send_async returns a future, which takes callbacks (add_done_callback)",
    "on_delivery": "send_async returns a future, which takes callbacks (add_done_callback)",
}
_OF_MESSAGE: Final = ("topic", "body", "tags", "keys", "properties", "flag")
_PACKAGES: Final = frozenset({"sprocketmq", "asyncio", "concurrent", "uvloop"})


def checked_calls(cls: type[T]) -> type[T]:
    """``cls``, whose public methods raise ConfigurationError where Python raises TypeError for arguments that do not fit.

    An error of ours that leaves a blocking call shows no frames below that call: they say nothing to a caller, and there are a dozen.
    """
    for name, function in list(vars(cls).items()):
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and inspect.isfunction(function) and "others" not in inspect.signature(function).parameters:
            setattr(cls, name, checked_call(function))
    return cls


def checked_call(function: F) -> F:
    """One function, as ``checked_calls``."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # the function had begun
                raise
            wrong = misfit(function, args, named)
        except RocketMQError as error:
            if not _is_ours(error.__traceback__):
                raise
            raise error.with_traceback(None)  # noqa: B904 - the same error, and its cause
        raise wrong

    if inspect.iscoroutinefunction(function):  # for mocks and frameworks, which ask it
        if hasattr(inspect, "markcoroutinefunction"):
            inspect.markcoroutinefunction(call)
        else:  # before Python 3.12
            marks = importlib.import_module("asyncio.coroutines")  # not at the top: messages need no event loop
            call._is_coroutine = marks._is_coroutine  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether no frame is one of a user's function."""
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _PACKAGES:
            return False
        trace = trace.tb_next
    return True


def misfit(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> ConfigurationError:
    """Why ``function`` cannot be called with these arguments; those of a method begin with ``self``."""
    what = function.__qualname__.removesuffix(".__init__")
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters, args = parameters[1:], args[1:]
    takes_options = any(one.kind is one.VAR_KEYWORD and one.name != "unknown" for one in parameters)
    fixed = {one.name: one for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    places = [one.name for one in fixed.values() if one.kind is not one.KEYWORD_ONLY]
    is_send = "message" in places
    for name in named:
        meant = _ELSEWHERE.get(_plain(name), ())
        if name in fixed or (takes_options and not meant):
            continue
        known = {*fixed, *(meant if takes_options and not isinstance(meant, str) else ())}
        if is_send and not _near(name, known) and _near(name, _OF_MESSAGE):
            todo = "it belongs to the message, as in Message(topic, body, keys=...)"
        else:
            todo = hint(name, known)
        return ConfigurationError(f"{what} has no argument {name!r}; {todo}")
    if is_send and args and isinstance(args[0], str):
        return ConfigurationError(f"{what} takes a Message, as in {function.__name__}(Message(topic, body))")
    if len(args) > len(places):
        by_name = ", ".join(f"{name}=" for name in fixed if name not in places)
        rest = f"; {by_name} are given by name" if by_name else ""
        return ConfigurationError(
            f"{what} takes {', '.join(places) or 'nothing'} by position, and {len(args)} values were given{rest}"
        )
    twice = [name for name in places[: len(args)] if name in named]
    if twice:
        return ConfigurationError(f"{what} was given {twice[0]!r} twice, by position and by name")
    needed = [name for name, one in fixed.items() if one.default is one.empty]
    missing = [name for name in needed if name not in named and name not in places[: len(args)]]
    return ConfigurationError(f"{what} needs {' and '.join(map(repr, missing))}")


def hint(name: str, known: Collection[str]) -> str:
    """What to use instead of the unknown argument ``name``, as the end of a sentence."""
    meant = _ELSEWHERE.get(_plain(name))
    if isinstance(meant, str):
        return meant
    near = _near(name, known)
    return f"did you mean {near[0]!r}?" if near else f"allowed are {', '.join(sorted(known))}"


def _near(name: str, known: Collection[str]) -> list[str]:
    import difflib  # imported only for the error

    meant = _ELSEWHERE.get(_plain(name), ())
    found = [] if isinstance(meant, str) else [one for one in meant if one in known]
    return found or difflib.get_close_matches(_plain(name), known, 1)


def _plain(name: str) -> str:
    """``bootstrap_servers`` for ``bootstrap.servers``, ``namesrv_addr`` for ``namesrvAddr``."""
    return re.sub("(?<=[a-z0-9])(?=[A-Z])|[.-]", "_", name).lower()
