# SPDX-License-Identifier: Apache-2.0
"""The commands ``serve``, ``console``, ``namesrv``, ``broker run``, ``demo`` and ``handover`` with their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.target import Target, connects, connects_without_timeout, may_connect
from sprocketmq.cli.frame.values import DURATION

_PORT: Final = click.IntRange(0, 65535)


class _Directory(click.Path):
    """A path that is not empty: an empty variable of a script would mean the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; a directory is allowed, and . is the working directory", param, ctx)
        return super().convert(value, param, ctx)


_store = options(
    click.option(
        "--store",
        metavar="DIR",
        type=_Directory(path_type=Path),
        help="Store directory; without it, messages are only kept in memory.",
    ),
    click.option(
        "--accept-store-loss",
        is_flag=True,
        help="Start although files of the store are missing, without what was in them (acceptStoreLoss).",
    ),
)
_process_options = options(
    click.option(
        "--until-stdin-closes",
        is_flag=True,
        help="Also stop at the end of stdin, that is, when the program that started the server ends.",
    ),
    click.option(
        "--log-level",
        metavar="LEVEL",
        default="warning",
        show_default=True,
        help="debug, info, warning or error; log lines go to stderr.",
    ),
    click.option(
        "--log-format",
        metavar="FORMAT",
        default="text",
        show_default=True,
        help="text, or json: one JSON object a line, for log collectors.",
    ),
)
_server_options = options(
    click.option("--host", metavar="ADDRESS", help="Address to listen on; default: bindAddress, or 127.0.0.1."),
    click.option(
        "--config",
        "-c",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A configuration file with Apache's keys (broker.conf, namesrv.conf).",
    ),
    click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting by its Apache key; overrides --config. Repeatable.",
    ),
    click.option(
        "--set-file",
        "secret_files",
        metavar="KEY=FILE",
        multiple=True,
        help="A setting whose value is in a file, such as a password, which --set would show to other users in ps. "
        "Repeatable. Environment variables SPROCKETMQ_SET_KEY are settings, too.",
    ),
    _process_options,
)

_console_options = options(
    click.option(
        "--allow-changes", is_flag=True, help="Let the console send, replay, create, and reset or switch groups."
    ),
    click.option(
        "--mask",
        "masks",
        metavar="REGEX",
        multiple=True,
        help="Hide what fits it in bodies, keys and properties. Repeatable.",
    ),
    click.option(
        "--audit-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write each change there, as lines of JSON.",
    ),
    click.option(
        "--allow-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="Answer browsers that call the console by this name, too. Repeatable.",
    ),
    click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Its first line opens the console; default a new token at each start.",
    ),
)


@click.command()
@_store
@click.option(
    "--namesrv-port", type=_PORT, default=9876, show_default=True, help="Port of the name server; 0 for any free port."
)
@click.option(
    "--broker-port", type=_PORT, help="Port of the broker; 0 for any free port; default: listenPort, or 10911."
)
@click.option(
    "--console",
    "console_port",
    type=_PORT,
    is_flag=False,
    flag_value=9877,
    metavar="[PORT]",
    help="Also serve the web console; port 9877 if no port is given, 0 for any free port.",
)
@_console_options
@_server_options
def serve(**settings: Any) -> None:
    """Run a name server and a broker in one process.

    Prints one line, "ready namesrv=... broker=... pid=...", when both accept connections.
    """
    from sprocketmq.cli.serve import servers

    servers.serve(**settings)


@click.command()
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=9877, show_default=True, help="Port; 0 for any free port.")
@_console_options
@click.option(
    "--interval",
    "interval_ms",
    type=DURATION,
    default="5s",
    show_default=True,
    help="Time between two updates.",
)
@_process_options
@connects
def console(target: Target, host: str, port: int, interval_ms: int, **given: Any) -> None:
    """Serve web pages about a cluster: what is wrong, and why.

    Prints one line, "ready console=LINK pid=...", when it accepts connections. The link contains the token, unless --token-file gives
    it. The console is read-only unless --allow-changes is given.
    """
    from sprocketmq.cli.serve.console import serve_console

    serve_console(target.options(), host, port, interval_ms=interval_ms, limit_ms=target.timeout_ms, **given)


@click.command()
@click.option("--port", type=_PORT, help="Port; 0 for any free port; default: listenPort, or 9876.")
@_server_options
def namesrv(**settings: Any) -> None:
    """Run a name server.

    Prints one line, "ready namesrv=... pid=...", when it accepts connections.
    """
    from sprocketmq.cli.serve import servers

    servers.namesrv(**settings)


@click.command("run")
@click.option(
    "--namesrv-addr",
    "-n",
    metavar="HOST:PORT",
    envvar="NAMESRV_ADDR",
    help="Name servers to register with, separated by ';'; default: namesrvAddr of --config.",
)
@click.option("--port", type=_PORT, help="Port; 0 for any free port; default: listenPort, or 10911.")
@_store
@_server_options
def broker_run(**settings: Any) -> None:
    """Run a broker.

    Prints one line, "ready broker=... pid=...", when it accepts connections and a name server knows it.
    """
    from sprocketmq.cli.serve import servers

    servers.broker(**settings)


@click.command()
@click.option("--rows", metavar="N", type=click.IntRange(1), help="Use only the first N of the 336,776 flights.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    help="Directory for Parquet files, picture and logs.",
)
@click.option("--keep", is_flag=True, help="Keep the broker's store.")
@click.option("--spark/--no-spark", default=True, help="Run the Spark pipeline (needs Java 17).")
@may_connect
def demo(target: Target | None, rows: int | None, out: Path, keep: bool, spark: bool) -> None:
    """Run a year of flights through all of it, and Spark.

    Compares every number of the run with the data set. Exit code 1 if one differs. The topic flights of a cluster that is named with -n
    or --context must be empty or missing.
    """
    from sprocketmq.cli.demo.run import run_demo

    sys.exit(run_demo(rows=rows, out=out, keep=keep, spark=spark, target=target))


@click.command()
@click.option("--broker", metavar="HOST:PORT", required=True, help="The master whose slave takes over.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=120,
    show_default=True,
    help="How long to wait for the slave; after that the broker continues as before.",
)
@connects_without_timeout
def handover(target: Target, broker: str, timeout: float) -> None:
    """Let a slave take over from its master.

    Waits until the slave has all messages, topics, groups and offsets; the master refuses producers only at the very end. Then the master
    stops. Exit code 1 if the slave is not ready in time; then nothing has changed.
    """
    from sprocketmq.cli.handover import hand_over

    sys.exit(hand_over(broker, timeout, target))
