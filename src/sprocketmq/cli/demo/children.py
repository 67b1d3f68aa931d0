# SPDX-License-Identifier: Apache-2.0
"""The demo's child processes: its broker, the members of its groups, the Spark driver. Each is in a session of its own, so that Ctrl-C
reaches only the demo, which waits until a child and all that it started have ended.

The demo writes one line of options to a child's stdin, then one line for each time that the child may go on. A child whose stdin ends
instead is not needed any more, because the demo was interrupted or killed: it ends at once. It reports with lines of JSON on stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing import Self

_STOP_TIMEOUT_S: Final = 20.0
_LONGEST_LINE_BYTES: Final = 1 << 26
O = TypeVar("O")  # noqa: E741
R = TypeVar("R")


class ChildFailed(Exception):
    """A child process did not start, or ended by itself; the message names its log file."""


class Child:
    """A Python program that runs until ``stop``; its stderr goes to ``log``. ``options`` go through stdin, because ps shows arguments to
    other users and there may be a secret key in them."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self.log, self._stdin, self.stdout = process, log, process.stdin, process.stdout

    @classmethod
    async def start(
        cls,
        log: Path,
        *command: str,
        options: msgspec.Struct | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                limit=_LONGEST_LINE_BYTES,
            )
        child = cls(process, log)
        if options is not None:
            child._stdin.write(msgspec.json.encode(options) + b"\n")
        return child

    def go_on(self) -> None:
        self._stdin.write(b"\n")

    async def stop(self) -> None:
        """Close its stdin, and wait until it and what it started (a JVM) have ended: nobody holds its stdout any more. What is late is
        killed."""
        self._stdin.close()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self.ended()
        except TimeoutError:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
            await self.ended()

    def said(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    async def ended(self) -> int:
        """Wait until it has ended, and return its exit code."""
        while await self.stdout.read(1 << 16):
            pass
        return await self._process.wait()


class Children(Generic[R]):
    """Children that run the same program and report the same type; an ``async with`` block, at whose end they are stopped."""

    def __init__(self, program: str, report: type[R], logs: Path) -> None:
        self._program, self._logs = program, logs
        self._decode = msgspec.json.Decoder(report).decode
        self._reports: asyncio.Queue[R | Child] = asyncio.Queue()
        self._children: list[Child] = []
        self._readers: list[asyncio.Task[None]] = []
        self._may_end = False

    async def start(self, name: str, options: msgspec.Struct) -> None:
        child = await Child.start(self._logs / f"{name}.log", f"{__package__}.{self._program}", options=options)
        self._children.append(child)
        self._readers.append(asyncio.create_task(self._read(child)))

    async def _read(self, child: Child) -> None:
        async for line in child.stdout:
            with contextlib.suppress(msgspec.DecodeError):  # a library of the child printed something
                self._reports.put_nowait(self._decode(line))
        self._reports.put_nowait(child)

    def go_on(self) -> None:
        for child in self._children:
            child.go_on()

    def finish(self) -> None:
        """Let the children come to their end; ``reports`` ends when they have."""
        self._may_end = True
        self.go_on()

    async def reports(self, patience_s: float) -> AsyncIterator[R]:
        """What the children report, until all have ended or nothing comes for ``patience_s``. Raises ChildFailed."""
        ended = 0
        while ended < len(self._children):
            try:
                async with asyncio.timeout(patience_s):
                    report = await self._reports.get()
            except TimeoutError:
                return
            if not isinstance(report, Child):
                yield report
                continue
            ended += 1
            if (code := await report.ended()) or not self._may_end:
                raise ChildFailed(f"{report.log.stem} ended by itself with code {code}; see {report.log}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for child in self._children:
            await child.stop()


class Parent(Generic[O]):
    """The demo, as its child sees it."""

    def __init__(self, options_type: type[O]) -> None:
        # Unbuffered: what follows the options is read elsewhere.
        with open(0, "rb", buffering=0, closefd=False) as stdin:
            self.options = msgspec.json.decode(stdin.readline(), type=options_type)
        self._words = threading.Semaphore(0)
        self._reporting = threading.Lock()
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def _listen(self) -> None:
        while os.read(0, 1):
            self._words.release()
        os._exit(1)

    def lets_go_on(self, timeout_s: float) -> bool:
        """Wait for the demo's next word, and return whether it came in time."""
        return self._words.acquire(timeout=timeout_s)

    def report(self, report: object) -> None:
        """Report from any thread. Errors are ignored: if the demo has ended, stdin has ended, too."""
        line = msgspec.json.encode(report) + b"\n"
        with self._reporting, contextlib.suppress(OSError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
