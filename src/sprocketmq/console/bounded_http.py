# SPDX-License-Identifier: Apache-2.0
"""Connections of browsers with limits, which uvicorn does not have: it waits for ever for the first request, and for the rest of one.

At most ``MOST_CONNECTIONS`` are open, and no more than the process has descriptors for (``net.process.descriptors``). For a new one the
oldest that has sent no request is closed; if all have, the new one is closed. All of a request arrives within ``REQUEST_WITHIN_S``. A peer
that does not read is closed after ``READ_WITHIN_S``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sprocketmq.net.process.descriptors import connection_share

MOST_CONNECTIONS: Final = 128
REQUEST_WITHIN_S: Final = 15.0
READ_WITHIN_S: Final = 60.0


class BoundedHttp(H11Protocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._share = connection_share()
        self._is_counted = False
        self._sends_by: asyncio.TimerHandle | None = None
        self._reads_by: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= MOST_CONNECTIONS or not self._share.has_room():
            silent = [one for one in self.connections if isinstance(one, BoundedHttp) and one.cycle is None]
            if silent:
                min(silent, key=lambda one: one.opened_s).close_now()
        self.opened_s = self.loop.time()
        super().connection_made(transport)
        self._is_counted = len(self.connections) <= MOST_CONNECTIONS and self._share.take()
        if self._is_counted:
            self._wait_for_request()
        else:
            self.close_now()

    def close_now(self) -> None:
        self.connections.discard(self)
        self._give_back()
        self.transport.abort()

    def _give_back(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._share.give_back()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_back()
        for timer in (self._sends_by, self._reads_by):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Begin to wait for a request or the rest of it, go on, or end to: bytes in between do not prolong the time."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            if self._sends_by is not None:
                self._sends_by.cancel()
                self._sends_by = None
        elif self._sends_by is None and not self.transport.is_closing():
            self._sends_by = self.loop.call_later(REQUEST_WITHIN_S, self.close_now)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reads_by is None:
            self._reads_by = self.loop.call_later(READ_WITHIN_S, self.close_now)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reads_by is not None:
            self._reads_by.cancel()
            self._reads_by = None
