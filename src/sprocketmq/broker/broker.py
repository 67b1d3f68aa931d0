# SPDX-License-Identifier: Apache-2.0
"""The broker as users start it: its arguments, and which handler serves which request (Java: BrokerStartup).

    connection --command--> the gate, with access control --> handlers/<family>(broker, connection, command, now)

The table of handlers is made here, above handlers and ``BrokerController``, so that handlers can import the controller that they get.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from sprocketmq.broker.controller import BrokerController
from sprocketmq.broker.delivery.parked import PullRequest
from sprocketmq.broker.handlers import handler_table, with_interceptor
from sprocketmq.broker.handlers.messages.pull import handle_pull
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.listening import limits_of
from sprocketmq.broker.security.access import with_access_checks
from sprocketmq.broker.security.name_checks import ACCEPTED_NAMES, NAMES_IN, refusal_of_names
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.errors import RocketMQError, StoreError
from sprocketmq.extras import needs_extra
from sprocketmq.net.address import packed_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import Clock, watch
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.server import Server
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.requests.declaration import Peer
from sprocketmq.wire.requests.readers import READERS

_SENDS: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


class Broker(BrokerController):
    """A broker for clients of Apache RocketMQ 4.9 and 5.x, and for ours.

    Args:
        namesrv_addr: name servers to register with, ``host:port``, several joined by ``;``. Default: ``config``, else the environment
            variable ``NAMESRV_ADDR``; without any the broker serves clients that know its address.
        host: address to listen on, 127.0.0.1 by default.
        port: 10911 by default; 0 takes any free one, see :attr:`port` after the start.
        store_dir: directory of messages and configuration in Apache RocketMQ's format; None (default) keeps everything in memory.
        broker_name, cluster_name: as clients and tools see them; ``broker-a`` and ``DefaultCluster`` by default.
        clock: time of everything but sockets; the machine's by default, a ManualClock in tests.
        config: further settings, see :class:`BrokerConfig`; arguments given here win.
        engine: an :class:`~sprocketmq.net.process.engine.Engine` to run on; a thread of its own by default.
        config_file: the properties file that ``config`` was read from: settings that a tool changes while the broker runs are changed
            there, too. Without one such a change lasts until the next start.

    Use ``start()`` and ``stop()`` or ``with`` from blocking code, ``astart()`` and ``astop()`` or ``async with`` inside a loop. Set
    ``intercept`` to a function ``(connection, command, handler) -> answer`` to intercept every request.

    Raises:
        ConfigurationError: an argument is out of range; at the start: the port is taken.
        StoreError: at the start: the directory is locked, not writable, or holds something that is not a store.
    """

    def __init__(
        self,
        namesrv_addr: str | None = None,
        host: str | None = None,
        port: int | None = None,
        store_dir: str | os.PathLike[str] | None = None,
        broker_name: str | None = None,
        cluster_name: str | None = None,
        *,
        clock: Clock | None = None,
        config: BrokerConfig | None = None,
        engine: Engine | None = None,
        config_file: str | os.PathLike[str] | None = None,
    ) -> None:
        # NumPy and lark are imported with the first request that needs them, which is too late to report that they are not installed.
        needs_extra("the broker", "broker", "lark", "numpy", "yaml")
        given: dict[str, Any] = {
            "namesrv_addr": namesrv_addr,
            "bind_address": host,
            "listen_port": port,
            "store_path_root_dir": None if store_dir is None else os.fspath(store_dir),
            "broker_name": broker_name,
            "broker_cluster_name": cluster_name,
        }
        given = {field: value for field, value in given.items() if value is not None}
        settings = BrokerConfig(**{**msgspec.structs.asdict(config or BrokerConfig()), **given})
        super().__init__(settings, clock, engine, None if config_file is None else Path(config_file))
        # The handlers; with access control, every request passes the gate first.
        self._unchecked_handlers = self._handlers = handler_table()
        requests.check_handlers(Peer.BROKER, self._handlers)
        if self._access is not None:
            self._handlers = with_access_checks(self._unchecked_handlers, self._access)

    def _new_server(self) -> Server:
        server = Server(
            self._handle,
            on_open=self._connection_opened,
            on_close=self.connection_closed,
            readers=READERS,
            slow=self.slow_requests,
            tls=self._tls,
            limits=limits_of(self.config),
            queued=self.queued_bytes,
        )
        watch(self.clock, server)
        return server

    async def _stop(self) -> None:
        for code in (*_SENDS, *_PULLS):
            self._handlers[code] = _refuse_while_stopping
        await super()._stop()

    def _handle(self, connection: Connection, command: Command, is_intercepted: bool = False) -> Command | None:
        if self.intercept is not None and not is_intercepted:
            return self._ask_interceptor(connection, command)
        handler = self._handlers.get(command.code)
        if handler is None:
            remark = f"request code {command.code} is not served by this broker"
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        header = command.typed_header
        # The same look as in refusal_of_names, without a call: nearly all requests have names that were accepted before.
        if header is None or not ACCEPTED_NAMES.issuperset(NAMES_IN[type(header)](header)):
            refusal = refusal_of_names(command)
            if refusal is not None:
                return refusal
        try:
            return handler(self, connection, command, self.clock.now_ms())
        except StoreError as error:  # no space, a failed disk: the client may try another broker
            return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))

    def before_request(self, code: int, look: Callable[[Connection, Command], Command | None]) -> None:
        """Call ``look`` with each request with ``code`` that access control allowed. If it returns an answer, the handler is not called."""
        unchecked = self._unchecked_handlers
        if code in unchecked:
            unchecked[code] = with_interceptor(unchecked[code], look)

    def _answer_pull_again(self, pull: PullRequest) -> None:
        connection, command = pull.connection, pull.command
        if connection.is_closed:
            return
        if connection.is_congested:  # its peer does not read: the messages stay in the store until it does
            connection.when_writable(lambda: self.parked.again(pull))
            return
        group = pull.header.consumer_group
        try:
            if group not in self.groups:  # deleted while the pull waited; a lookup would create it again
                connection.send(unknown_group(command, group))
                return
            answer = handle_pull(self, connection, command, self.clock.now_ms(), pull.header)
        except RocketMQError as error:
            answer = response(command, ResponseCode.SYSTEM_ERROR, str(error))
        if answer is not None:
            connection.send(answer)

    def _connection_opened(self, connection: Connection) -> None:
        connection.state["born_host"] = packed_address(connection.peer)


def _refuse_while_stopping(broker: BrokerController, connection: Connection, command: Command, now_ms: int) -> Command:
    remark = f"broker {broker.config.broker_name} is stopping; use another one, or try again later"
    return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark)
