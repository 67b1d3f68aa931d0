# SPDX-License-Identifier: Apache-2.0
"""Connections to many addresses, opened on demand, one per address (Java: NettyRemotingClient's channel table). Callers that need the
same address wait for one connect. A broken connection is removed at once, and the next call opens a new one. After a fork the child's
copy of a pool is closed."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from sprocketmq.errors import (
    ClosedError,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    RequestTimeout,
    SignatureRefused,
)
from sprocketmq.net.connection import CLIENT_ANSWER_READERS, SILENCE, Connection, RequestHandler, close_all
from sprocketmq.net.output.queued_bytes import QueuedBytes
from sprocketmq.net.process import fork
from sprocketmq.net.tls_reads import TlsReads, read_buffer
from sprocketmq.net.waiting_line import WaitingLine
from sprocketmq.troubles import Troubles
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command

if TYPE_CHECKING:
    from sprocketmq.wire.frames.acl_signature import Credentials

# NettyClientConfig.connectTimeoutMillis
CONNECT_TIMEOUT_MS: Final = 3_000
# NettyRemotingClient.MIN_CLOSE_TIMEOUT_MILLIS: what is left for the last try of a send can be too short for any answer.
_SILENT_S: Final = 0.1
# A key of a connection's state: when it was opened, until something has arrived.
_UNHEARD: Final = "unheard"
_TLS_ONLY: Final = "it had answered nothing yet: if that port takes TLS only, connect with TLS, as with tls=True"
# The response codes of refused requests: of 4.9 for every refusal, and of 5.x and ours.
_REFUSALS: Final = (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION)
# Apache: PlainPermissionManager (4.9), DefaultAuthenticationHandler (5.x); and ours.
_OF_SIGNATURES: Final = re.compile(
    r"\b[Cc]heck signature failed|\bthe signature of (?:access key|user) \S+ does not fit\b"
)


def split_address(address: str, what: str = "address") -> tuple[str, int]:
    """``host:port`` as (host, port); IPv6 hosts in brackets. Raises ConfigurationError (no port, or not 1..65535)."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigurationError(
            f"{what} is {address!r}, host:port with a port from 1 to 65535 is allowed, as in 127.0.0.1:9876"
        )
    return host.strip("[]"), int(port)


class RenewableCredentials(Protocol):
    def current(self) -> Credentials: ...

    def reread(self) -> None:
        """Read the credentials again, because a signature was refused."""
        ...


