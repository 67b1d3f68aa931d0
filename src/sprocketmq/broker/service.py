# SPDX-License-Identifier: Apache-2.0
"""The common base of broker and name server: starting inside a running loop (``astart``) or on an engine of their own (``start``)."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Final, Self

from sprocketmq.broker.observe.slow_requests import SlowRequests
from sprocketmq.errors import ClosedError, RocketMQError
from sprocketmq.net.connection import Connection, RequestHandler, bytes_while_waiting
from sprocketmq.net.process.clock import Clock, Timer
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.troubles import Troubles
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

log = logging.getLogger("sprocketmq.broker")

_SLOW_REQUEST_MS: Final = 100  # of a name server; a broker has the setting slowRequestMs

# Called in place of the handler of every request: it answers itself, calls the handler, or does nothing (fault injection in tests).
Interceptor = Callable[[Connection, Command, RequestHandler], "Command | None"]


class Periodic:
    """Calls ``callback`` every ``interval_ms`` of ``clock``, until cancelled."""

    def __init__(self, clock: Clock, interval_ms: float, callback: Callable[[], object]) -> None:
        self._clock, self._interval_ms, self._callback = clock, interval_ms, callback
        self._troubles = Troubles(log, clock.steady_ms)
        self._timer: Timer | None = clock.call_later(interval_ms, self._tick)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        try:
            self._callback()
        except Exception as error:  # noqa: BLE001 - one failed round (such as a full disk) must not end all later ones
            sentence = "a periodic task failed, it is tried again in %s ms: %s"
            self._troubles.failed(
                type(error).__name__, sentence, self._interval_ms, error, level=logging.ERROR, error=error
            )
        if self._timer is not None:
            self._timer = self._clock.call_later(self._interval_ms, self._tick)


class _Continuation:
    """Awaits the rest of a coroutine whose first step was taken by ``send``; ``await`` itself refuses one that has begun."""

    def __init__(self, coroutine: Coroutine[Any, Any, Command]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[None, None, Command]:
        while True:
            yield
            try:
                self._coroutine.send(None)
            except StopIteration as done:
                made: Command = done.value
                return made


class Service(ABC):
    """Start and stop, blocking and asynchronous. A service starts once; create a new one to start again."""

    def __init__(self, name: str, engine: Engine | None) -> None:
        self.intercept: Interceptor | None = None
        self.slow_requests = SlowRequests(_SLOW_REQUEST_MS)
        self._name = name
        self._given_engine = engine
        self._engine: Engine | None = None
        self._state = "new"
        self._stopping: asyncio.Task[None] | None = None
        self.making_long_answer = asyncio.Lock()
        """Held while a long answer is made; they are made one after the other."""
        self._answers = Tasks(log, "an answer that was not made at once")
        self.ready = asyncio.Event()
        """Set when clients find the service; of a broker, when the first name server knows it."""
        self.ended = asyncio.Event()
        """Set when the service has stopped for any reason."""

    @property
    def is_running(self) -> bool:
        return self._state == "running"

    def start(self) -> None:
        """On the given engine, or on a thread of its own; returns when requests are served. Raises ConfigurationError (the port is
        taken, or a setting is wrong), StoreError (the store directory cannot be used), ClosedError (it was started before)."""
        engine = self._given_engine or Engine(self._name)
        try:
            engine.run(self.astart())
        except BaseException:
            if engine is not self._given_engine:
                engine.close()
            raise
        self._engine = engine

    def stop(self) -> None:
        """Stop, and return when everything is on the disk and closed. Does nothing if stopped already."""
        engine, self._engine = self._engine, None
        if engine is None:
            if self._state == "running":
                raise ClosedError(f"this {type(self).__name__} was started with astart(); await its astop()")
            return
        try:
            engine.run(self.astop())
        finally:
            if engine is not self._given_engine:
                engine.close()

    async def astart(self) -> None:
        """Start on the running loop, to which it belongs from now on. Raises as :meth:`start`."""
        if self._state != "new":
            raise ClosedError(f"this {type(self).__name__} was started before; make a new one")
        self._state = "starting"
        try:
            await self._start()
        except BaseException:
            await self._stop()
            self._state = "stopped"
            raise
        self._state = "running"

    async def astop(self) -> None:
        """Stop; the counterpart of :meth:`astart`. Does nothing if stopped already."""
        if self._stopping is not None and self._stopping is not asyncio.current_task():
            await asyncio.shield(self._stopping)
        if self._state != "running":
            return
        self._state = "stopping"
        try:
            await self._stop()
        finally:
            self._state = "stopped"
            self.ended.set()

    def stop_soon(self) -> None:
        """Stop after the present request has been answered; called on the service's own loop."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self.astop())
            self._stopping.add_done_callback(self._log_stop_error)

    def _log_stop_error(self, stopping: asyncio.Task[None]) -> None:
        error = None if stopping.cancelled() else stopping.exception()
        if error is not None:
            log.error("%s did not stop cleanly", self._name, exc_info=error)

    @abstractmethod
    async def _start(self) -> None: ...

    @abstractmethod
    async def _stop(self) -> None:
        """Undo what ``_start`` did, also if it did only a part."""

    @abstractmethod
    def handle(self, connection: Connection, command: Command, is_intercepted: bool = False) -> Command | None:
        """Answer one request by its code; an interceptor is called first, once."""

    def answer_in_chunks(
        self, connection: Connection, command: Command, answer: Coroutine[Any, Any, Command]
    ) -> Command | None:
        """Return the answer if ``answer`` needs one step only, else None: it is sent when all steps are done.

        Long answers are made one after the other, and further requests of such a peer wait; else each would take a step in each turn of the
        loop. ``answer`` only waits for the loop's next turn. An error of its first step is raised here; a later error is the answer.
        """
        try:
            answer.send(None)
        except StopIteration as done:
            made: Command = done.value
            return made

        async def send() -> None:
            try:
                async with self.making_long_answer:
                    if not connection.is_closed:
                        made = await _Continuation(answer)
                        if not command.is_oneway:
                            connection.send(made)
            except RocketMQError as error:
                if not command.is_oneway:
                    connection.send(response(command, getattr(error, "code", ResponseCode.SYSTEM_ERROR), str(error)))
            finally:
                answer.close()
                connection.release(kept_bytes)
                connection.unpause()

        kept_bytes = bytes_while_waiting(command)
        connection.hold(kept_bytes)
        connection.pause()
        self._answers.start(send())
        return None

    def answer_later(
        self, connection: Connection, command: Command, answer: Coroutine[Any, Any, Command | None]
    ) -> None:
        """Send what ``answer`` returns; until then the bytes of the request count for this connection (``Connection.hold``)."""
        kept_bytes = bytes_while_waiting(command)

        async def send() -> None:
            made = await answer
            if made is not None and not command.is_oneway:
                connection.send(made)

        def ended(task: asyncio.Task[None]) -> None:
            connection.release(kept_bytes)
            answer.close()  # the task was cancelled before it began

        connection.hold(kept_bytes)
        self._answers.start(send()).add_done_callback(ended)

    def cancel_answers(self) -> None:
        self._answers.cancel()

    def _ask_interceptor(self, connection: Connection, command: Command) -> Command | None:
        """Let ``intercept`` answer. It gets ordinary commands, so that a changed copy has the changes (``RawCommand``)."""
        assert self.intercept is not None
        _ = command.ext_fields
        return self.intercept(connection, command, self._handle_behind_interceptor)

    def _handle_behind_interceptor(self, connection: Connection, command: Command) -> Command | None:
        answer = self.handle(connection, command, True)
        if answer is not None:
            _ = answer.ext_fields
        return answer

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.astop()
