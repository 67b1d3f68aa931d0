"""The command line: ``sprocketmq serve | namesrv | broker | demo | topics | lag | store check | version``.

Each command imports what it needs when it runs, so that ``serve`` listens in a fraction of a second and ``lag`` loads no broker. A user's
mistake ends with one sentence on stderr and exit code 2, Ctrl-C with 130; any traceback is a bug.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sprocketmq.errors import RocketMQError

__all__ = ["app", "main"]

app = typer.Typer(
    name="sprocketmq",
    help="RocketMQ on one machine: name server and broker, a demo, and a look at topics and lag.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
store_app = typer.Typer(help="Look into a store directory.", no_args_is_help=True)
app.add_typer(store_app, name="store")

Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="Apache's broker.conf or namesrv.conf.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting by Apache's key; wins over --config. Repeatable."),
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error; log lines go to stderr.")]
Host = Annotated[str | None, typer.Option(help="Address to listen on; default bindAddress, or 127.0.0.1.")]
Store = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Store directory; without it messages live in memory only.")
]
NamesrvAddr = Annotated[
    str, typer.Option("--namesrv-addr", "-n", envvar="NAMESRV_ADDR", metavar="HOST:PORT", help="Name server address.")
]
UntilStdinCloses = Annotated[
    bool, typer.Option("--until-stdin-closes", help="Also stop when stdin ends, so as never to outlive the caller.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]
_DEFAULT_NAMESRV = "127.0.0.1:9876"


@app.command()
def serve(
    store: Store = None,
    host: Host = None,
    namesrv_port: Annotated[int, typer.Option(help="0 for any free port.", min=0, max=65535)] = 9876,
    broker_port: Annotated[
        int | None, typer.Option(help="0 for any free port; default listenPort, or 10911.", min=0, max=65535)
    ] = None,
    config: Config = None,
    set_: Set = None,
    until_stdin_closes: UntilStdinCloses = False,
    log_level: LogLevel = "warning",
) -> None:
    """Name server and broker in one process; prints one line, ``ready namesrv=... broker=... pid=...``, when both listen."""
    from sprocketmq.cli import servers

    servers.serve(
        store=store,
        host=host,
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        config=config,
        assignments=set_ or [],
        until_stdin_closes=until_stdin_closes,
        log_level=log_level,
    )


@app.command()
def namesrv(
    port: Annotated[
        int | None, typer.Option(help="0 for any free port; default listenPort, or 9876.", min=0, max=65535)
    ] = None,
    host: Host = None,
    config: Config = None,
    set_: Set = None,
    until_stdin_closes: UntilStdinCloses = False,
    log_level: LogLevel = "warning",
) -> None:
    """A name server alone; prints ``ready namesrv=... pid=...``."""
    from sprocketmq.cli import servers

    servers.namesrv(
        host=host,
        port=port,
        config=config,
        assignments=set_ or [],
        until_stdin_closes=until_stdin_closes,
        log_level=log_level,
    )


@app.command()
def broker(
    namesrv_addr: Annotated[
        str | None,
        typer.Option(
            "--namesrv-addr",
            "-n",
            envvar="NAMESRV_ADDR",
            metavar="HOST:PORT",
            help="Name server to register with, several separated by ';'; default namesrvAddr of --config.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="0 for any free port; default listenPort, or 10911.", min=0, max=65535)
    ] = None,
    store: Store = None,
    host: Host = None,
    config: Config = None,
    set_: Set = None,
    until_stdin_closes: UntilStdinCloses = False,
    log_level: LogLevel = "warning",
) -> None:
    """A broker alone; prints ``ready broker=... pid=...`` when it listens and is registered."""
    from sprocketmq.cli import servers

    servers.broker(
        namesrv_addr=namesrv_addr,
        port=port,
        store=store,
        host=host,
        config=config,
        assignments=set_ or [],
        until_stdin_closes=until_stdin_closes,
        log_level=log_level,
    )


@app.command()
def demo(
    rows: Annotated[int | None, typer.Option(help="Only the first N of the 336,776 flights.", min=1)] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where Parquet, picture and logs go.")] = Path("demo-out"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the broker's store, to look into it.")] = False,
    spark: Annotated[bool, typer.Option(help="Run the Spark pipeline (needs Java 17).")] = True,
) -> None:
    """A year of real flights through broker, consumer groups and Spark, reconciled to the message. Exit code 1 if a number is off."""
    from sprocketmq.cli.demo.run import run_demo

    raise typer.Exit(run_demo(rows=rows, out=out, keep=keep, spark=spark))


@app.command()
def lag(group: str, namesrv_addr: NamesrvAddr = _DEFAULT_NAMESRV, as_json: AsJson = False) -> None:
    """How far a consumer group is behind, queue by queue, its retry topic included."""
    from sprocketmq.cli.progress import show_lag

    show_lag(group, namesrv_addr, as_json=as_json)


@app.command()
def topics(namesrv_addr: NamesrvAddr = _DEFAULT_NAMESRV, as_json: AsJson = False) -> None:
    """The topics of the cluster with their queues and the number of messages in them."""
    from sprocketmq.cli.progress import show_topics

    show_topics(namesrv_addr, as_json=as_json)


@store_app.command("check")
def store_check(directory: Annotated[Path, typer.Argument(metavar="DIR")]) -> None:
    """Check that every consume queue entry and record of a store fits; exit code 1 if a law is broken. Changes nothing."""
    from sprocketmq.cli.store_check import check_store

    raise typer.Exit(check_store(directory))


@app.command()
def version() -> None:
    """The version of SprocketMQ."""
    from sprocketmq.version import __version__

    print(f"sprocketmq {__version__}")


def main() -> None:
    """Entry point of the ``sprocketmq`` script."""
    try:
        app()
    except RocketMQError as error:
        print(f"sprocketmq: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("sprocketmq: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