class ConnectionPool:
    """All outgoing connections of one client instance or broker. Belongs to one loop.

    Args:
        credentials: used to sign requests. With RenewableCredentials a refused request is signed again if the keys have changed.
        namespace: added to requests (version 2 of namespaces).
        on_lost: called with the address and the error when no connection could be opened, and when a request fails because its connection
            broke or stayed silent.
        on_heard: called with the address when a connection has its first answer.
        troubles: where connections tell what is wrong with their bytes.
        on_reopen: called with the address of one that is there again after it was lost.
    """

    def __init__(
        self,
        handler: RequestHandler | None = None,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        ssl_context: ssl.SSLContext | None = None,
        credentials: Credentials | RenewableCredentials | None = None,
        namespace: str | None = None,
        on_reopen: Callable[[str], None] | None = None,
        on_lost: Callable[[str, Exception], None] = lambda address, error: None,
        on_heard: Callable[[str], None] = lambda address: None,
        troubles: Troubles | None = None,
    ) -> None:
        self._handler, self._troubles = handler, troubles or Troubles(logging.getLogger("sprocketmq.net"))
        self._connect_timeout_ms = connect_timeout_ms
        self._ssl_context = ssl_context
        self._tls_buffer = None if ssl_context is None else read_buffer()
        self._renewable, self._signer = _signing(credentials)
        self._fixed = None if self._renewable is not None else cast("Credentials | None", credentials)
        self.added_fields: Mapping[str, str] = {}  # to each request, before it is signed
        if namespace is not None:
            # 5.x; Java: NamespaceRpcHook
            self.added_fields = {"nsd": "true", "ns": namespace}
            self._signer = _adding(self.added_fields, self._signer)
        self._on_reopen, self._on_lost, self._on_heard = on_reopen, on_lost, on_heard
        self._lost: set[str] = set()
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, _Opening] = {}  # connecting, or with callers that have not continued yet
        self._closed = False
        self._forked = False
        fork.register(self)

    @property
    def addresses(self) -> list[str]:
        return [address for address, connection in self._open.items() if not connection.is_closed]

    @property
    def connections(self) -> Collection[Connection]:
        return list(self._open.values())

    calls = frozenset[object]()  # for a manual clock, as is_busy

    @property
    def is_busy(self) -> bool:
        """Whether a connection is being opened, or an answer is on its way; for a manual clock."""
        return bool(self._opening) or any(connection.awaits_answer for connection in self.connections)

    @property
    def credentials(self) -> Credentials | None:
        """The credentials with which a request is signed now; the same object until they change. None: nothing is signed."""
        return self._fixed if self._renewable is None else self._renewable.current()

    @property
    def is_plain(self) -> bool:
        """Whether requests leave as they are: nothing is added, nothing is signed."""
        return self._signer is None

    def refuses_renewable(self, answer: Command) -> bool:
        """Whether ``answer`` refuses a signature whose keys may have changed: ``invoke`` sends the request with the newest ones."""
        return self._renewable is not None and _is_refused_signature(answer)

    def open_connection(self, address: str) -> Connection | None:
        """The connection to ``address`` if encoded frames, with ``added_fields`` and signed with ``credentials``, can be written to it
        now."""
        if address in self._opening:  # others wait for it and go first
            return None
        connection = self._open.get(address)
        return connection if connection is not None and connection.takes_frames else None

    async def connection(self, address: str, timeout_ms: int | None = None) -> Connection:
        """The connection to ``address``, opened if there is none. ``timeout_ms``: how long this caller waits, if that is less than the
        connect timeout; connecting continues for others. Raises ConnectFailed, ConfigurationError (the address is not host:port)."""
        opening, connection = self._opening.get(address), self._open.get(address)
        is_there = connection is not None and not connection.is_closed
        if opening is None and is_there:
            assert connection is not None
            return connection
        if opening is None or (opening.line.is_open and not is_there):
            # A failed or lost attempt must not count for new callers, even if callers that it woke have not continued yet: two callers
            # that retry at once would otherwise keep it forever.
            opening = self._begin(address)
        try:
            is_there = await opening.line.wait(timeout_ms)
        finally:
            self._end(address, opening)
        if not is_there:
            raise ConnectFailed(f"no connection to {address} within {timeout_ms} ms; is it up and reachable?", address)
        if opening.task.cancelled():
            raise ClosedError("the client was shut down")
        try:
            return opening.task.result()
        finally:
            del opening  # its task holds the error, whose traceback holds this frame

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        """Send a request to ``address`` and wait; ``timeout_ms`` covers everything: connecting, a peer that does not read, the answer.
        Raises as ``connection`` and ``Connection.invoke``; SignatureRefused: the newest keys of RenewableCredentials were refused (with
        fixed credentials the refusal is returned)."""
        now_s = asyncio.get_running_loop().time
        connection = self._open.get(address)
        if connection is None or connection.is_closed or address in self._opening:
            began_s = now_s()
            connection = await self.connection(address, timeout_ms)
            timeout_ms = max(1, timeout_ms - int((now_s() - began_s) * 1000))
        asked_s = now_s()
        try:
            answer = await connection.invoke(command, timeout_ms)
            if self._renewable is not None and _is_refused_signature(answer):
                # A refused request was not executed, so it may be sent again.
                left_ms = max(1, timeout_ms - int((now_s() - asked_s) * 1000))
                answer = await self._signed_again(connection, command, answer, left_ms, self._renewable)
        except RequestTimeout as error:
            self.close_if_silent(address, connection, asked_s, error)
            raise
        except ConnectionLost as error:
            if not self._closed:
                self._on_lost(address, error)
            is_unheard = connection.state.get(_UNHEARD) == connection.last_read_s and SILENCE not in connection.state
            if self._ssl_context is None and is_unheard:
                # Its frames lead to those of the callers, which hold what gets this error (Python 3.12: frame.f_back).
                raise ConnectionLost(f"{error}; {_TLS_ONLY}", address) from error.with_traceback(None)
            raise
        if connection.state and connection.state.pop(_UNHEARD, None) is not None:
            self._on_heard(address)
        return answer

    @staticmethod
    async def _signed_again(
        connection: Connection, command: Command, refusal: Command, timeout_ms: int, keys: RenewableCredentials
    ) -> Command:
        # Other requests may have read the new keys meanwhile, so check whether this one would now be signed differently.
        from sprocketmq.wire.frames.command import SIGNATURE

        refused = command.ext_fields.get(SIGNATURE)
        keys.reread()
        if connection.signer is not None:
            connection.signer(command)
        if command.ext_fields.get(SIGNATURE) != refused:
            refusal = await connection.invoke(command, timeout_ms)
            if not _is_refused_signature(refusal):
                return refusal
        raise SignatureRefused(refusal.code, refusal.remark, connection.remote_address)

    async def invoke_oneway(self, address: str, command: Command, timeout_ms: int | None = None) -> None:
        """Send a one-way request. Raises as ``connection`` and ``Connection.invoke_oneway``; ``timeout_ms`` limits both together."""
        if timeout_ms is None:
            await (await self.connection(address)).invoke_oneway(command)
            return
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        connection = await self.connection(address, timeout_ms)
        await connection.invoke_oneway(command, max(1, timeout_ms - int((now_s() - began_s) * 1000)))

    def close_if_silent(self, address: str, connection: Connection, started_s: float, error: Exception) -> None:
        """After a timeout: close a connection on which nothing has arrived since ``started_s``, for 100 ms at least (Java:
        clientCloseSocketIfTimeout). Otherwise a host that disappeared silently would never be reconnected. Unsent requests are lost; their
        callers get an error at once."""
        if connection.last_read_s <= started_s and connection.now_s() - started_s >= _SILENT_S:
            if self._open.get(address) is connection:
                del self._open[address]
                self._lost.add(address)
                self._on_lost(address, error)
            connection.state[SILENCE] = str(error)
            connection.abort()

    def close_connection(self, address: str) -> None:
        self._lost.discard(address)
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def close_unused(self, most: int, *, but: str) -> None:
        """Close connections while more than ``most`` are open, except that to ``but``: those that were silent for the longest time, and no
        connection that waits for an answer."""
        if but in self._open or len(self._open) <= most:
            return
        unused = sorted(
            (connection.last_read_s, address)
            for address, connection in self._open.items()
            if not connection.awaits_answer
        )
        for _, address in unused[: len(self._open) - most]:
            self.close_connection(address)

    async def aclose(self) -> None:
        """Close all connections; later calls raise ClosedError."""
        self._closed = True
        tasks = [opening.task for opening in self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        closing = list(self._open.values())
        self._open.clear()
        await close_all(closing)

    def after_fork_in_child(self) -> None:
        self._closed = self._forked = True
        self._inherited, self._open = (self._open, self._opening), {}
        self._opening = {}
        for connection in self._inherited[0].values():
            connection.after_fork_in_child()

    def _begin(self, address: str) -> _Opening:
        if self._closed:
            raise ClosedError(fork.FORKED if self._forked else "the client was shut down")
        opening = self._opening[address] = _Opening(asyncio.ensure_future(self._connect(address)), WaitingLine())
        opening.task.add_done_callback(lambda task: self._opened(address, opening))
        return opening

    def _end(self, address: str, opening: _Opening) -> None:
        """Remove the entry after all its callers have continued or given up."""
        if opening.line.is_open and not opening.line.length and self._opening.get(address) is opening:
            del self._opening[address]

    async def _connect(self, address: str) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()

        def make() -> Connection | TlsReads:
            connection = Connection(
                self._handler,
                on_close=lambda gone: self._forget(address, gone),
                answer_readers=CLIENT_ANSWER_READERS,
                queued=QueuedBytes(troubles=self._troubles),
            )
            return connection if self._tls_buffer is None else TlsReads(connection, self._tls_buffer)

        opening = loop.create_connection(make, host, port, ssl=self._ssl_context)
        try:
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                _, protocol = await opening
        except TimeoutError as error:
            speaks = "" if self._ssl_context is None else ", and does it speak TLS"
            raise ConnectFailed(
                f"no connection to {address} within {self._connect_timeout_ms} ms; is it up and reachable{speaks}?",
                address,
            ) from error.with_traceback(None)
        except socket.gaierror as error:
            raise ConnectFailed(
                f"host {host!r} of address {address} is unknown: {error.strerror}; check the spelling", address
            ) from error.with_traceback(None)
        except OSError as error:
            raise ConnectFailed(_connect_error(address, error, tls=self._ssl_context is not None), address) from (
                error.with_traceback(None)  # its frames are the loop's
            )
        connection = protocol.connection if isinstance(protocol, TlsReads) else protocol
        connection.signer = self._signer
        connection.state[_UNHEARD] = connection.last_read_s
        return connection

    def _opened(self, address: str, opening: _Opening) -> None:
        task = opening.task
        if task.cancelled():
            pass
        elif (error := task.exception()) is not None:
            if isinstance(error, ConnectFailed) and not self._closed:
                self._on_lost(address, error)
        else:
            connection = task.result()
            if self._closed:
                connection.close()
            elif not connection.is_closed:
                self._open[address] = connection
                if address in self._lost:
                    self._lost.discard(address)
                    if self._on_reopen is not None:
                        self._on_reopen(address)
        opening.line.open()
        self._end(address, opening)

    def _forget(self, address: str, connection: Connection) -> None:
        if self._open.get(address) is connection:
            del self._open[address]
            self._lost.add(address)


# By OpenSSL's X509_V_ERR numbers: not yet valid, expired, another host name, another IP address.
_NAME = "connect to a name or address that it is made out to"
_TO_TRUST: Final = {
    9: "compare the clocks of the two machines",
    10: "renew it at the server, or compare the clocks of the two machines",
    62: _NAME,
    64: _NAME,
}


def _connect_error(address: str, error: OSError, *, tls: bool) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        todo = _TO_TRUST.get(error.verify_code, "trust the authority that signed it")
        return f"the certificate of {address} is not trusted: {error.verify_message}; {todo}"
    # A server that does not speak TLS accepts the connection, and then closes it or answers something else.
    if tls and isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        reason = getattr(error, "reason", None) or error.strerror or "it closed the connection"
        return (
            f"the TLS handshake with {address} failed: {reason}; TLS and a plain port do not fit: connect without TLS, or to a port that "
            "speaks it"
        )
    return f"cannot connect to {address}: {error.strerror or error}; is a server listening there?"


class _Opening(NamedTuple):
    task: asyncio.Task[Connection]
    line: WaitingLine


def _signing(
    credentials: Credentials | RenewableCredentials | None,
) -> tuple[RenewableCredentials | None, Callable[[Command], None] | None]:
    """The credentials, if they can change, and the function that signs a request."""
    if credentials is None:
        return None, None
    from sprocketmq.wire.frames.acl_signature import Credentials, signed_fields
    from sprocketmq.wire.frames.command import SECURITY_TOKEN

    def add_signature(command: Command, keys: Credentials) -> None:
        command.ext_fields = signed_fields(
            command.ext_fields, command.body, keys.access_key, keys.secret_key, keys.security_token
        )

    if isinstance(credentials, Credentials):
        return None, lambda command: add_signature(command, credentials)

    def add_newest_signature(command: Command) -> None:
        if SECURITY_TOKEN in command.ext_fields:  # from the former keys
            del command.ext_fields[SECURITY_TOKEN]
        add_signature(command, credentials.current())

    return credentials, add_newest_signature


def _is_refused_signature(answer: Command) -> bool:
    """Whether a signature was refused, by the sentence: other refusals have the same codes, and topic names may contain any word."""
    return answer.code in _REFUSALS and _OF_SIGNATURES.search(answer.remark or "") is not None


def _adding(fields: Mapping[str, str], signer: Callable[[Command], None] | None) -> Callable[[Command], None]:
    def add(command: Command) -> None:
        command.ext_fields = {**command.ext_fields, **fields}
        if signer is not None:
            signer(command)

    return add
