# SPDX-License-Identifier: Apache-2.0
"""The web console in the foreground, alone or together with a broker, with settings from options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sprocketmq.cli.frame.contexts import Contexts
from sprocketmq.cli.frame.target import resolve
from sprocketmq.cli.serve.log_lines import set_up_logging
from sprocketmq.cli.serve.serving import serve_until_stopped
from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra

if TYPE_CHECKING:
    from sprocketmq.client.keyword_options import CommonOptions
    from sprocketmq.console import ConsoleServer

__all__ = ["console_beside", "serve_console"]


def serve_console(clients: CommonOptions, host: str, port: int, **given: Any) -> None:
    """Run only a console until a signal. ``given`` are the fields of ConsoleSettings and the arguments of ``_make``."""
    set_up_logging("warning", "text")
    made = _make(clients, host, port, **given)
    serve_until_stopped([lambda: made], lambda parts: f"console={made.announced}")


def console_beside(namesrv_addr: str, port: int, **given: Any) -> ConsoleServer:
    """The console of the servers in this process. It signs its requests with the access key in the environment, if there is one."""
    target = resolve({"namesrv_addr": namesrv_addr}, os.environ, Contexts.load)
    return _make(target.options(), "127.0.0.1", port, **given)


def _make(
    clients: CommonOptions,
    host: str,
    port: int,
    *,
    masks: tuple[str, ...],
    token_file: Path | None,
    **given: Any,
) -> ConsoleServer:
    """A console from options.

    Raises:
        ConfigurationError: an option is wrong, or the libraries of the extra are not installed.
    """
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
