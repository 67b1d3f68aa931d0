"""Which requests may go a short way now: what a connection of a broker asks before each read.

A way is open while its request has its own handler and nobody stands in front of it: no access control, no log of slow requests, no fault
of a test, no stop. So whoever puts something in front of a handler needs to know nothing of short ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

from sprocketmq.broker.handlers.messages.pull import handle_pull
from sprocketmq.broker.handlers.messages.send import handle_send
from sprocketmq.broker.plain_batches import PlainBatches
from sprocketmq.broker.plain_pulls import PlainPulls
from sprocketmq.broker.plain_sends import PlainSends
from sprocketmq.net.connection import ShortWay
from sprocketmq.wire.codes import RequestCode

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["ShortWays"]


class ShortWays:
    """Call it for the ways that are open until another request is handled; keys: what follows ``{"code":`` in the header."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sends, self._pulls = PlainSends(broker), PlainPulls(broker)
        ways: tuple[tuple[bytes, ShortWay], ...] = (
            (b"310,", self._sends.send),
            (b"320,", PlainBatches(broker, self._sends).send),
            (b'11,"', self._pulls.pull),
        )
        self._tables = {
            opened: {name: way for (name, way), is_open in zip(ways, opened, strict=True) if is_open}
            for opened in product((False, True), repeat=len(ways))
        }

    def __call__(self) -> Mapping[bytes, ShortWay]:
        broker = self._broker
        handlers = broker.open_handlers
        pulls = handlers.get(RequestCode.PULL_MESSAGE) is handle_pull
        sends = handlers.get(RequestCode.SEND_MESSAGE_V2) is handle_send
        batches = handlers.get(RequestCode.SEND_BATCH_MESSAGE) is handle_send
        if (sends or batches) and not self._sends.begin():
            sends = batches = False
        now_ms = broker.clock.now_ms()
        self._sends.now_ms = self._pulls.now_ms = now_ms
        return self._tables[sends, batches, pulls]
