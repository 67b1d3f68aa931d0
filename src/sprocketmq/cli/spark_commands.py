"""Stopped Spark queries: the options of ``settle``, ``merge-ledger`` and ``spark-checkpoint``."""

from __future__ import annotations

import sys
from typing import Any

import click

from sprocketmq.cli.frame.command_line import CommandGroup, options
from sprocketmq.cli.frame.target import Target, secures

__all__ = ["merge_ledger", "settle", "spark_checkpoint"]


@click.command()
@click.option("--group", required=True, help="The producer group of the write, its option group.")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic that it writes to. Repeatable.")
@secures
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=180, show_default=True, help="How long brokers may take to ask."
)
@click.option(
    "--option",
    "-o",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the write, as the query had it: tls=true, tlsTrustCertPath=ca.pem, secretKeyFile=keys.yml. Repeatable.",
)
def settle(topics: tuple[str, ...], timeout: float, options: tuple[str, ...], **named: Any) -> None:
    """Settle what a killed transactional write left open.

    Answers its brokers from the ledger until they have asked about every half message. Exit code 1 if they did not in time.
    """
    from sprocketmq.cli.settle import settle_halves

    sys.exit(settle_halves(topics=topics, timeout_s=timeout, assignments=options, **named))


@click.group("spark-checkpoint", cls=CommandGroup)
def spark_checkpoint() -> None:
    """Look at where a stopped stream is, and move it.

    CHECKPOINT is its checkpointLocation, a local directory; a queue is TOPIC/BROKER/NUMBER. No query may run on it meanwhile, which Spark
    does not tell: with --group the brokers are asked whether one is online. Files are kept in CHECKPOINT/sprocketmq-before.
    """


_checkpoint = click.argument("location", metavar="CHECKPOINT")
_checkpoint_options = options(
    click.option("--source", type=click.IntRange(0), help="Which source of the query, by its number in 'show'."),
    click.option("--group", help="The query's group: refuse while it is online."),
    secures,
)


@spark_checkpoint.command("show")
@_checkpoint
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, for programs.")
def spark_checkpoint_show(location: str, as_json: bool) -> None:
    """Which batches are done, and where every queue is.

    Also which batch is planned; the next offset of every queue.
    """
    from sprocketmq.cli.checkpoint import show

    show(location, as_json=as_json)


@spark_checkpoint.command("rewind")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_rewind(**named: Any) -> None:
    """Read a queue again from an offset on.

    OFFSET is a number, or earliest. Its rows are written again.
    """
    from sprocketmq.cli.checkpoint import move

    move(named.pop("location"), named.pop("queue"), named.pop("offset"), forward=False, **named)


@spark_checkpoint.command("skip")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_skip(**named: Any) -> None:
    """Leave out what is in a queue before an offset.

    OFFSET is a number, or latest.
    """
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
@secures
def spark_checkpoint_finish(location: str, how: str, group: str | None, target: Target) -> None:
    """Do away with a batch that is planned and not done.

    plan-anew: it counts as done, without rows, and the batch after it begins where it began: what was written of it is written again.
    done: it counts as done, whatever was written of it. Neither where a query keeps state.
    """
    from sprocketmq.cli.checkpoint import finish

    finish(location, how, group=group, target=target)


@click.command("merge-ledger")
@click.argument("topic")
@click.option("--into", metavar="BROKER", required=True, help="The broker that holds the ledger from now on.")
@click.option(
    "--leave",
    metavar="QUERY",
    multiple=True,
    help="Leave out what the other brokers say of this query, when both decided the same batches. Repeatable.",
)
@click.option("--group", help="The producer group of the writes; default: the end of TOPIC.")
@secures
@click.option(
    "--option", "-o", "options", metavar="NAME=VALUE", multiple=True, help="An option of the write. Repeatable."
)
def merge_ledger(topic: str, group: str | None, options: tuple[str, ...], **named: Any) -> None:
    """Make one of a ledger that lies on several brokers.

    Stop the queries that write with it first. Copies what the brokers decided to one of them; the others only keep its place.
    """
    from sprocketmq.cli.settle import merge_decisions

    group = group or topic.removeprefix("SPROCKETMQ_DECISIONS_")
    sys.exit(merge_decisions(topic=topic, group=group, assignments=options, **named))
