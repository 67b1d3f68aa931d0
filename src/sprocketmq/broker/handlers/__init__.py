# SPDX-License-Identifier: Apache-2.0
"""Request families of the broker, one file each: ``@serves(request)``, then ``handle(broker, connection, command, now_ms) -> answer``.

A handler runs on the broker's loop, never awaits and takes no lock. None means that the answer went out already (pull), comes later
(parked pull, SYNC_FLUSH, topic creation), or is not wanted (one-way).
"""

# ruff: noqa: F401 - each of these files enters its handlers into the table

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
from sprocketmq.broker.handlers.table import HANDLERS

__all__ = ["HANDLERS"]
