# SPDX-License-Identifier: Apache-2.0
"""Which function serves which request of a broker: ``@serves(request)`` above a handler enters it into ``HANDLERS``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sprocketmq.net.connection import Connection
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.declaration import AnyRequest

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

# Answers one request: returns the answer, or None if it sends the answer later itself.
Handler = Callable[["Broker", Connection, Command, int], "Command | None"]
F = TypeVar("F", bound=Callable[..., object])


class HandlerTable(dict[int, F]):
    def serves(self, *declared: AnyRequest) -> Callable[[F], F]:
        """Enter the function below as the handler of these requests; each has one."""

        def enter(handler: F) -> F:
            for request in declared:
                assert request.code not in self, f"{request.name} has two handlers"
                self[int(request.code)] = handler
            return handler

        return enter


HANDLERS: Final[HandlerTable[Handler]] = HandlerTable()
serves = HANDLERS.serves
