# SPDX-License-Identifier: Apache-2.0
"""The web console in the foreground, alone or as a process of its own beside a broker, with settings from options."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.cli.serve.log_lines import set_up_logging
from sprocketmq.cli.serve.serving import serve_until_stopped
from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra

if TYPE_CHECKING:
    from sprocketmq.client.keyword_options import CommonOptions
    from sprocketmq.console import ConsoleServer

log = logging.getLogger("sprocketmq.cli")

_READY: Final = re.compile(r"ready console=(\S+) pid=\d+\n")
_LEAVES_WITHIN_S: Final = 10.0


def serve_console(
    clients: CommonOptions,
    host: str,
    port: int,
    *,
    until_stdin_closes: bool,
    log_level: str,
    log_format: str,
    **given: Any,
) -> None:
    """Run only a console until a signal. ``given`` are the fields of ConsoleSettings and the arguments of ``_make``."""
    set_up_logging(log_level, log_format)
    made = _make(clients, host, port, **given)
    serve_until_stopped(
        [lambda: made], lambda parts: f"console={made.announced}", until_stdin_closes=until_stdin_closes
    )


class ConsoleProcess:
    """`sprocketmq console` with ``arguments`` as a child process, which ends with this one, also after a kill (its stdin closes). Not in
    the broker's process: to decode the answers of 2,000 groups, or of a broker that a stranger registered, takes seconds. Clients would
    wait for the broker's loop, or for the GIL, which one call of msgspec or of the cyclic garbage collector holds for more than 50 ms.
    And the console's connections would take the broker's descriptors."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self.announced = ""
        """The link, with the token unless it is from a file."""
        self.ready, self.ended = asyncio.Event(), asyncio.Event()

    async def astart(self) -> ConsoleProcess:
        """Return when it listens. Raises SystemExit (it ended, and said why on stderr)."""
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sprocketmq.cli",
            "console",
            "--until-stdin-closes",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C of the terminal is for the servers, which end it
        )
        assert process.stdout is not None
        ready = _READY.fullmatch((await process.stdout.readline()).decode())
        if ready is None:
            raise SystemExit(await process.wait() or 1)
        self.announced = ready[1]
        self._watching = asyncio.ensure_future(self._watch(process))
        self.ready.set()
        return self

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        log.error("the console ended with exit code %d; the servers go on without it", code)
        self.ended.set()

    async def astop(self) -> None:
        """End it. Requests in progress have a few seconds."""
        process = self._process
        if process is None:
            return
        if self._watching is not None:
            self._watching.cancel()
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_LEAVES_WITHIN_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self.ended.set()


def _make(
    clients: CommonOptions, host: str, port: int, *, masks: tuple[str, ...], token_file: Path | None, **given: Any
) -> ConsoleServer:
    """A console from options. Raises ConfigurationError (an option is wrong, or the libraries of the extra are not installed)."""
    needs_extra("the console", "console", "jinja2", "python_multipart", "starlette", "uvicorn")
    from sprocketmq.console import ConsoleServer, ConsoleSettings
    from sprocketmq.console.settings import compiled_masks

    token = None
    if token_file is not None:
        try:
            token = token_file.read_text("utf-8").splitlines()[0].strip()
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise ConfigurationError(
                f"--token-file is {str(token_file)!r}, which cannot be read ({error}); a file whose first line is the token is allowed"
            ) from error
    settings = ConsoleSettings(clients, host=host, port=port, masks=compiled_masks(masks), token=token, **given)
    return ConsoleServer(settings)
