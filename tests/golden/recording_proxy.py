# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that hands every whole remoting frame it passes on to a recorder. Used by capture.py only, between two Java peers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

OnFrame = Callable[[str, int, bool, bytes], None]


class RecordingProxy:
    """Listens on a port of 127.0.0.1, connects each caller on to `target`.

    Args:
        link: name of what runs through here, handed to `on_frame`.
        target: "host:port" of the server behind.
        on_frame: called with (link, connection number, from the caller?, frame) before a frame is passed on.
        rewrite: equal-length byte replacements for what the server answers, so that its callers come back through a proxy.
    """

    def __init__(self, link: str, port: int, target: str, on_frame: OnFrame, rewrite: dict[bytes, bytes]) -> None:
        assert all(len(old) == len(new) for old, new in rewrite.items()), "a frame must keep its length"
        self.link = link
        self.address = f"127.0.0.1:{port}"
        self._target = target
        self._on_frame = on_frame
        self._rewrite = rewrite
        self._connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, name=f"proxy-{link}", daemon=True).start()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def __enter__(self) -> RecordingProxy:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return  # closed
            host, port = self._target.rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                caller.close()
                continue
            self._connections += 1
            self._open += [caller, server]
            for source, sink, from_caller in ((caller, server, True), (server, caller, False)):
                args = (self._connections, source, sink, from_caller)
                threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(self, number: int, source: socket.socket, sink: socket.socket, from_caller: bool) -> None:
        with contextlib.suppress(OSError):
            stream = source.makefile("rb")
            while length := stream.read(4):
                frame = length + stream.read(int.from_bytes(length, "big"))
                self._on_frame(self.link, number, from_caller, frame)
                if not from_caller:
                    for old, new in self._rewrite.items():
                        frame = frame.replace(old, new)
                sink.sendall(frame)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
