# SPDX-License-Identifier: Apache-2.0
"""Serving a console on a running loop, alone or together with other tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

from sprocketmq.console.app import make_app
from sprocketmq.console.bounded_http import BoundedHttp
from sprocketmq.console.cluster import Cluster
from sprocketmq.console.pages.page import ConsoleParts, now_ms
from sprocketmq.console.safety.audit import Audit
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.safety.sessions import Sessions
from sprocketmq.console.settings import ConsoleSettings
from sprocketmq.console.show.templates import Templates
from sprocketmq.console.watch.watcher import Watcher
from sprocketmq.errors import ConfigurationError

log = logging.getLogger("sprocketmq.console")

_LEAVE_WITHIN_S: Final = 3


class _Reason(logging.Filter):
    """Keeps the last error that uvicorn logs, instead of logging it: it becomes the end of the console's own error."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            error: Any = record.msg
            # asyncio's text names the address again; a number below 0 is of the name's lookup (EAI_NONAME)
            number = error.errno or 0 if isinstance(error, OSError) else 0
            self.text = os.strerror(number) if number > 0 else record.getMessage()
        return record.levelno < logging.ERROR


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers. ``tried``: set when it listens, or when it failed; ``reason`` is the error then."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.tried = asyncio.Event()
        self.reason = ""

    async def startup(self, sockets: list[Any] | None = None) -> None:
        reason, logger = _Reason(), logging.getLogger("uvicorn.error")
        logger.addFilter(reason)
        try:
            await super().startup(sockets)
        finally:
            logger.removeFilter(reason)
            self.reason = reason.text
            self.tried.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ConsoleServer:
    """Start and stop it on a running loop. Raises ConfigurationError (the token is too short, or the audit file cannot be written)."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._sessions = Sessions(settings.token, time.monotonic)
        self._audit = Audit(settings.audit_file, now_ms, settings.options.get("access_key"))
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._parts: ConsoleParts | None = None
        self._port = settings.port
        self.ready, self.ended = asyncio.Event(), asyncio.Event()

    @property
    def address(self) -> str:
        """``host:port``; after the start with the port that was bound."""
        host = self._settings.host
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def link(self) -> str:
        """The link for a browser. It contains the token, so give it only to those who may use the console."""
        return f"http://{self.address}/?token={self._sessions.token}"

    @property
    def announced(self) -> str:
        """The link for the line "ready". A token from the settings is left out, because that line may be in a service's log."""
        return self.link if self._settings.token is None else f"http://{self.address}/"

    async def astart(self) -> ConsoleServer:
        """Listen, and begin to query the cluster. Raises ConfigurationError (it cannot listen on the address)."""
        settings = self._settings
        cluster, mask = Cluster(settings.options, settings.limit_ms), Mask(settings.masks)
        parts = self._parts = ConsoleParts(
            settings,
            cluster,
            Watcher(cluster, now_ms, settings.interval_ms, mask),
            self._sessions,
            mask,
            self._audit,
            Templates(cluster_name=cluster.name, allow_changes=settings.allow_changes),
            # A cookie is valid for all ports of a host, so two consoles on one host need different names.
            f"sprocketmq_console_{secrets.token_hex(4)}",
        )
        self._server = _Server(
            uvicorn.Config(
                make_app(parts),
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                # Only a proxy may set the address of the browser, because it is part of the audit log.
                proxy_headers=bool(settings.allowed_hosts),
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=_LEAVE_WITHIN_S,
                http=BoundedHttp,
            )
        )
        self._serving = asyncio.ensure_future(self._serve(self._server))
        await self._server.tried.wait()
        if not self._server.started:
            await cluster.shutdown()
            raise ConfigurationError(
                f"the console cannot listen on {self.address} ({self._server.reason}); choose another port, or 0 for any free one"
            )
        self._port = self._server.servers[0].sockets[0].getsockname()[1]
        if not settings.is_local:
            log.warning("the console listens on %s without TLS: everybody on the way can read its token", self.address)
        parts.watcher.start()
        self.ready.set()
        return self

    async def _serve(self, server: _Server) -> None:
        # Uvicorn calls sys.exit if it cannot listen.
        with contextlib.suppress(SystemExit):
            await server.serve()

    async def astop(self) -> None:
        if self._server is not None and self._serving is not None and self._parts is not None:
            await self._parts.watcher.close()
            self._server.should_exit = True
            await self._serving
            await self._parts.cluster.shutdown()
            self._server = None
        self.ended.set()
