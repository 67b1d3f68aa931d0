# SPDX-License-Identifier: Apache-2.0
"""Libraries that few requests need; they are imported on a thread with the first of these requests.

lark (SQL92 filters) and NumPy (queries by key) take 0.2 to 0.3 s to import and 15 MB, a third of a start; on the loop every send would
wait.

1. A request is handled by its handler when its library is loaded, and not at all if its connection has closed meanwhile.
2. Requests that wait for one library are handled in the order in which they came.
3. At most ``MOST_WAITING`` requests wait; further ones are answered "try again" (bounded memory).
4. If a library is not installed, the handler fails with its own error. If a thread, memory or descriptors are missing, requests are
   answered "try again", and the next one tries to load it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from sprocketmq.core.sql92 import compile_sql92
from sprocketmq.net.connection import Connection, bytes_while_waiting
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import FLAG_ONEWAY, Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.handlers.table import Handler

MOST_WAITING: Final = 1_000


class Library(Enum):
    SQL92 = "lark and the parser's tables"
    NUMPY = "NumPy"


_LOADERS: Final[dict[Library, Callable[[], object]]] = {
    Library.SQL92: lambda: compile_sql92("a = 1"),
    Library.NUMPY: lambda: importlib.import_module("numpy"),
}
_loaded: Final[set[Library]] = set()  # of this process, for all its brokers


def is_loaded(library: Library) -> bool:
    return library in _loaded


class LazyImports:
    def __init__(self) -> None:
        self._waiting: dict[Library, list[tuple[Connection, Command]]] = {}

    def wait_for(self, library: Library, connection: Connection, command: Command) -> Command | None:
        """Handle ``command`` when ``library`` is loaded. Returns an answer if it cannot wait (rule 3), else None."""
        waiting = self._waiting.get(library)
        if waiting is None:
            try:
                loading = asyncio.get_running_loop().run_in_executor(None, _load, library)
            except RuntimeError as error:  # no thread can be started
                return _not_loaded(library, command, error)
            self._waiting[library] = waiting = []
            loading.add_done_callback(lambda done: self._handle_all(library, done))
        if len(waiting) >= MOST_WAITING:
            return response(
                command, ResponseCode.SYSTEM_BUSY, f"{library.value} is being loaded; try again in a second"
            )
        waiting.append((connection, command))
        connection.hold(bytes_while_waiting(command))
        return None

    def _handle_all(self, library: Library, loading: asyncio.Future[None]) -> None:
        error = loading.exception()
        for connection, command in self._waiting.pop(library):
            connection.release(bytes_while_waiting(command))
            if connection.is_closed:
                continue
            if error is None:
                connection.handle_now(command)
            elif not command.flag & FLAG_ONEWAY:
                connection.send(_not_loaded(library, command, error))


def _not_loaded(library: Library, command: Command, error: BaseException) -> Command:
    remark = f"{library.value} cannot be loaded now: {error}; try again in a second"
    return response(command, ResponseCode.SYSTEM_BUSY, remark)


def _load(library: Library) -> None:
    with contextlib.suppress(ImportError):  # rule 4
        _LOADERS[library]()
    _loaded.add(library)


def once_loaded(
    library: Library, needs: Callable[[Command], bool] = lambda command: True
) -> Callable[[Handler], Handler]:
    def waiting(handler: Handler) -> Handler:
        def handle(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
            if library not in _loaded and needs(command):
                return broker.lazy_imports.wait_for(library, connection, command)
            return handler(broker, connection, command, now_ms)

        return handle

    return waiting
