# SPDX-License-Identifier: Apache-2.0
"""Faults for tests: what a network or a failing broker does to a request. A test asks for a fault by request code.

The injector sits in front of the request handlers of the embedded broker and name server. The first fault that matches and has times
left, in the order they were asked for, is applied; without one the request is handled as usual.

    with EmbeddedRocketMQ() as rocketmq:
        fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, "try later", times=2)
        ...
        assert fault.hits == 2

Faults on the way there (the request is not handled): ``drop``, ``delay``, ``fail``, ``close_connection``. On the way back (it is):
``drop_answer``, ``delay_answer``, ``repeat_answer``, ``mislabel_answer``, ``cut_answer``, also of an answer that is written later, such
as that of a parked pull.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from sprocketmq.core.callbacks import check_callback
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import (
    PREFIX,
    SERIALIZE_JSON,
    TYPE_SHIFT,
    Command,
    decode_command,
    encode_command,
    response,
)

# A client may use any of these codes for the same operation; a fault for the operation names all of them.
SENDS: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
HEARTBEATS: Final = (RequestCode.HEART_BEAT,)

Action = Callable[[Connection, Command, RequestHandler], "Command | None"]
Match = Callable[[Command], bool]
Codes = int | Iterable[int]
WriteAnswer = Callable[[Connection, bytes], None]


class _Answering:
    """The connection that the handler of an affected request gets: what it writes, now or later, goes through the fault."""

    def __init__(self, connection: Connection, write: WriteAnswer) -> None:
        self._connection, self._write = connection, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def send(self, command: Command) -> None:
        self._write(self._connection, encode_command(command))

    def send_with_body(
        self, header: bytes, body: Iterable[Any], body_bytes: int, serialize_type: int = SERIALIZE_JSON
    ) -> None:
        prefix = PREFIX.pack(4 + len(header) + body_bytes, serialize_type << TYPE_SHIFT | len(header))
        self._write(self._connection, b"".join((prefix, header, *body)))


class Fault:
    """One fault. ``hits`` counts the requests that it was applied to; ``remove`` (or leaving its ``with``) ends it early."""

    def __init__(
        self,
        injector: FaultInjector,
        name: str,
        codes: frozenset[int],
        action: Action,
        times: int | None,
        when: Match | None,
    ) -> None:
        self._injector, self._name, self._codes, self._action, self._when = injector, name, codes, action, when
        self.times_left = times
        self.hits = 0

    def matches(self, command: Command) -> bool:
        if self.times_left == 0 or command.code not in self._codes:
            return False
        return self._when is None or self._when(command)

    def apply(self, connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        if self.times_left is not None:
            self.times_left -= 1
        try:
            return self._action(connection, command, handler)
        finally:
            # Last: a test that waits for the count may move the clock at once, and a delay has to have its timer by then.
            self.hits += 1

    def remove(self) -> None:
        """End this fault; harmless when it ended already."""
        self._injector._remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        left = "any number of" if self.times_left is None else self.times_left
        return f"Fault({self._name}, codes={sorted(self._codes)}, hits={self.hits}, {left} times left)"


class FaultInjector:
    """The faults of one embedded RocketMQ, at ``rocketmq.faults``.

    Args:
        clock: of the delays.

    Every method takes ``code``: a :class:`RequestCode`, a number, or several of them (``SENDS``, ``PULLS``, ``HEARTBEATS``); ``times``:
    to how many requests it is applied, None for all until removed; ``when``: a function of the request that narrows it further, as in
    ``when=lambda command: command.ext_fields.get("topic") == "flights"``; default: all.

    Every method returns its :class:`Fault`, and raises ConfigurationError (an argument is out of range).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Replaced, never changed in place: tests add faults on their thread while the broker's loop walks the tuple.
        self._faults: tuple[Fault, ...] = ()

    def drop(self, code: Codes, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The request is lost: nothing is done and nobody answers, so the caller runs into its timeout."""
        return self._add("drop", code, lambda connection, command, handler: None, times, when)

    def drop_answer(self, code: Codes, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The request is carried out but its answer is lost: the case in which a caller's retry makes a duplicate."""
        return self._add_on_answer("drop_answer", code, lambda connection, frame: None, times, when)

    def delay_answer(self, code: Codes, delay_ms: int, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The answer comes ``delay_ms`` milliseconds of the clock later, so that those of later requests overtake it."""
        _check_delay(delay_ms)

        def write(connection: Connection, frame: bytes) -> None:
            self._clock.call_later(delay_ms, lambda: connection.send_raw([frame]))

        return self._add_on_answer("delay_answer", code, write, times, when)

    def repeat_answer(self, code: Codes, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The answer comes twice."""
        return self._add_on_answer(
            "repeat_answer", code, lambda connection, frame: connection.send_raw([frame, frame]), times, when
        )

    def mislabel_answer(self, code: Codes, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """Before the answer comes a copy of it with an opaque that no request has."""

        def write(connection: Connection, frame: bytes) -> None:
            stray = decode_command(memoryview(frame)[4:])
            stray.opaque = 0x7FFFFFFF - stray.opaque
            connection.send_raw([encode_command(stray), frame])

        return self._add_on_answer("mislabel_answer", code, write, times, when)

    def cut_answer(self, code: Codes, keep_bytes: int, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The request is carried out; of its answer ``keep_bytes`` bytes come (negative: all but so many), then the connection is
        closed."""

        def write(connection: Connection, frame: bytes) -> None:
            connection.send_raw([frame[:keep_bytes]])
            # Later, because the answers of one read are written after the last of them.
            asyncio.get_running_loop().call_soon(connection.close)

        return self._add_on_answer("cut_answer", code, write, times, when)

    def delay(self, code: Codes, delay_ms: int, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The request reaches its handler ``delay_ms`` milliseconds of the clock later."""
        _check_delay(delay_ms)

        def act(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
            def late() -> None:
                if connection.is_closed:
                    return
                answer = handler(connection, command)
                if answer is not None and not command.is_oneway:
                    connection.send(answer)

            self._clock.call_later(delay_ms, late)
            return None

        return self._add("delay", code, act, times, when)

    def fail(
        self,
        code: Codes,
        response_code: int,
        remark: str = "a fault asked for by the test",
        times: int | None = 1,
        *,
        when: Match | None = None,
    ) -> Fault:
        """The request is refused with ``response_code`` (a ResponseCode, or a number) and ``remark``; nothing is done."""
        return self._add(
            "fail", code, lambda connection, command, handler: response(command, response_code, remark), times, when
        )

    def close_connection(self, code: Codes, times: int | None = 1, *, when: Match | None = None) -> Fault:
        """The connection is cut as the request arrives; nothing is done."""

        def act(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
            connection.abort()
            return None

        return self._add("close_connection", code, act, times, when)

    def clear(self) -> None:
        """End all faults."""
        self._faults = ()

    @property
    def active(self) -> list[Fault]:
        """Faults that can still be applied."""
        return [fault for fault in self._faults if fault.times_left != 0]

    def intercept(self, connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        """What broker and name server call in place of ``handler``, on their loop. Returns the answer, if there is one now."""
        for fault in self._faults:
            if fault.matches(command):
                return fault.apply(connection, command, handler)
        return handler(connection, command)

    def _add_on_answer(
        self, name: str, code: Codes, write: WriteAnswer, times: int | None, when: Match | None
    ) -> Fault:
        def act(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
            answering = cast(Connection, _Answering(connection, write))
            answer = handler(answering, command)
            if answer is not None and not command.is_oneway:
                answering.send(answer)
            return None

        return self._add(name, code, act, times, when)

    def _add(self, name: str, code: Codes, action: Action, times: int | None, when: Match | None) -> Fault:
        codes = frozenset([int(code)] if isinstance(code, int) else (int(one) for one in code))
        if not codes:
            raise ConfigurationError("code is empty, a request code or several are allowed, as in faults.drop(SENDS)")
        if times is not None and times < 1:
            raise ConfigurationError(f"times is {times}, 1 or more, or None for every request, is allowed")
        if when is not None:
            check_callback("when", when, "command")
        fault = Fault(self, name, codes, action, times, when)
        self._faults = (*self._faults, fault)
        return fault

    def _remove(self, fault: Fault) -> None:
        self._faults = tuple(one for one in self._faults if one is not fault)


def _check_delay(delay_ms: int) -> None:
    if delay_ms < 0:
        raise ConfigurationError(f"delay_ms is {delay_ms}, 0 or more milliseconds are allowed")
