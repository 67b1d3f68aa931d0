# SPDX-License-Identifier: Apache-2.0
"""Notices that a consumer group has changed (Java: NotifyConsumerIdsChanged). One heartbeat may join a thousand groups: a turn of the loop
sends a limited number, the next turns the rest; members of a group that changes again meanwhile get one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from sprocketmq.broker.chunked_work import CHUNK_SIZE
from sprocketmq.broker.tables.consumers import ConsumerGroup
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import encode_command
from sprocketmq.wire.headers import NotifyConsumerIdsChangedRequestHeader

_NOBODY: Final[tuple[Connection, ...]] = ()


class MemberNotices:
    def __init__(self) -> None:
        self._waiting: dict[str, ConsumerGroup] = {}
        self._left = CHUNK_SIZE  # remaining pushes of this turn
        self._is_counting = False  # a next turn is scheduled
        self._name, self._frame = "", b""
        self._members: Iterator[Connection] = iter(_NOBODY)  # of the group that is being notified

    def notify(self, group: ConsumerGroup) -> None:
        self._waiting.pop(group.name, None)
        self._waiting[group.name] = group
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._push()

    def _next_turn(self) -> None:
        self._is_counting, self._left = False, CHUNK_SIZE
        self._push()
        if self._left < CHUNK_SIZE:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _push(self) -> None:
        while self._left > 0:
            connection = next(self._members, None)
            if connection is not None:
                self._left -= 1
                connection.push_newest(self._name, self._frame)
            elif self._waiting:
                self._begin(self._waiting.pop(next(iter(self._waiting))))
            else:
                return

    def _begin(self, group: ConsumerGroup) -> None:
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group.name)
        # One-way, and the peer does not use the opaque. A member that cannot be notified rebalances by its own timer.
        command = requests.consumers.NOTIFY_CONSUMER_IDS_CHANGED.command(header, oneway=True)
        self._name, self._frame, self._members = group.name, encode_command(command), iter(list(group.members))
        self._left -= 1
