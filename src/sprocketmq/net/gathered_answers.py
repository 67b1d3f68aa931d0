# SPDX-License-Identifier: Apache-2.0
"""Answers that become ready at the same moment: one write for each connection instead of one for each answer."""

from __future__ import annotations

import logging
from types import TracebackType

from sprocketmq.net.connection import Connection

log = logging.getLogger("sprocketmq.net")


class GatheredAnswers:
    """Inside ``with``, answers to connections that were given to :meth:`take` are kept and written at the end, in order, all in one turn
    of the loop. The bytes that the connections hold for the requests are released after the write."""

    __slots__ = ("_began", "_kept_bytes")

    def __init__(self) -> None:
        self._kept_bytes: dict[Connection, int] = {}
        self._began: list[Connection] = []

    def __enter__(self) -> GatheredAnswers:
        return self

    def take(self, connection: Connection, kept_bytes: int) -> None:
        """Gather answers to this connection; ``kept_bytes`` of the request are released at the end (``Connection.hold``)."""
        try:
            self._kept_bytes[connection] += kept_bytes
        except KeyError:
            self._kept_bytes[connection] = kept_bytes
            if connection.gather():
                self._began.append(connection)

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
