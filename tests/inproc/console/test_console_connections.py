# SPDX-License-Identifier: Apache-2.0
"""Connections to a console have limits: what sends no request, half a request, or does not read, is closed."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from console_server import DEADLINE_S, RunningConsole
from sprocketmq.console import bounded_http
from sprocketmq.console.safety.sessions import MOST_STREAMS, Sessions
from sprocketmq.net.process import descriptors


@pytest.fixture
def opened(console: RunningConsole) -> Iterator[list[socket.socket]]:
    found: list[socket.socket] = []
    yield found
    for one in found:
        one.close()


def connect(console: RunningConsole, opened: list[socket.socket], sent: bytes = b"") -> socket.socket:
    host, _, port = console.server.address.rpartition(":")
    one = socket.create_connection((host, int(port)), DEADLINE_S)
    opened.append(one)
    one.sendall(sent)
    return one


def is_closed(one: socket.socket) -> bool:
    """Waits for the peer to close, or to answer."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_whole_request_is_closed(sent, console, opened, monkeypatch):
    monkeypatch.setattr(bounded_http, "REQUEST_WITHIN_S", 0.2)
    one = connect(console, opened, sent)
    while not is_closed(one):
        pass


def test_a_silent_connection_makes_room_for_a_browser(console, opened, monkeypatch):
    monkeypatch.setattr(bounded_http, "MOST_CONNECTIONS", 8)
    silent = [connect(console, opened) for _ in range(20)]
    assert httpx.get(console.base, timeout=DEADLINE_S).status_code == 401
    assert all(map(is_closed, silent[:11]))
    share = descriptors.connection_share()
    monkeypatch.setattr(share, "limit", share._open)  # the rest of the process has all descriptors
    assert httpx.get(console.base, timeout=DEADLINE_S).status_code == 401
    assert is_closed(silent[12])


def test_a_session_has_few_streams(console, monkeypatch):
    sessions = console.server._parts.sessions  # type: ignore[union-attr]
    (session,) = [one for one in sessions._sessions.values() if one.key in console.browser.cookies.values()]
    for _ in range(MOST_STREAMS):
        assert sessions.take_stream(session)
    with console.browser.stream("GET", "/events") as refused:
        lines = list(refused.iter_lines())  # it ends
    assert lines[0] == "retry: 60000"
    assert not any(line.startswith("event") for line in lines)
    for _ in range(MOST_STREAMS):
        sessions.give_stream_back(session)
    with console.browser.stream("GET", "/events") as stream:
        assert next(stream.iter_lines()) == "retry: 3000"
        assert session.streams == 1


def test_all_streams_together_leave_room_for_pages():
    sessions = Sessions(None, lambda: 0.0)
    taken = 0
    while (session := sessions.open(sessions.token)) is not None and sessions.take_stream(session):
        while sessions.take_stream(session):
            taken += 1
    assert taken < bounded_http.MOST_CONNECTIONS / 2 + 1
