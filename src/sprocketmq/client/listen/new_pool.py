# SPDX-License-Identifier: Apache-2.0
"""Chooses the pool in which a consume service runs its listener: threads, tasks, or as many calls as an iteration asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sprocketmq.client.group.group_member import GroupMember
from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_pool import ListenerPool, OnDone, T
from sprocketmq.client.listen.message_stream import DemandPool, MessageStream
from sprocketmq.client.listen.thread_listener_pool import ThreadListenerPool
from sprocketmq.net.process.clock import watch


def new_pool(
    group: GroupMember,
    run: Callable[[T, Any], T],
    run_async: Callable[[T, Any], Awaitable[T]],
    on_done: OnDone[T],
    *,
    is_async: bool,
    stream: MessageStream | None,
) -> ListenerPool[T]:
    """A pool with the group's number of workers.

    Args:
        run: makes a call in a worker thread.
        run_async: makes a call of an ``async def`` listener, or of an iteration.
        on_done: called on the loop with the finished calls.
        is_async: whether the listener is ``async def``.
        stream: the iteration that gets the messages; None for a listener.
    """
    workers, name, now_ms = group.settings.consume_thread_count, f"sprocketmq-{group.name}", group.clock.now_ms
    pool: ListenerPool[T]
    if stream is not None:
        pool = DemandPool(stream, run_async, on_done, workers, name, now_ms)
    elif is_async:
        pool = AsyncListenerPool(run_async, on_done, workers, name, now_ms)
    else:
        pool = ThreadListenerPool(run, on_done, workers, name, now_ms)
    watch(group.clock, pool)
    return pool
