# SPDX-License-Identifier: Apache-2.0
"""Request families of the broker, one file each: declared request -> ``handle(broker, connection, command, now_ms) -> answer``.

A handler runs on the broker's loop, never awaits and takes no lock. None means that the answer went out already (pull), comes later
(parked pull, SYNC_FLUSH, topic creation), or is not wanted (one-way).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sprocketmq.broker.controller import BrokerController, Handler
from sprocketmq.broker.handlers.admin import (
    acl,
    auth,
    broker_config,
    cleanup,
    replication,
    runtime_info,
    stats,
    timer,
    topics,
)
from sprocketmq.broker.handlers.group import (
    assignment,
    connections,
    consume_queue,
    consumers,
    groups,
    locks,
    offset_reset,
    offsets,
)
from sprocketmq.broker.handlers.messages import lookup, pull, relay, reply, send, send_back, transactions
from sprocketmq.net.connection import Connection
from sprocketmq.wire.frames.command import Command

__all__ = ["handler_table", "with_interceptor"]

_FAMILIES: Final[tuple[Mapping[Any, Handler], ...]] = (
    send.HANDLERS,
    pull.HANDLERS,
    send_back.HANDLERS,
    offsets.HANDLERS,
    offset_reset.HANDLERS,
    consumers.HANDLERS,
    locks.HANDLERS,
    topics.HANDLERS,
    groups.HANDLERS,
    stats.HANDLERS,
    lookup.HANDLERS,
    acl.HANDLERS,
    auth.HANDLERS,
    replication.HANDLERS,
    transactions.HANDLERS,
    reply.HANDLERS,
    timer.HANDLERS,
    assignment.HANDLERS,
    broker_config.HANDLERS,
    cleanup.HANDLERS,
    connections.HANDLERS,
    consume_queue.HANDLERS,
    relay.HANDLERS,
    runtime_info.HANDLERS,
)


def handler_table() -> dict[int, Handler]:
    """All handlers by request code. If two families have the same request, the start fails."""
    table: dict[int, Handler] = {}
    for family in _FAMILIES:
        for request, handler in family.items():
            assert int(request.code) not in table, f"{request.name} has two handlers"
            table[int(request.code)] = handler
    return table


def with_interceptor(handler: Handler, look: Callable[[Connection, Command], Command | None]) -> Handler:
    """Return a handler that calls ``look`` first; if that returns an answer, ``handler`` is not called."""

    def looked(broker: BrokerController, connection: Connection, command: Command, now_ms: int) -> Command | None:
        return look(connection, command) or handler(broker, connection, command, now_ms)

    return looked
