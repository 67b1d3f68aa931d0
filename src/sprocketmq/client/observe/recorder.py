# SPDX-License-Identifier: Apache-2.0
"""The file of ``record=``: every decision of one consumer, written when it is made (format in core.replay.decision_record).

Rules
1. At the end of a turn of the loop its decisions are written to the operating system, and those that led to a listener call before
   that call. So the record of a killed process is complete up to its last turn, except for one torn line. (The last notes of
   listeners may be missing.)
2. FILE and FILE.1, which begin with the state of all machines, have at most ``record_max_bytes`` beside it; the oldest is deleted.
3. Recording never stops the consumer: if the file cannot be written, the record ends, and the log says so.
4. An existing record is renamed to FILE.1, so a restarted process keeps the record of the one before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from sprocketmq.client.hooks import ConsumeMessageContext
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume.consume_progress import ConsumeProgress
from sprocketmq.core.replay.decision_record import FORMAT, Line, read_lines
from sprocketmq.core.replay.decision_tape import Tape
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import Clock
from sprocketmq.user_paths import user_path
from sprocketmq.version import __version__

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
_AT_ONCE_BYTES: Final = 64 * 1024
_OWNER_ONLY: Final = 0o600  # only the user who runs the consumer may read keys and ids


class Recorder:
    """The record of one consumer, from its start to its end. ``tape`` makes its machines. ``about`` goes into the header (group,
    client id, subscriptions). Raises ConfigurationError (FILE cannot be made, or another consumer of this process writes it)."""

    _in_use: ClassVar[weakref.WeakValueDictionary[Path, Recorder]] = weakref.WeakValueDictionary()

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, clock: Clock, about: Mapping[str, Any]) -> None:
        self.path = user_path(path).absolute()
        self._part_bytes = max_bytes // 2
        self._clock = clock
        self._about = {**about, "run": f"{about.get('client_id')}@{clock.now_ms()}"}
        self._part = 0
        self._file = -1
        self._room = 0
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._flush_is_due = self._decided = False  # decided: a decision waits to be written
        self._lock = threading.Lock()  # listeners note from their threads
        self.tape = Tape(self._write, self._between)
        if self.path in self._in_use:
            raise ConfigurationError(
                f"record={self.path} is written by another consumer of this process, give each its own"
            )
        try:
            self._open()
        except OSError as error:
            raise ConfigurationError(f"record={self.path} cannot be written: {error.strerror}") from error
        self._in_use[self.path] = self
        self._flush()

    @classmethod
    def of(
        cls, settings: PushSettings, clock: Clock, client_id: str, orderly: bool, subscriptions: Mapping[str, Any]
    ) -> Recorder:
        assert settings.record is not None
        about = {
            "group": settings.group,
            "client_id": client_id,
            "orderly": orderly,
            "subscriptions": {topic: one.sub_string for topic, one in subscriptions.items()},
            "settings": _plain_settings(settings),
        }
        return cls(settings.record, settings.record_max_bytes, clock, about)

    def attach(self, consumer: RunningConsumer) -> None:
        consumer.tape = self.tape
        consumer.offset_store.progress = self.tape.recorded(ConsumeProgress)()
        consumer.hooks.consume.append(self)

    # -- what the consumer's parts tell ------------------------------------------------------------------------------------------

    def before_consume(self, context: ConsumeMessageContext) -> None:
        """Called in the thread or task of the listener."""
        self.tape.note("listener_began", queue=context.message_queue, messages=context.messages)
        if self._decided:
            with self._lock:
                self._flush()

    def after_consume(self, context: ConsumeMessageContext) -> None:
        """ConsumeMessageHook. Records only the class of an exception, because its text may contain a body."""
        failure = context.failure
        self.tape.note(
            "listener_ended",
            queue=context.message_queue,
            messages=context.messages,
            status=getattr(context.status, "name", None),
            raised=None if failure is None else type(failure).__name__,
            spent_ms=self._clock.now_ms() - context.started_ms,
        )

    def close(self) -> None:
        """The consumer ended. Harmless twice."""
        if self._file != -1:
            self.tape.note("record_ended")
        with self._lock:
            self._flush()
            self._end()

    # -- the file ----------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.path.exists() and self.path.stat().st_size:
            os.replace(self.path, self._older)
        self._file = os.open(self.path, _FLAGS, _OWNER_ONLY)
        self._room = self._part_bytes
        header = {"record": FORMAT, "version": __version__, "part": self._part, **self._about}
        self._put(msgspec.json.encode({"at": self._clock.now_ms(), **header}))

    @property
    def _older(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def _write(self, line: Line) -> None:
        data = msgspec.json.encode({"at": self._clock.now_ms(), **line})
        with self._lock:
            if self._file != -1:
                self._put(data)

    def _put(self, data: bytes) -> None:
        self._lines.append(data)
        self._waiting_bytes += len(data) + 1
        if self._waiting_bytes > _AT_ONCE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._lines or self._file == -1:
            return
        data = memoryview(b"\n".join([*self._lines, b""]))
        self._lines.clear()
        self._decided = False
        self._room, self._waiting_bytes = self._room - self._waiting_bytes, 0
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._give_up(error)

    def _turn_ended(self) -> None:
        self._flush_is_due = False
        with self._lock:
            self._flush()

    def _between(self) -> None:
        """Called on the loop after each decision, with all machines at rest."""
        self._decided = True
        if self._file == -1 or self._flush_is_due:
            return
        if self._room - self._waiting_bytes <= 0:
            self._begin_part()
        try:
            asyncio.get_running_loop().call_soon(self._turn_ended)
        except RuntimeError:  # no loop runs here, so no later turn would write it
            self._turn_ended()
        else:
            self._flush_is_due = True

    def _begin_part(self) -> None:
        """Begin a new FILE when half of ``record_max_bytes`` is reached (rule 2)."""
        state = self.tape.state()
        with self._lock:
            try:
                self._flush()
                os.close(self._file)
                self._file = -1
                self._part += 1
                self._open()
            except OSError as error:
                self._give_up(error)
                return
            self._put(msgspec.json.encode({"at": self._clock.now_ms(), **state}))
            self._flush()
            self._room = self._part_bytes

    def _give_up(self, error: OSError) -> None:
        log.error(
            "group %s: the record %s ends here, because it cannot be written: %s",
            self._about.get("group"),
            self.path,
            error,
        )
        self._end()

    def _end(self) -> None:
        if self._file != -1:
            os.close(self._file)
            self._file = -1
        if self._in_use.get(self.path) is self:
            del self._in_use[self.path]


def record_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """All lines of a record, FILE.1 first if it is the part before FILE, a torn last line left out. Raises ConfigurationError
    (there is no such file), ProtocolError (a line that is not the last one cannot be read)."""
    newest = user_path(path)
    older = newest.with_name(newest.name + ".1")
    try:
        with newest.open("rb") as file:
            if _goes_on_from(older, file.readline()):
                with older.open("rb") as before:
                    yield from read_lines(before)
            file.seek(0)
            yield from read_lines(file)
    except OSError as error:
        raise ConfigurationError(f"the record {newest} cannot be read: {error.strerror}") from error


def _goes_on_from(older: Path, first_line: bytes) -> bool:
    if not older.is_file():
        return False
    with older.open("rb") as file:
        headers = [next(read_lines([line]), {}) for line in (file.readline(), first_line)]
    before, after = ((header.get("run"), header.get("part", 0)) for header in headers)
    return before == (after[0], after[1] - 1)


def _plain_settings(settings: PushSettings) -> dict[str, Any]:
    """All settings as JSON values; an object, such as a strategy of the user's, by its name."""
    plain: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, Enum):
            value = value.name
        elif not isinstance(value, str | int | float | bool | None):
            value = os.fspath(value) if isinstance(value, os.PathLike) else getattr(value, "name", type(value).__name__)
        plain[name] = value
    return plain
