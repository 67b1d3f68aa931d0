# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq tail``: printing the messages of a topic, without a consumer group and without progress."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.messages import as_dict, message_line
from sprocketmq.cli.frame.output import Output, note
from sprocketmq.cli.frame.target import Target, topic_argument
from sprocketmq.cli.frame.values import MOMENT, QUEUE, queue_of
from sprocketmq.cli.frame.verbs import reads
from sprocketmq.core.quantities import counted
from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.core.group.subscription import FilterExpression
    from sprocketmq.wire.records.message import MessageExt, MessageQueue

_LAST: Final = 10
_SEARCHED: Final = 1_000  # messages of each queue that are searched for the last ones that match a filter
_PAUSE_S: Final = 0.3


@click.command()
@topic_argument(metavar="TOPIC")
@click.option("--follow", "-f", is_flag=True, help="Continue with new messages, until Ctrl-C.")
@click.option("--since", type=MOMENT, metavar="TIME", help="Begin at this store time; 5m means 5 minutes ago.")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest stored message.")
@click.option("--last", type=click.IntRange(0, 10_000), help=f"Begin with the last N messages; default: {_LAST}.")
@click.option("--tag", help="Only messages with this tag; 'A || B' matches either.")
@click.option(
    "--sql", metavar="CONDITION", help="Only messages that match this SQL92 filter, such as \"a > 5 AND b = 'x'\"."
)
@click.option("--queue", type=QUEUE, metavar="BROKER/NUMBER", help="Only messages of this queue.")
@click.option("--count", type=click.IntRange(1), help="Stop after this number of messages.")
@reads
def tail(
    target: Target,
    output: Output,
    topic: str,
    follow: bool,
    since: int | None,
    from_beginning: bool,
    last: int | None,
    tag: str | None,
    sql: str | None,
    queue: tuple[str, int] | None,
    count: int | None,
) -> None:
    """Print the last messages of a topic; follow it with -f.

    Does not affect any consumer group. Messages of a queue are printed in order. Messages of several queues that are read together are
    sorted by their store time.
    """
    if sum((since is not None, from_beginning, last is not None)) > 1:
        raise ConfigurationError("one of --since, --from-beginning and --last is allowed")
    if tag is not None and sql is not None:
        raise ConfigurationError("--tag and --sql are both given; give one of the two")
    expression = _expression(tag, sql)
    shown = 0
    with target.admin() as admin:
        queues = [queue_of(topic, queue)] if queue is not None else admin.queues(topic)
        if queue is None:
            _note_unread(admin, topic, queues)
        if since is not None:
            positions = {one: admin.offset_by_time(one, since) for one in queues}
            stream = _onward(admin, positions, expression, follow, since)
        elif from_beginning:
            stream = _onward(admin, {one: admin.min_offset(one) for one in queues}, expression, follow)
        else:
            stream = _last_and_onward(admin, queues, expression, follow, _LAST if last is None else last)
        for message in stream:
            output.line(as_dict(message) if output.is_json else {}, message_line(message))
            shown += 1
            if count is not None and shown >= count:
                return
    if not shown and not output.is_json:
        note("no message found")


def _note_unread(admin: Admin, topic: str, readable: list[MessageQueue]) -> None:
    held = {queue: at.max_offset - at.min_offset for queue, at in admin.topic_stats(topic).items()}
    unread = {queue: count for queue, count in held.items() if count > 0 and queue not in readable}
    if unread:
        note(
            f"sprocketmq: not shown are {counted(sum(unread.values()), 'message')} of {', '.join(map(str, unread))}, which topic {topic} "
            f"does not let read; sprocketmq topic alter {topic} --read-queues {max(one.queue_id for one in unread) + 1} does"
        )


def _expression(tag: str | None, sql: str | None) -> FilterExpression | str:
    if sql is None:
        return tag or "*"
    from sprocketmq.core.group.subscription import sql92

    return sql92(sql)


def _onward(
    admin: Admin, positions: dict[MessageQueue, int], expression: FilterExpression | str, follow: bool, since: int = 0
) -> Iterator[MessageExt]:
    """Messages from these positions on: up to the current ends of the queues, or endlessly with ``follow``."""
    ends = {} if follow else {queue: admin.max_offset(queue) for queue in positions}
    reading = positions if follow else {queue: at for queue, at in positions.items() if at < ends[queue]}
    while reading:
        found, after = admin.read_onward(reading, expression=expression)
        for message in found:
            if message.store_timestamp_ms >= since and (follow or message.queue_offset < ends[message.message_queue]):
                yield message
        moved = after != reading
        reading = after if follow else {queue: at for queue, at in after.items() if reading[queue] < at < ends[queue]}
        if follow and not found and not moved:
            time.sleep(_PAUSE_S)


def _last_and_onward(
    admin: Admin, queues: list[MessageQueue], expression: FilterExpression | str, follow: bool, last: int
) -> Iterator[MessageExt]:
    ends = {queue: admin.max_offset(queue) for queue in queues}
    if last:
        searched = last if expression == "*" else _SEARCHED
        begins = {queue: max(0, end - searched) for queue, end in ends.items()}
        found: list[Any] = [
            message
            for message in _onward(admin, begins, expression, False)
            if message.queue_offset < ends[message.message_queue]
        ]
        found.sort(key=lambda message: (message.store_timestamp_ms, message.broker_name, message.commit_log_offset))
        yield from found[-last:]
    if follow:
        yield from _onward(admin, ends, expression, True)
