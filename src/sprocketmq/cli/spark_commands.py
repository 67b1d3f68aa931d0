# SPDX-License-Identifier: Apache-2.0
"""The commands ``settle``, ``merge-ledger`` and ``spark-checkpoint``, for stopped Spark queries, with their options."""

from __future__ import annotations

import sys
from typing import Any

import click

from sprocketmq.cli.frame.command_line import CommandGroup, options
from sprocketmq.cli.frame.target import Target, connects_without_timeout


@click.command()
@click.option("--group", required=True, help="The producer group of the write (its option 'group').")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic to which it writes. Repeatable.")
@connects_without_timeout
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=180,
    show_default=True,
    help="How long to wait for the brokers' check-backs.",
)
@click.option(
    "--option",
    "-o",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the write as in the query, such as tls=true or secretKeyFile=keys.yml. Repeatable.",
)
def settle(topics: tuple[str, ...], timeout: float, options: tuple[str, ...], **named: Any) -> None:
    """Commit or roll back half messages of a killed write.

    Answers the brokers' check-backs from the ledger until they have asked about every half message of the transactional write. Exit code 1
    if they have not within --timeout.
    """
    from sprocketmq.cli.settle import settle_half_messages

    sys.exit(settle_half_messages(topics=topics, timeout_s=timeout, assignments=options, **named))


@click.group("spark-checkpoint", cls=CommandGroup)
def spark_checkpoint() -> None:
    """Show and change the checkpoint of a stopped stream.

    CHECKPOINT is the checkpointLocation of the query, a local directory. A queue is TOPIC/BROKER/NUMBER. No query may run with this
    checkpoint; Spark cannot report that, so give --group, and the brokers are asked whether the query's group is online. Changed files are
    first copied to CHECKPOINT/sprocketmq-before.
    """


_checkpoint = click.argument("location", metavar="CHECKPOINT")
_checkpoint_options = options(
    click.option("--source", help="The name or number of the source, as 'show' prints it."),
    click.option("--group", help="The query's group; the command refuses if it is online."),
    connects_without_timeout,
)


@spark_checkpoint.command("show")
@_checkpoint
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def spark_checkpoint_show(location: str, as_json: bool) -> None:
    """Show planned and finished batch, and offsets by queue.

    The offset of a queue is the offset of the next message to read.
    """
    from sprocketmq.cli.checkpoint import show

    show(location, as_json=as_json)


@spark_checkpoint.command("rewind")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_rewind(**named: Any) -> None:
    """Move a queue back to an offset.

    The query reads the messages from there on again, and writes their rows again. OFFSET is a number, or earliest.
    """
    from sprocketmq.cli.checkpoint import move

    move(named.pop("location"), named.pop("queue"), named.pop("offset"), forward=False, **named)


@spark_checkpoint.command("skip")
@_checkpoint
@click.argument("queue")
@click.argument("offset")
@_checkpoint_options
def spark_checkpoint_skip(**named: Any) -> None:
    """Move a queue forward to an offset.

    The query does not read the messages before it. OFFSET is a number, or latest.
    """
    from sprocketmq.cli.checkpoint import move

    move(named.pop("location"), named.pop("queue"), named.pop("offset"), forward=True, **named)


@spark_checkpoint.command("drop")
@_checkpoint
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option("--broker", metavar="NAME", help="All queues of this broker.")
@click.option("--topic", help="All queues of this topic; with --broker, only those on that broker.")
@_checkpoint_options
def spark_checkpoint_drop(location: str, queues: tuple[str, ...], **named: Any) -> None:
    """Remove queues that no longer exist.

    A queue that still exists is then read like a new queue of its topic.
    """
    from sprocketmq.cli.checkpoint import drop

    drop(location, queues, **named)


@spark_checkpoint.command("finish")
@_checkpoint
@click.argument("how", type=click.Choice(["plan-anew", "done"]))
@click.option("--group", help="The query's group; the command refuses if it is online.")
@connects_without_timeout
def spark_checkpoint_finish(location: str, how: str, group: str | None, target: Target) -> None:
    """Finish a batch that is planned and not done.

    plan-anew: the batch counts as done without rows, and the next batch begins where it began; rows that it already wrote are written
    again. done: the batch counts as done; rows that it has not written are lost. Neither is possible for a query with state.
    """
    from sprocketmq.cli.checkpoint import finish

    finish(location, how, group=group, target=target)


@click.command("merge-ledger")
@click.argument("topic")
@click.option("--into", metavar="BROKER", required=True, help="The broker that is to hold the ledger.")
@click.option(
    "--leave",
    metavar="QUERY",
    multiple=True,
    help="Ignore the other brokers' decisions about this query, if they contradict. Repeatable.",
)
@click.option("--group", help="The producer group of the writes; default: the last part of TOPIC.")
@connects_without_timeout
@click.option(
    "--option", "-o", "options", metavar="NAME=VALUE", multiple=True, help="An option of the write. Repeatable."
)
def merge_ledger(topic: str, group: str | None, options: tuple[str, ...], **named: Any) -> None:
    """Merge a ledger that is on several brokers.

    Copies the decisions on all brokers to one of them and leaves an empty placeholder on the others. Stop the queries that use the ledger
    first.
    """
    from sprocketmq.cli.settle import merge_ledgers

    group = group or topic.removeprefix("SPROCKETMQ_DECISIONS_")
    sys.exit(merge_ledgers(topic=topic, group=group, assignments=options, **named))
