"""Answers to many requests that became ready at the same moment: one write for each connection, not one for each answer."""

from __future__ import annotations

import logging
from types import TracebackType

from sprocketmq.net.connection import Connection

__all__ = ["GatheredAnswers"]

log = logging.getLogger("sprocketmq.net")


class GatheredAnswers:
    """What is sent inside ``with`` to a connection that was named with :meth:`take` leaves at the end, in the order in which it was sent.

    All of it happens in one turn of the loop. What the connections kept for the requests is released when the answers are written.
    """

    __slots__ = ("_began", "_kept_bytes")

    def __init__(self) -> None:
        self._kept_bytes: dict[Connection, int] = {}
        self._began: list[Connection] = []

    def __enter__(self) -> GatheredAnswers:
        return self

    def take(self, connection: Connection, kept_bytes: int) -> None:
        """An answer to this connection is due, whose request kept so many bytes (``Connection.hold``)."""
        before = self._kept_bytes.get(connection)
        if before is None:
            before = 0
            if connection.gather():
                self._began.append(connection)
        self._kept_bytes[connection] = before + kept_bytes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._began:
            try:
                connection.write_gathered()
            except Exception:
                log.exception("the answers to %s could not be written", connection.remote_address)
                connection.abort()
        for connection, kept_bytes in self._kept_bytes.items():
            connection.release(kept_bytes)
