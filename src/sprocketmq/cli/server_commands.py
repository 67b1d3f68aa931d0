"""Servers in the foreground, and the demo: the options of ``serve``, ``namesrv``, ``broker run``, ``demo`` and ``handover``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.target import Target, secures

__all__ = ["broker_run", "demo", "handover", "namesrv", "serve"]

_PORT: Final = click.IntRange(0, 65535)
_store = click.option(
    "--store",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Store directory; without it messages live in memory only.",
)
_server_options = options(
    click.option("--host", metavar="ADDRESS", help="Address to listen on; default bindAddress, or 127.0.0.1."),
    click.option(
        "--config", "-c", metavar="FILE", type=click.Path(path_type=Path), help="Apache's broker.conf or namesrv.conf."
    ),
    click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        multiple=True,
        help="One setting by Apache's key; wins over --config. Repeatable.",
    ),
    click.option(
        "--set-file",
        "secret_files",
        metavar="KEY=FILE",
        multiple=True,
        help="One setting whose value is in a file: for passwords, which --set would show to ps. Repeatable. "
        "A variable SPROCKETMQ_SET_KEY in the environment does the same.",
    ),
    click.option(
        "--until-stdin-closes",
        is_flag=True,
        help="Also stop when stdin ends, so as never to outlive the caller.",
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


@click.command()
@_store
@click.option("--namesrv-port", type=_PORT, default=9876, show_default=True, help="0 for any free port.")
@click.option("--broker-port", type=_PORT, help="0 for any free port; default listenPort, or 10911.")
@_server_options
def serve(**settings: Any) -> None:
    """Name server and broker in one process.

    Prints one line, "ready namesrv=... broker=... pid=...", when both listen.
    """
    from sprocketmq.cli.serve import servers

    servers.serve(**settings)


@click.command()
@click.option("--port", type=_PORT, help="0 for any free port; default listenPort, or 9876.")
@_server_options
def namesrv(**settings: Any) -> None:
    """A name server alone.

    Prints "ready namesrv=... pid=..." when it listens.
    """
    from sprocketmq.cli.serve import servers

    servers.namesrv(**settings)


@click.command("run")
@click.option(
    "--namesrv-addr",
    "-n",
    metavar="HOST:PORT",
    envvar="NAMESRV_ADDR",
    help="Name server to register with, several separated by ';'; default namesrvAddr of --config.",
)
@click.option("--port", type=_PORT, help="0 for any free port; default listenPort, or 10911.")
@_store
@_server_options
def broker_run(**settings: Any) -> None:
    """A broker alone.

    Prints "ready broker=... pid=..." when it listens and is registered.
    """
    from sprocketmq.cli.serve import servers

    servers.broker(**settings)


@click.command()
@click.option("--rows", metavar="N", type=click.IntRange(1), help="Only the first N of the 336,776 flights.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    help="Where Parquet, picture and logs go.",
)
@click.option("--keep", is_flag=True, help="Keep the broker's store, to look into it.")
@click.option("--spark/--no-spark", default=True, help="Run the Spark pipeline (needs Java 17).")
def demo(rows: int | None, out: Path, keep: bool, spark: bool) -> None:
    """A year of real flights through all of it.

    Broker, consumer groups and Spark, reconciled to the message. Exit code 1 if a number is off.
    """
    from sprocketmq.cli.demo.run import run_demo

    sys.exit(run_demo(rows=rows, out=out, keep=keep, spark=spark))


@click.command()
@click.option("--broker", metavar="HOST:PORT", required=True, help="The broker that gives its messages away.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=120,
    show_default=True,
    help="How long to wait for its slave; the broker serves on when it is over.",
)
@secures
def handover(target: Target, broker: str, timeout: float) -> None:
    """Give a broker's messages to its slave, and end it.

    Waits until the slave has all messages, topics, groups and offsets, refuses producers only for that moment. Exit code 1 if the
    slave did not get there in time; then nothing has changed.
    """
    from sprocketmq.cli.handover import hand_over

    sys.exit(hand_over(broker, timeout, target))
