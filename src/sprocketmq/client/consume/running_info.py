# SPDX-License-Identifier: Apache-2.0
"""What a running consumer reports about itself (code 307; Java: DefaultMQPushConsumerImpl.consumerRunningInfo), with the names and
forms of a Java member, because tools interpret them: ``mqadmin consumerStatus`` reports failing locks and queues that were not
consumed for a minute."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from enum import Enum
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.settings.shared_options import SECRET_OPTIONS
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.statistics import Measure
from sprocketmq.version import __version__
from sprocketmq.wire import bodies
from sprocketmq.wire.bodies import running_info

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

# Options whose Java name is not the camel case of ours without its unit.
_JAVA_NAMES: Final = {
    "group": "consumerGroup",
    "client_ip": "clientIP",
    "tls": "useTLS",
    "allocate_strategy": "allocateMessageQueueStrategy",
    "suspend_current_queue_time_ms": "suspendCurrentQueueTimeMillis",
    "await_termination_ms": "awaitTerminationMillisWhenShutdown",
    "pull_time_delay_when_exception_ms": "pullTimeDelayMillsWhenException",
    "poll_timeout_ms": "pollTimeoutMillis",
    "auto_commit_interval_ms": "autoCommitIntervalMillis",
    "topic_metadata_check_interval_ms": "topicMetadataCheckIntervalMillis",
    "broker_suspend_max_time_ms": "brokerSuspendMaxTimeMillis",
    "consumer_timeout_when_suspend_ms": "consumerTimeoutMillisWhenSuspend",
    "consume_timeout_ms": "consumeTimeoutMillis",
    "consume_thread_count": "consumeThreadMin",
    "consume_thread_max": "consumeThreadMax",
}
_LEFT_OUT: Final = frozenset({"clock", "ssl_context", "machine_room_resolver", "value_deserializer"}) | SECRET_OPTIONS
_MINUTE_MS: Final = 60_000
_LONGEST_FAILURE: Final = 1_000


async def running_info_of(running: RunningConsumer, *, with_stacks: bool = False) -> bodies.ConsumerRunningInfo:
    """Progress that is not in memory is read from the offset store, as in Java. ``with_stacks``: those of each thread and task."""
    now_ms = running.clock.now_ms()
    mq_table: dict[Any, bodies.ProcessQueueInfo] = {}
    for queue, process_queue in running.rebalancer.held().items():  # also dropped ones whose listener still runs
        offset = running.offset_store.progress.read(queue)
        if offset < 0:
            offset = await running.offset_store.read(queue)
        mq_table[queue] = _process_queue_info(process_queue, offset, orderly=running.service.orderly)
    statistics = running.statistics
    return bodies.ConsumerRunningInfo(
        properties=java_properties(running),
        subscription_set=list(running.subscriptions.values()),
        mq_table=mq_table,
        status_table={topic: statistics.status(topic, now_ms) for topic in sorted(running.subscriptions)},
        user_consumer_info=_own_info(running),
        jstack=stack_dump() if with_stacks else None,
    )


def _own_info(running: RunningConsumer) -> dict[str, str]:
    """What Java's members do not report: the last exception of a listener, since when one runs, what all did, and a pause. mqadmin prints
    it as it is."""
    clock, began_ms = running.clock, running.service.running_since_ms()
    oldest_ms = clock.now_ms() - (clock.steady_ms() - min(began_ms)) if began_ms else 0
    info = {running_info.OLDEST_CALL_TIMESTAMP: str(oldest_ms)}
    measures = {running_info.CONSUMED_SINCE_START: Measure.CONSUME_OK_TPS}
    if running.has_raised:  # else it only postpones messages, by RetryLater
        measures[running_info.FAILED_SINCE_START] = Measure.CONSUME_FAILED_TPS
    for key, measure in measures.items():
        topics = running.statistics.topics()
        info[key] = str(int(sum(running.statistics.since_start(topic, measure)[1] for topic in topics)))
    if running.paused:
        info[running_info.PAUSED] = "true"
    if running.last_failure is not None:
        at_ms, text = running.last_failure
        info[running_info.LAST_FAILURE] = text[:_LONGEST_FAILURE]
        info[running_info.LAST_FAILURE_TIMESTAMP] = str(at_ms)
    return info


def java_properties(running: RunningConsumer) -> dict[str, str]:
    """All options by Java's names, as text; keys and secrets are left out."""
    own = running.own_settings
    properties: dict[str, str] = {}
    for settings in (running.options, own):
        for option in settings.__struct_fields__:
            value = getattr(settings, option)
            if value is not None and option not in _LEFT_OUT:
                properties[_java_name(option)] = _text(value)
    timeout_ms = getattr(own, "consume_timeout_ms", None)
    if timeout_ms is not None:
        properties["consumeTimeout"] = str(timeout_ms // _MINUTE_MS)  # Java's own, in minutes
    threads = getattr(own, "consume_thread_count", 0)
    properties.update(
        {
            running_info.PROP_NAMESERVER_ADDR: "".join(
                f"{one};" for one in running.instance.cluster.name_servers.addresses
            ),
            running_info.PROP_CONSUME_TYPE: running.consumer_data().consume_type or "",
            running_info.PROP_CONSUME_ORDERLY: str(running.service.orderly).lower(),
            running_info.PROP_THREADPOOL_CORE_SIZE: str(threads),
            running_info.PROP_CONSUMER_START_TIMESTAMP: str(running.started_ms),
            running_info.PROP_CLIENT_VERSION: f"SprocketMQ {__version__}",
        }
    )
    return dict(sorted(properties.items()))


def _java_name(option: str) -> str:
    if option in _JAVA_NAMES:
        return _JAVA_NAMES[option]
    first, *words = option.removesuffix("_ms").split("_")
    return first + "".join(map(str.capitalize, words))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if callable(value):
        return str(getattr(value, "name", None) or getattr(value, "__name__", None) or type(value).__name__)
    return str(value)


def _process_queue_info(process_queue: ProcessQueue, commit_offset: int, *, orderly: bool) -> bodies.ProcessQueueInfo:
    """Java counts the messages of a running orderly listener separately ("transaction"); those of a concurrent one count as cached."""
    info = bodies.ProcessQueueInfo(
        commit_offset=commit_offset,
        cached_msg_min_offset=process_queue.min_offset or 0,
        cached_msg_max_offset=process_queue.max_offset or 0,
        cached_msg_count=process_queue.count,
        cached_msg_size_in_mi_b=process_queue.size_bytes // (1024 * 1024),
        locked=process_queue.lock.locked,
        try_unlock_times=process_queue.try_unlock_times,
        last_lock_timestamp=process_queue.lock.last_lock_ms,
        droped=process_queue.dropped,
        last_pull_timestamp=process_queue.last_pull_ms,
        last_consume_timestamp=process_queue.last_consume_ms,
    )
    if orderly:
        working_on = [message.queue_offset for message in process_queue.in_flight()]
        info.cached_msg_count = process_queue.pending_count
        info.transaction_msg_count = len(working_on)
        if working_on:
            info.transaction_msg_min_offset, info.transaction_msg_max_offset = min(working_on), max(working_on)
    return info


def stack_dump() -> str:
    """The stacks of all threads and of all tasks of the running loop, the innermost call first, in the layout of Java's jstack text."""
    frames = sys._current_frames()
    lines: list[str] = []
    for thread in sorted(threading.enumerate(), key=lambda one: one.name):
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            lines += _block(thread.name, f"TID: {thread.ident} STATE: RUNNABLE", _stack(frame))
    for number, task in enumerate(sorted(asyncio.all_tasks(), key=lambda one: one.get_name())):
        waits = list(_awaited(task.get_coro()))
        state = "RUNNABLE" if task is asyncio.current_task() else "WAITING"
        lines += _block(f"{task.get_name()} (task)", f"TID: {number} STATE: {state}", iter(waits[::-1]))
    return "\n".join(lines)


def _block(name: str, state: str, calls: Iterator[str]) -> list[str]:
    return [f"{name:<40}{state}", *(f"{name:<40}{call}" for call in calls), ""]


def _stack(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield _call(frame)
        frame = frame.f_back


def _awaited(awaited: Any) -> Iterator[str]:
    """A suspended task's coroutines, each waiting for the next."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            return
        yield _call(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _call(frame: FrameType) -> str:
    code = frame.f_code
    module = frame.f_globals.get("__name__", "?")
    name = getattr(code, "co_qualname", code.co_name)
    return f"{module}.{name}({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
