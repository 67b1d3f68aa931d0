# SPDX-License-Identifier: Apache-2.0
"""A table on disk, written whole on a thread after its changes (Java: ConfigManager.persist, for which every change waits).

It is written at the end of the turn, and once more for all changes during a write: a thousand changes in one read of a connection need
one or two writes, and no other request waits for the disk.

A table may have a file that must be on the disk before it (``first``; its content is None if there is nothing to write). That file is
always as new as the table's text or newer, so a kill between the two writes does no harm.

A change that could not be written stays in effect as long as the process runs: waiting callers get the error, and the table is written
again with its next change, when a caller waits for it again, by :meth:`TableFile.retry`, and at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sprocketmq.broker.chunked_work import LongTable, encode_in_chunks
from sprocketmq.errors import StoreError
from sprocketmq.net.connection import Connection, bytes_while_waiting
from sprocketmq.net.process.executors import submit_from_loop
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.threads import ClaimedWork
from sprocketmq.troubles import Troubles
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

log = logging.getLogger("sprocketmq.broker")

UNWRITTEN: Final = "%s; it is tried again, and what it says is in force until a restart"
"""The trouble of all files of tables: one disk is full."""
WhenSaved = Callable[["StoreError | None"], None]


def not_saved(command: Command, error: StoreError) -> Command:
    """The answer to a request whose change could not be written."""
    remark = f"{error}; the change is in effect and is written as soon as possible, but a restart before that loses it"
    return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark)


def answer_when_saved(
    connection: Connection, command: Command, answer: Command, when_saved: Callable[[WhenSaved], None]
) -> None:
    """Send ``answer`` once a change is on the disk, or :func:`not_saved`. Until then the request's bytes count for the connection."""
    kept_bytes = bytes_while_waiting(command)
    connection.hold(kept_bytes)

    def send(error: StoreError | None) -> None:
        connection.release(kept_bytes)
        if not command.is_oneway:
            connection.send(answer if error is None else not_saved(command, error))

    when_saved(send)


class TableFile:
    """The file of one table. ``content()`` returns the present text of the table, or a long one that is made in steps.

    ``when_saved(call)`` calls ``call`` with None once all changes so far are on the disk, or with the error.
    """

    def __init__(
        self,
        file: ConfigFile,
        content: Callable[[], bytes | LongTable],
        first: tuple[ConfigFile, Callable[[], bytes | None]] | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self._troubles = troubles or Troubles(log)
        self._file, self._content, self._first = file, content, first
        self._is_changed = False
        self._has_failed = False  # the last write
        self._next_callbacks: list[WhenSaved] = []  # called when the next write ends
        self._making: asyncio.Task[None] | None = None  # the text of the next write
        self._writing: ClaimedWork[None] | None = None
        self._callbacks: list[WhenSaved] = []  # called when the present write ends
        # Its thread begins with the first use.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sprocketmq-table")

    def changed(self) -> None:
        """Write soon; returns at once."""
        if self._file.path is None or self._is_changed:
            return
        self._is_changed = True
        if not self._is_busy:
            asyncio.get_running_loop().call_soon(self._begin)

    @property
    def _is_busy(self) -> bool:
        return self._making is not None or self._writing is not None

    def retry(self) -> None:
        """Write soon if the last write failed."""
        if self._has_failed:
            self.changed()

    def when_saved(self, call: WhenSaved) -> None:
        self.retry()
        if self._is_changed:
            self._next_callbacks.append(call)
        elif self._is_busy:
            self._callbacks.append(call)
        else:
            call(None)

    def close(self) -> None:
        """Write the table if needed, and end the thread. Callers that still wait are not called: their connections are closed."""
        writing, self._writing = self._writing, None
        if self._making is not None:
            self._making.cancel()
            self._making, self._is_changed = None, True
        if writing is not None:
            writing()  # unless its thread has begun
        self._writer.shutdown()  # waits for the write
        failed = self._has_failed or (writing is not None and writing.outcome.exception() is not None)
        if self._is_changed or failed:
            self._is_changed = False
            content = self._content()
            save = self._saving(content.encode() if isinstance(content, LongTable) else content)
            try:
                save()
            except StoreError as error:  # a full disk must not stop a stop
                log.error("%s", error)

    def _begin(self) -> None:
        if not self._is_changed or self._is_busy:  # closed, or a write has begun already
            return
        self._is_changed = False
        self._callbacks, self._next_callbacks = self._next_callbacks, []
        content = self._content()
        if isinstance(content, LongTable) and not content.is_short:
            self._making = asyncio.get_running_loop().create_task(self._make(content))
        else:
            self._write(content.encode() if isinstance(content, LongTable) else content)

    async def _make(self, long: LongTable) -> None:
        raw = await encode_in_chunks(long)
        self._making = None
        self._write(raw)

    def _write(self, raw: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._writing = writing = submit_from_loop(self._writer, self._saving(raw))
        writing.outcome.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended, writing))

    def _saving(self, raw: bytes) -> Callable[[], None]:
        """Return the function that writes on the thread. Called when the table's text is made, so that the first file is not older."""
        raw_of_first = None if self._first is None else self._first[1]()

        def save() -> None:
            if self._first is not None and raw_of_first is not None:
                self._first[0].save(raw_of_first)
            self._file.save(raw)

        return save

    def _ended(self, writing: ClaimedWork[None]) -> None:
        if writing is not self._writing:
            return
        self._writing = None
        callbacks, self._callbacks = self._callbacks, []
        error = writing.outcome.exception()
        self._has_failed = error is not None
        self._begin()
        if error is not None and not isinstance(error, StoreError):
            raise error
        if error is not None:
            self._troubles.failed(UNWRITTEN, UNWRITTEN, error, of=self._file.path or "", level=logging.ERROR)
        for call in callbacks:
            call(error)
