"""Which requests may go a short way now: what a connection of a broker asks before each read.

A way is open while its request has its own handler and nobody stands in front of it: no access control, no log of slow requests, no fault
of a test, no stop. So whoever puts something in front of a handler needs to know nothing of short ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sprocketmq.broker.handlers.pull import handle_pull
from sprocketmq.broker.handlers.send import handle_send
from sprocketmq.broker.plain_pulls import PlainPulls
from sprocketmq.broker.plain_sends import PlainSends
from sprocketmq.net.connection import ShortWay
from sprocketmq.wire.codes import RequestCode

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["ShortWays"]


class ShortWays:
    """Call it for the ways that are open until another request is handled; keys: what follows ``{"code":`` in the header."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sends, self._pulls = PlainSends(broker), PlainPulls(broker)
        sends: dict[bytes, ShortWay] = {b"310,": self._sends.send}
        pulls: dict[bytes, ShortWay] = {b'11,"': self._pulls.pull}
        self._tables = {
            (False, False): dict[bytes, ShortWay](),
            (True, False): sends,
            (False, True): pulls,
            (True, True): {**sends, **pulls},
        }

    def __call__(self) -> Mapping[bytes, ShortWay]:
        broker = self._broker
        handlers = broker.open_handlers
        pulls = handlers.get(RequestCode.PULL_MESSAGE) is handle_pull
        sends = handlers.get(RequestCode.SEND_MESSAGE_V2) is handle_send and self._sends.begin()
        now_ms = broker.clock.now_ms()
        self._sends.now_ms = self._pulls.now_ms = now_ms
        return self._tables[sends, pulls]
