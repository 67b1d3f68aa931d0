"""The command line. ``sprocketmq --help`` lists the commands.

A command imports its modules when it runs, so ``serve`` listens within a fraction of a second and ``lag`` loads no broker. A mistake of the
user ends with one sentence on stderr and exit code 2, Ctrl-C with 130. A traceback is always a bug.

The file is long because it declares the options of all commands, most of them shared. A command has no logic here: it calls its module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from sprocketmq.errors import RocketMQError
from sprocketmq.extras import extra_of, missing_extra
from sprocketmq.logs import escaped

__all__ = ["app", "main"]

C = TypeVar("C", bound=Callable[..., Any])

_PORT: Final = click.IntRange(0, 65535)
_DEFAULT_NAMESRV: Final = "127.0.0.1:9876"


def _options(*options: Callable[[Any], Any]) -> Callable[[C], C]:
    """Several options as one decorator, in the order in which the help page shows them."""

    def decorate(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_store = click.option(
    "--store",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Store directory; without it messages live in memory only.",
)
_server_options = _options(
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
_namesrv_option = click.option(
    "--namesrv-addr",
    "-n",
    metavar="HOST:PORT",
    envvar="NAMESRV_ADDR",
    default=_DEFAULT_NAMESRV,
    show_default=True,
    help="Name server address.",
)
_question_options = _options(
    _namesrv_option,
    click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, for programs."),
)


@click.group(no_args_is_help=True, context_settings={"help_option_names": ["--help", "-h"]})
def app() -> None:
    """RocketMQ on one machine: name server and broker, a demo, and a look at topics and lag."""


@app.command()
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


@app.command()
@click.option("--port", type=_PORT, help="0 for any free port; default listenPort, or 9876.")
@_server_options
def namesrv(**settings: Any) -> None:
    """A name server alone.

    Prints "ready namesrv=... pid=..." when it listens.
    """
    from sprocketmq.cli.serve import servers

    servers.namesrv(**settings)


@app.command()
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
def broker(**settings: Any) -> None:
    """A broker alone.

    Prints "ready broker=... pid=..." when it listens and is registered.
    """
    from sprocketmq.cli.serve import servers

    servers.broker(**settings)


@app.command()
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


@app.command()
@click.argument("group")
@_question_options
def lag(group: str, namesrv_addr: str, as_json: bool) -> None:
    """How far a consumer group is behind, queue by queue, its retry topic included."""
    from sprocketmq.cli.progress import show_lag

    show_lag(group, namesrv_addr, as_json=as_json)


@app.command()
@_question_options
def topics(namesrv_addr: str, as_json: bool) -> None:
    """The topics of the cluster with their queues and the number of messages in them."""
    from sprocketmq.cli.progress import show_topics

    show_topics(namesrv_addr, as_json=as_json)


@app.command()
@click.option("--group", required=True, help="The producer group of the write, its option group.")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic that it writes to. Repeatable.")
@_namesrv_option
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=180, show_default=True, help="How long brokers may take to ask."
)
@click.option("--access-key", metavar="KEY", envvar="ROCKETMQ_ACCESS_KEY", help="Under access control.")
@click.option("--secret-key", metavar="KEY", envvar="ROCKETMQ_SECRET_KEY", help="Its secret.")
@click.option(
    "--option",
    "-o",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the write, as the query had it: tls=true, tlsTrustCertPath=ca.pem, secretKeyFile=keys.yml. Repeatable.",
)
def settle(topics: tuple[str, ...], timeout: float, options: tuple[str, ...], **named: Any) -> None:
    """Settle what a transactional Spark write left open that was killed and does not run again.

    Answers its brokers from the ledger until they have asked about every half message. Exit code 1 if they did not in time.
    """
    from sprocketmq.cli.settle import settle_halves

    sys.exit(settle_halves(topics=topics, timeout_s=timeout, assignments=options, **named))


@app.group("spark-checkpoint")
def spark_checkpoint() -> None:
    """Look at where a stopped Spark stream is in its queues, and move it.

    CHECKPOINT is its checkpointLocation, a local directory; a queue is TOPIC/BROKER/NUMBER. No query may run on it meanwhile, which Spark
    does not tell: with --group the brokers are asked whether one is online. Files are kept in CHECKPOINT/sprocketmq-before.
    """


_checkpoint = click.argument("location", metavar="CHECKPOINT")
_checkpoint_options = _options(
    click.option("--source", type=click.IntRange(0), help="Which source of the query, by its number in 'show'."),
    click.option("--group", help="The query's group: refuse while it is online."),
    _namesrv_option,
)


@spark_checkpoint.command("show")
@_checkpoint
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, for programs.")
def spark_checkpoint_show(location: str, as_json: bool) -> None:
    """Which batches are planned and done, and the next offset of every queue."""
    from sprocketmq.cli.checkpoint import show

    show(location, as_json=as_json)


@spark_checkpoint.command("rewind")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_rewind(**named: Any) -> None:
    """Read QUEUE again from OFFSET (a number, or earliest) on; its rows are written again."""
    from sprocketmq.cli.checkpoint import move

    move(named.pop("location"), named.pop("queue"), named.pop("offset"), forward=False, **named)


@spark_checkpoint.command("skip")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_skip(**named: Any) -> None:
    """Leave out what is in QUEUE before OFFSET (a number, or latest)."""
    from sprocketmq.cli.checkpoint import move

    move(named.pop("location"), named.pop("queue"), named.pop("offset"), forward=True, **named)


@spark_checkpoint.command("drop")
@_checkpoint
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option("--broker", metavar="NAME", help="All queues of this broker.")
@click.option("--topic", help="All queues of this topic; with --broker those that are of both.")
@_checkpoint_options
def spark_checkpoint_drop(location: str, queues: tuple[str, ...], **named: Any) -> None:
    """Forget queues that are gone for good. One that is still there begins again as a new one."""
    from sprocketmq.cli.checkpoint import drop

    drop(location, queues, **named)


@spark_checkpoint.command("finish")
@_checkpoint
@click.argument("how", type=click.Choice(["plan-anew", "done"]))
@click.option("--group", help="The query's group: refuse while it is online.")
@_namesrv_option
def spark_checkpoint_finish(location: str, how: str, group: str | None, namesrv_addr: str) -> None:
    """Do away with a batch that is planned and not done.

    plan-anew: it counts as done, without rows, and the batch after it begins where it began: what was written of it is written again.
    done: it counts as done, whatever was written of it. Neither where a query keeps state.
    """
    from sprocketmq.cli.checkpoint import finish

    finish(location, how, group=group, namesrv_addr=namesrv_addr)


@app.command("merge-ledger")
@click.argument("topic")
@click.option("--into", metavar="BROKER", required=True, help="The broker that holds the ledger from now on.")
@click.option(
    "--leave",
    metavar="QUERY",
    multiple=True,
    help="Leave out what the other brokers say of this query, when both decided the same batches. Repeatable.",
)
@click.option("--group", help="The producer group of the writes; default: the end of TOPIC.")
@_namesrv_option
@click.option("--access-key", metavar="KEY", envvar="ROCKETMQ_ACCESS_KEY", help="Under access control.")
@click.option("--secret-key", metavar="KEY", envvar="ROCKETMQ_SECRET_KEY", help="Its secret.")
@click.option(
    "--option", "-o", "options", metavar="NAME=VALUE", multiple=True, help="An option of the write. Repeatable."
)
def merge_ledger(topic: str, group: str | None, options: tuple[str, ...], **named: Any) -> None:
    """Make one of the ledger TOPIC of transactional Spark writes, when several brokers hold decisions.

    Stop the queries that write with it first. Copies what the brokers decided to one of them; the others only keep its place.
    """
    from sprocketmq.cli.settle import merge_decisions

    group = group or topic.removeprefix("SPROCKETMQ_DECISIONS_")
    sys.exit(merge_decisions(topic=topic, group=group, assignments=options, **named))


@app.command()
@click.option("--broker", metavar="HOST:PORT", required=True, help="The broker that gives its messages away.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=120,
    show_default=True,
    help="How long to wait for its slave; the broker serves on when it is over.",
)
@click.option(
    "--access-key", metavar="KEY", envvar="ROCKETMQ_ACCESS_KEY", help="An administrator's, under access control."
)
@click.option("--secret-key", metavar="KEY", envvar="ROCKETMQ_SECRET_KEY", help="Its secret.")
def handover(broker: str, timeout: float, access_key: str | None, secret_key: str | None) -> None:
    """Give a broker's messages to its Apache slave, and end the broker.

    Waits until the slave has all messages, topics, groups and offsets, refuses producers only for that moment. Exit code 1 if the
    slave did not get there in time; then nothing has changed.
    """
    from sprocketmq.cli.handover import hand_over

    sys.exit(hand_over(broker, timeout, access_key, secret_key))


_letter_conditions = _options(
    click.option("--topic", help="First sent to this topic."),
    click.option("--key", help="With this among its keys."),
    click.option("--tags", help="With exactly these tags."),
    click.option("--since", metavar="TIME", help="Dead since then: 2026-11-22T08:30:00, or milliseconds since 1970."),
    click.option("--until", metavar="TIME", help="Dead before then."),
)
_access_options = _options(
    click.option("--access-key", metavar="KEY", envvar="ROCKETMQ_ACCESS_KEY", help="Under access control."),
    click.option("--secret-key", metavar="KEY", envvar="ROCKETMQ_SECRET_KEY", help="Its secret."),
)


def _conditions(topic: str | None, key: str | None, tags: str | None, since: str | None, until: str | None) -> Any:
    from sprocketmq.cli.dead_letters import time_ms

    return {"topic": topic, "key": key, "tags": tags, "since_ms": time_ms(since), "until_ms": time_ms(until)}


@app.group("dead-letters")
def dead_letters() -> None:
    """What a consumer group gave up: look at it, send it again."""


@dead_letters.command("list")
@click.argument("group")
@_letter_conditions
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many to show.")
@_question_options
@_access_options
def dead_letters_list(
    group: str,
    namesrv_addr: str,
    as_json: bool,
    limit: int,
    access_key: str | None,
    secret_key: str | None,
    **conditions: Any,
) -> None:
    """The dead letters of GROUP, oldest first; with --json one object a line."""
    from sprocketmq.cli.dead_letters import list_letters

    where = _conditions(**conditions)
    list_letters(
        group, namesrv_addr, limit=limit, as_json=as_json, where=where, access_key=access_key, secret_key=secret_key
    )


@dead_letters.command("show")
@click.argument("group")
@click.argument("message_id")
@click.option("--body", is_flag=True, help="Only the body, byte for byte.")
@_question_options
@_access_options
def dead_letters_show(group: str, message_id: str, namesrv_addr: str, as_json: bool, body: bool, **access: Any) -> None:
    """All of one dead letter."""
    from sprocketmq.cli.dead_letters import show_letter

    show_letter(group, message_id, namesrv_addr, as_json=as_json, body=body, **access)


@dead_letters.command("replay")
@click.argument("group")
@click.argument("message_ids", nargs=-1, metavar="[MESSAGE_ID]...")
@click.option("--all", "everything", is_flag=True, help="All dead letters that are there now.")
@_letter_conditions
@click.option("--to-topic", metavar="TOPIC", help="Send them there instead of where each came from.")
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@_question_options
@_access_options
def dead_letters_replay(
    group: str,
    message_ids: tuple[str, ...],
    everything: bool,
    to_topic: str | None,
    dry_run: bool,
    namesrv_addr: str,
    as_json: bool,
    access_key: str | None,
    secret_key: str | None,
    **conditions: Any,
) -> None:
    """Send dead letters of GROUP again, to the topic they came from, as they were first sent.

    Those named by MESSAGE_ID, or all that fit the conditions. Every group of that topic gets them. The letters themselves stay until the
    broker's retention takes them. Exit code 1 if one could not be sent; those behind it are not tried then.
    """
    from sprocketmq.cli.dead_letters import replay_letters

    where = _conditions(**conditions)
    sys.exit(
        replay_letters(
            group,
            message_ids,
            namesrv_addr,
            everything=everything,
            to_topic=to_topic,
            dry_run=dry_run,
            as_json=as_json,
            where=where,
            access_key=access_key,
            secret_key=secret_key,
        )
    )


@app.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--message", metavar="ID|KEY", help="The story of a message, by its id or one of its keys.")
@click.option("--queue", metavar="TOPIC@BROKER:ID", help="The story of a queue.")
@click.option("--from", "begin", metavar="TIME", help="HH:MM:SS, YYYY-MM-DDTHH:MM:SS, or milliseconds since 1970.")
@click.option("--to", "end", metavar="TIME", help="Likewise.")
@click.option("--why", is_flag=True, help="Also say why.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def replay(file: Path, **question: Any) -> None:
    """Run a consumer's record (record=FILE) again, and show what it decided and why.

    Without options: a summary. Exit code 1 if this version decides otherwise than the record, or nothing is found.
    """
    from sprocketmq.cli.replay import replay_record

    sys.exit(replay_record(file, **question))


@app.group()
def store() -> None:
    """Look into a store directory."""


@store.command("check")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def store_check(directory: Path, as_json: bool) -> None:
    """Check that log, queues, index, checkpoint and offsets of a store fit each other.

    Changes nothing; exit code 1 if a law is broken.
    """
    from sprocketmq.cli.store_check import check_store

    sys.exit(check_store(directory, as_json))


@store.command("inspect")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--offset", type=int, help="Show the record at this commit log offset.")
@click.option("--topic", help="Show a queue of this topic, or, with --key, its messages with a key.")
@click.option("--queue", type=click.IntRange(0), help="Queue id, 0 by default.")
@click.option("--from", "begin", type=click.IntRange(0), help="First queue offset to show; default: the last ones.")
@click.option("--count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many to show.")
@click.option("--key", help="Show the newest messages with this key or unique key.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list instead of text.")
def store_inspect(directory: Path, **options: Any) -> None:
    """Show records, queues or keys of a store, also while a broker runs on it.

    Without options: all queues with their offsets. Changes nothing; exit code 1 if nothing is found.
    """
    from sprocketmq.cli.store_inspect import inspect_store

    sys.exit(inspect_store(directory, **options))


@app.command()
def version() -> None:
    """The version of SprocketMQ."""
    from sprocketmq.version import __version__

    print(f"sprocketmq {__version__}")


def main() -> None:
    """Entry point of the ``sprocketmq`` script."""
    try:
        app(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except RocketMQError as error:
        print(escaped(f"sprocketmq: {error}"), file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        print(f"sprocketmq: {missing_extra('this command', extra, error)}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        print("sprocketmq: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
