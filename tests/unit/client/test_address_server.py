# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sprocketmq.client.remoting.name_servers import _first_line, _shown


class Page(BaseHTTPRequestHandler):
    """``/list`` asks for a password, and ``/old`` leads to ``/list``, ``/round`` to itself."""

    def do_GET(self) -> None:
        to = {"/old": "/list", "/round": "/round"}.get(self.path)
        asked = self.path == "/list" and self.headers["Authorization"] != "Basic bWU6czNjcmV0"  # me:s3cret
        body = b"a:9876\n"
        self.send_response(302 if to else 401 if asked else 200)
        if to:
            self.send_header("Location", f"http://me:s3cret@{self.headers['Host']}{to}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_page_behind_a_redirect_and_a_password():
    with served() as host:
        assert _first_line(f"http://me:s3cret@{host}/list") == "a:9876"
        assert _first_line(f"http://{host}/old") == "a:9876"
        with pytest.raises(ValueError, match="401"):
            _first_line(f"http://{host}/list")
        with pytest.raises(ValueError, match="302"):
            _first_line(f"http://{host}/round")


def test_the_password_is_not_shown():
    assert _shown("http://me:s3cret@pages:8080/ns?a=1") == "http://pages:8080/ns?a=1"
