# SPDX-License-Identifier: Apache-2.0
"""A page of the documentation, walked as a reader walks it: files are saved, commands are run, outputs are compared.

What the fences of a page mean, by the words behind the language:

- ``python``: a file; the paragraph before it ends with "Save this as `NAME`:".
- ``python theirs``: a program of another client, which is not installed here; it is only compiled.
- ``python remove``: lines that the reader takes out of the file that was saved last.
- ``console``: each line with ``$ `` is a command, the lines below it are what it prints, on stdout and stderr together.
  ``...`` stands for any lines. ``^C`` is Ctrl-C, pressed as soon as what stands above it was printed.
- ``console unordered``: the lines may come in another order.
- ``console stays``: the command goes on running after it has printed that.
- ``console fails``: the command ends with another exit code than 0.
- ``console install``: commands that make an environment; a test that has one leaves them out.

Ids, times, numbers of processes, and the queue that took a message differ from run to run: both sides are compared without them.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```([a-z]+)([a-z ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED_AS = re.compile(r"`([\w.]+)`[^`\n]*:\s*$")
DIFFERS = (
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"pid=\d+"), "pid=PID"),
    (re.compile(r"\?token=\S+"), "?token=TOKEN"),
    (re.compile(r"\bin \d+\.\d+s\b"), "in SECONDS"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"broker-a/\d+(?:@\d+)?"), "PLACE"),
)
CTRL_C = "^C"
ANY_LINES = "..."
PATIENCE_S = 90.0


@dataclass
class Fence:
    """A fenced block of a page."""

    language: str
    words: frozenset[str]
    text: str
    line: int
    saved_as: str
    section: str


def fences_of(page: Path) -> list[Fence]:
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()].rstrip()
        named = SAVED_AS.search(before.rpartition("\n")[2])
        section = re.findall(r"^## (.+)$", before, re.MULTILINE)
        found.append(
            Fence(
                match[1],
                frozenset(match[2].split()),
                match[3],
                before.count("\n") + 2,
                named[1] if named else "",
                section[-1] if section else "",
            )
        )
    return found


def commands_of(fence: Fence) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console, with the lines that it prints."""
    for part in re.split(r"^\$ ", fence.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed.splitlines()


def _plain(line: str) -> str:
    for differs, name in DIFFERS:
        line = differs.sub(name, line)
    return line.rstrip()


def _fits(wanted: list[str], printed: list[str], ordered: bool) -> bool:
    wanted, printed = [_plain(line) for line in wanted], [_plain(line) for line in printed]
    if ordered:
        lines = (r"(?:.*\n)*?" if line == ANY_LINES else re.escape(line) + r"\n" for line in wanted)
        return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in printed)) is not None
    left = list(printed)
    for line in wanted:
        if line != ANY_LINES:
            if line not in left:
                return False
            left.remove(line)
    return ANY_LINES in wanted or not left


class _Running:
    """A command with what it has printed so far."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.printed: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, wanted: list[str], ordered: bool) -> None:
        """Until it has printed what is wanted."""
        end_s = time.monotonic() + PATIENCE_S
        while not _fits(wanted, self.printed, ordered):
            if not self._next(end_s):
                raise AssertionError(self._differs(wanted))

    def wait_for_end(self, wanted: list[str], ordered: bool) -> int:
        end_s = time.monotonic() + PATIENCE_S
        while self._next(end_s):
            pass
        assert _fits(wanted, self.printed, ordered), self._differs(wanted)
        return self.process.wait(10)

    def _next(self, end_s: float) -> bool:
        try:
            line = self._lines.get(timeout=max(0.0, end_s - time.monotonic()))
        except queue.Empty:
            self.stop()
            raise AssertionError(f"{self.command}: no end in {PATIENCE_S} s; printed {self.printed}") from None
        if line is not None:
            self.printed.append(line)
        return line is not None

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            self.process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
                break
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _differs(self, wanted: list[str]) -> str:
        return f"{self.command}\n--- the page says\n{os.linesep.join(wanted)}\n--- it printed\n{os.linesep.join(self.printed)}"


@dataclass
class Walk:
    """One reader in one folder. Servers listen on free ports, which replace the 9876 of the page in all that follows.

    Args:
        folder: where the reader works.
        port: of a name server that runs already.
        programs: the folder with ``python`` and ``sprocketmq``.
    """

    folder: Path
    port: str = "9876"
    programs: Path = Path(sys.executable).parent
    _stays: list[_Running] = field(default_factory=list)
    _saved_last: Path | None = None

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        for running in reversed(self._stays):
            running.stop()

    def step(self, fence: Fence) -> None:
        if fence.language == "python":
            self._edit(fence)
        elif fence.language == "console" and "install" not in fence.words:
            for command, printed in commands_of(fence):
                self._run(command, printed, fence.words)

    def _edit(self, fence: Fence) -> None:
        if "remove" in fence.words:
            assert self._saved_last is not None, f"line {fence.line}: no file was saved before"
            text = self._saved_last.read_text("utf-8")
            assert fence.text in text, f"line {fence.line}: {self._saved_last.name} has no such lines"
            self._saved_last.write_text(text.replace(fence.text, ""), "utf-8")
            return
        if "theirs" in fence.words:
            compile(fence.text, f"line {fence.line}", "exec")
            return
        assert fence.saved_as, f"line {fence.line}: the paragraph before does not say the name of the file"
        self._saved_last = self.folder / fence.saved_as
        self._saved_last.write_text(self._here(fence.text), "utf-8")

    def _run(self, command: str, printed: list[str], words: frozenset[str]) -> None:
        if command.startswith("sprocketmq serve"):
            command = command.replace("--console", "--console 0") + " --namesrv-port 0 --broker-port 0"
        environment = os.environ | {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "NAMESRV_ADDR": f"127.0.0.1:{self.port}",
            "PYTHONUNBUFFERED": "1",
        }
        running = _Running(self._here(command), self.folder, environment)
        ordered = "unordered" not in words
        if "stays" in words:
            self._stays.append(running)
            running.wait_for(printed, ordered)
            if ready := re.search(r"namesrv=127\.0\.0\.1:(\d+)", running.printed[-1]):
                self.port = ready[1]
            return
        if CTRL_C in printed:
            at = printed.index(CTRL_C)
            running.wait_for(printed[:at], ordered)
            running.interrupt()
            printed = printed[:at] + printed[at + 1 :]
        code = running.wait_for_end(printed, ordered)
        assert (code != 0) == ("fails" in words), f"{command}: exit code {code}"
        running.stop()

    def _here(self, text: str) -> str:
        return text.replace(":9876", f":{self.port}")
