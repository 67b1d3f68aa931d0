# SPDX-License-Identifier: Apache-2.0
"""The command ``run``."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

import click

from sprocketmq.cli.frame.values import DURATION

_DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("targets", metavar="MODULE[:NAME]...", nargs=-1, required=True)
@click.option(
    "--reload", "reloads", is_flag=True, help="Start again when a .py file changes. Needs the extra 'reload'."
)
@click.option(
    "--reload-dir",
    "reload_dirs",
    metavar="DIR",
    type=_DIRECTORY,
    multiple=True,
    help="What --reload watches; default: --app-dir. Repeatable.",
)
@click.option(
    "--app-dir",
    metavar="DIR",
    type=_DIRECTORY,
    default=Path(),
    help="The directory of the modules, put before all others on sys.path; default: the working directory.",
)
@click.option(
    "--namesrv-addr", "-n", metavar="HOST:PORT", help="Name servers for clients that name none; sets NAMESRV_ADDR."
)
@click.option(
    "--health-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Answer health checks by HTTP there; 0 for any free port.",
)
@click.option(
    "--health-host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Where --health-port listens; 0.0.0.0 for a kubelet.",
)
@click.option(
    "--stop-timeout",
    "stop_timeout_ms",
    metavar="DURATION",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long consumers may take to stop after a signal; then the process ends.",
)
@click.option(
    "--log-level",
    metavar="LEVEL",
    help="debug, info, warning or error; default: info, of clients warning, unless the application has set up logging.",
)
@click.option(
    "--log-format", metavar="FORMAT", help="text, or json: one JSON object a line, for log collectors; default: text."
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def run(
    targets: tuple[str, ...],
    reloads: bool,
    reload_dirs: tuple[Path, ...],
    app_dir: Path,
    namesrv_addr: str | None,
    health_port: int | None,
    health_host: str,
    stop_timeout_ms: int,
    log_level: str | None,
    log_format: str | None,
    until_stdin_closes: bool,
) -> None:
    """Run the consumers of an application until a signal.

    NAME is a PushConsumer, an AsyncPushConsumer, a list of them, or a function that returns them. Without a name all consumers of the
    module run.

    Prints one line, "ready consumers=... pid=...", when all have started. SIGTERM, Ctrl-C and SIGHUP stop them: running listeners finish,
    and progress is written. A second signal ends the process at once.

    \b
    sprocketmq run billing:consumer --reload
    sprocketmq run billing audit:make --health-port 8080 --log-format json

    Exit code 0 after a signal, 1 if the application or a consumer failed at its start or did not stop in time, 2 if there is no such
    module or name.
    """
    from sprocketmq.cli.serve.log_lines import set_up_logging

    if namesrv_addr:
        os.environ["NAMESRV_ADDR"] = namesrv_addr
    if reloads:
        from sprocketmq.cli.serve.reloading import run_reloading

        set_up_logging(log_level or "info", log_format or "text")
        given = {"--app-dir": app_dir, "--health-port": health_port, "--health-host": health_host}
        given |= {"--stop-timeout": f"{stop_timeout_ms}ms", "--log-level": log_level, "--log-format": log_format}
        options = [f"{name}={value}" for name, value in given.items() if value is not None]
        run_reloading([*options, "--", *targets], reload_dirs or (app_dir,))
        return
    from sprocketmq.cli.serve.application import Application, load
    from sprocketmq.cli.serve.serving import serve_until_stopped

    is_given = log_level is not None or log_format is not None
    if is_given:
        set_up_logging(log_level or "info", log_format or "text", limited=False)
    named = load(targets, app_dir.absolute())
    if not is_given and not logging.getLogger().handlers:
        set_up_logging("info", limited=False)
        logging.getLogger("sprocketmq.client").setLevel(
            logging.WARNING
        )  # queues that come and go are no news to an application
    application = Application(named, None if health_port is None else (health_host, health_port))
    serve_until_stopped(
        [lambda: application],
        lambda _parts: application.announced,
        until_stdin_closes=until_stdin_closes,
        stop_within_s=stop_timeout_ms / 1000,
    )
