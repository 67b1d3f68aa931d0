# SPDX-License-Identifier: Apache-2.0
"""Every exception of SprocketMQ, as one tree.

    RocketMQError
    |-- ConfigurationError (ValueError)     the caller's mistake: a bad option, name, topic or message; nothing was sent
    |-- ClosedError                         used before start() or after shutdown()
    |-- RemoteError                         the broker or name server answered "no": .code, .remark, .address
    |   |-- TopicNotExist                   code 17: no route, or the broker does not know the topic
    |   |-- GroupNotExist                   code 26
    |   |-- NoPermission                    code 16
    |   |   `-- SignatureRefused            made with the keys of a file, which may be renewed at this moment: try again later
    |   |-- SystemBusy                      code 2: overloaded, try again later
    |   `-- RequestNotServed                code 3 of a proxy, which serves fewer requests than brokers and name servers
    |-- NetworkError (ConnectionError)      no answer could be had: .address
    |   |-- ConnectFailed                   nobody listens there, unknown host, refused
    |   `-- ConnectionLost                  the connection broke while a request was in flight
    |-- RequestTimeout (TimeoutError)       no answer in time: .address, .timeout_ms; the request may have been carried out
    |-- TooMuchRequest                      more sends are under way than back-pressure allows; nothing was sent
    |-- ValueDeserializationError (ValueError)  the body of a received message is not what the value_deserializer reads
    |-- ProtocolError                       bytes that break the remoting protocol; costs the connection, never the process
    |   `-- FrameTooLarge
    `-- StoreError                          the broker's own files
        |-- StoreLocked                     another process has the directory
        |-- StoreCorrupt                    a file breaks the format where the format cannot be repaired
        `-- StoreNotWritable                no permission, disk full, or shut down

Any other exception that leaves this package is a bug. A message is one sentence: what was given, what is allowed, what to do.
"""

from __future__ import annotations


class RocketMQError(Exception):
    """Root of everything that this package raises on purpose."""


class ConfigurationError(RocketMQError, ValueError):
    """The caller's mistake, found before anything was sent or written."""


class ValueDeserializationError(RocketMQError, ValueError):
    """The body of a received message is not what the ``value_deserializer`` reads; ``__cause__`` is what it raised.

    In a listener it is a failure as any other: the message is retried. Its last try makes it a dead letter with this text as its reason.
    """


class ClosedError(RocketMQError):
    """The object was used before start() or after shutdown()."""


class RemoteError(RocketMQError):
    """A broker or name server answered with a failure code.

    Use :func:`remote_error` to get the subclass that fits a code.

    Args:
        code: the response code of the remoting protocol; an attribute, as the others.
        remark: the server's text; None if there is none.
        address: the server that answered, ``host:port``.
    """

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f" from {address}" if address else ""
        super().__init__(f"code {code}{where}: {self.remark or 'no remark'}")

    def __reduce__(self) -> tuple[type[RemoteError], tuple[int, str, str]]:
        return type(self), (self.code, self.remark, self.address)


class TopicNotExist(RemoteError):
    """The topic does not exist (response code 17)."""


class GroupNotExist(RemoteError):
    """The consumer group does not exist (response code 26)."""


class NoPermission(RemoteError):
    """Access control refused the request (response code 16)."""


class SignatureRefused(NoPermission):
    """The signature is wrong, and was made with the keys of a file, which may have changed (response code 16; 1 of a 4.9 broker)."""


class SystemBusy(RemoteError):
    """The broker is busy; try again later (response code 2)."""


class RequestNotServed(RemoteError):
    """The proxy does not serve this request (response code 3); the text says which one, and what to use."""

    def __str__(self) -> str:
        return self.remark


_BY_CODE: dict[int, type[RemoteError]] = {2: SystemBusy, 16: NoPermission, 17: TopicNotExist, 26: GroupNotExist}


def remote_error(code: int, remark: str | None, address: str = "") -> RemoteError:
    """The RemoteError, or its subclass, for a response code."""
    return _BY_CODE.get(code, RemoteError)(code, remark, address)


class NetworkError(RocketMQError, ConnectionError):
    """There is no answer from ``address``.

    Args:
        message: the text of the error.
        address: ``host:port``; an attribute.
    """

    def __init__(self, message: str, address: str = "") -> None:
        self.address = address
        super().__init__(message)


class ConnectFailed(NetworkError):
    """The connection could not be opened."""


class ConnectionLost(NetworkError):
    """The connection broke while a request was in flight; the request may have been carried out."""


class RequestTimeout(RocketMQError, TimeoutError):
    """No answer within ``timeout_ms``; the request may have been carried out.

    Args:
        message: the text of the error.
        address: ``host:port``; an attribute.
        timeout_ms: how many milliseconds were waited; an attribute.
    """

    def __init__(self, message: str, address: str = "", timeout_ms: int = 0) -> None:
        self.address = address
        self.timeout_ms = timeout_ms
        super().__init__(message)


class TooMuchRequest(RocketMQError):
    """More sends are under way than back-pressure allows, and none ended in time; nothing was sent. Send slower, or wait for results."""


class ProtocolError(RocketMQError):
    """Bytes that break the remoting protocol or the record format."""


class FrameTooLarge(ProtocolError):
    """A frame announces more bytes than the limit allows."""


class StoreError(RocketMQError):
    """The broker's own files cannot be used as they are."""


class StoreLocked(StoreError):
    """Another process holds the lock of the store directory."""


class StoreCorrupt(StoreError):
    """A store file breaks the format in a way that recovery must not repair by guessing."""


class StoreNotWritable(StoreError):
    """The store takes no messages now: no permission, no space, or shut down."""


def described(error: BaseException) -> str:
    """The type and text of an exception that somebody else's code raised. Its text may raise as well; then that is said instead."""
    try:
        text = str(error)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the first exception must not be lost to it
        text = f"its text cannot be had ({type(problem).__name__})"
    return f"{type(error).__name__}: {text}"
