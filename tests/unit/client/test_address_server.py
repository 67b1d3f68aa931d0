# SPDX-License-Identifier: Apache-2.0
"""The list of name servers that a page has."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import sprocketmq as rmq
from sprocketmq.client.remoting.name_servers import NameServers, _first_line, _shown
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request


class Page(BaseHTTPRequestHandler):
    """``/list`` asks for a password, and ``/old`` leads to ``/list``, ``/round`` to itself."""

    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        to = {"/old": "/list", "/round": "/round"}.get(self.path)
        asked = self.path == "/list" and self.headers["Authorization"] != "Basic bWU6czNjcmV0"  # me:s3cret
        self.send_response(302 if to else 401 if asked else self.server.status)
        if to:
            self.send_header("Location", f"http://me:s3cret@{self.headers['Host']}{to}")
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """What its page says, and which were asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.status, self.text, self.asked = 200, "", list[str]()
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Pool:
    """Stands in for the ConnectionPool: each name server answers."""

    addresses = ()

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        return command


def test_the_page_behind_a_redirect_and_a_password():
    with Server() as page:
        page.text = "a:9876\n"
        assert _first_line(f"http://me:s3cret@{page.host}/list") == "a:9876"
        assert _first_line(f"{page.url}/old") == "a:9876"
        with pytest.raises(ValueError, match="401"):
            _first_line(f"{page.url}/list")
        with pytest.raises(ValueError, match="302"):
            _first_line(f"{page.url}/round")


def test_the_password_is_not_shown():
    assert _shown("http://me:s3cret@pages:8080/ns?a=1") == "http://pages:8080/ns?a=1"


def test_an_address_server_is_asked_before_the_first_request_and_again_for_a_new_list():
    async def run(page: Server) -> None:
        servers = NameServers(Pool(), parse_addresses(f"{page.url}/rocketmq/nsaddr?unit=7"))  # type: ignore[arg-type]
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert not servers.is_fixed
        with pytest.raises(rmq.NetworkError, match="address server.*gave no list"):
            await servers.invoke(command, 10_000)
        page.text = "a:1;b:2\r\nnever mind the rest\n"
        await asyncio.gather(*(servers.invoke(command, 10_000) for _ in range(5)))
        assert len(page.asked) == 2, "five that wait for the list ask once"
        assert page.asked[0] == "/rocketmq/nsaddr?unit=7"
        first = servers.chosen
        page.text = f"c:3;{first}"
        await servers.reread()
        assert sorted(servers.addresses) == sorted(["c:3", first])
        assert servers.chosen == first, "who is still in the list stays chosen"
        for status, text in ((500, "d:4"), (200, ""), (200, "no port"), (200, f"{page.url}/list")):
            page.status, page.text = status, text
            await servers.reread()
            assert sorted(servers.addresses) == sorted(["c:3", first]), "what cannot be read changes nothing"
        page.status, page.text = 200, "d:4"
        await servers.reread()
        assert servers.chosen == "d:4"

    with Server() as page:
        asyncio.run(run(page))
