# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq group reset | clone``: changing the offsets from which a group consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.output import Column, note
from sprocketmq.cli.frame.target import Target, group_argument
from sprocketmq.cli.frame.values import QUEUE, moment_ms, queue_of, time_text, value_type
from sprocketmq.cli.frame.verbs import Change, deletes
from sprocketmq.core.quantities import counted
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.errors import ConfigurationError, RequestNotServed

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.wire.records.message import MessageQueue

_COLUMNS: Final = (
    Column("topic"),
    Column("broker", "broker_name"),
    Column("queue", "queue_id"),
    Column("was at", "from_offset", none="none"),
    Column("continues at", "to_offset"),
)


def _place(value: Any) -> str | int:
    return value if value in ("earliest", "latest") else moment_ms(value, -1, ", earliest and latest")


_PLACE: Final = value_type("place", _place)


@click.command()
@group_argument(metavar="GROUP")
@click.option("--topic", metavar="TOPIC", required=True, help="The topic.")
@click.option(
    "--to",
    "place",
    type=_PLACE,
    metavar="earliest|latest|TIME",
    help="Continue there in all queues of the topic; 5m means 5 minutes ago.",
)
@click.option("--queue", type=QUEUE, metavar="BROKER/NUMBER", help="Reset only this queue; needs --offset.")
@click.option("--offset", type=click.IntRange(0), help="Continue at this offset; needs --queue.")
@deletes
def reset(
    target: Target,
    change: Change,
    group: str,
    topic: str,
    place: str | int | None,
    queue: tuple[str, int] | None,
    offset: int | None,
) -> None:
    """Reset the offsets of a group in a topic.

    The group consumes messages again from a time on, or skips messages. Its members may be online.
    """
    if (place is None) == (offset is None) or (queue is None) != (offset is None):
        raise ConfigurationError(
            "no new offset is given; give --to earliest, latest or a TIME for the whole topic, or --queue with --offset for one queue"
        )
    with target.admin() as admin:
        if queue is not None and offset is not None:
            where = queue_of(topic, queue)
            end = admin.max_offset(where)
            if offset > end:
                raise ConfigurationError(
                    f"--offset is {offset:,}, and queue {where} ends at {end:,}; 0 to {end:,} are allowed"
                )
            plan = {where: offset}
            position = f"queue {where} at offset {offset:,}"
        else:
            assert place is not None
            plan = _plan(admin, topic, place)
            position = f"{topic} at {place if isinstance(place, str) else time_text(place)}"
        before = {one: at.consumer_offset for one, at in admin.consumer_progress(group, topic).items()}
        rows = _rows(plan, before)
        back = sum(max(0, _moved(row)) for row in rows)
        skipped = sum(max(0, -_moved(row)) for row in rows)
        if not change.output.is_json:
            change.output.table(_COLUMNS, rows)
        effect = f"{back:,} messages are consumed again, {skipped:,} are skipped"
        if not change.confirm(f"let group {group} continue in {position}: {effect}", group=group, queues=rows):
            return
        if queue is not None and offset is not None:
            admin.reset_offset(group, queue_of(topic, queue), offset)
            moved = plan
        elif place == "latest":
            moved = admin.skip_accumulated(group, topic)
        else:
            moved = admin.reset_offset_by_time(group, topic, 0 if isinstance(place, str) or place is None else place)
    change.done(f"group {group} continues in {position}: {effect}", group=group, queues=_rows(moved, before))


def _plan(admin: Admin, topic: str, place: str | int) -> dict[MessageQueue, int]:
    plan = {}
    for queue in admin.queues(topic):
        if place == "earliest":
            plan[queue] = admin.min_offset(queue)
        elif place == "latest":
            plan[queue] = admin.max_offset(queue)
        else:
            assert isinstance(place, int)
            plan[queue] = admin.offset_by_time(queue, place)
    return plan


def _rows(plan: dict[MessageQueue, int], before: dict[MessageQueue, int]) -> list[dict[str, Any]]:
    rows = []
    for queue, offset in sorted(plan.items(), key=lambda item: item[0]):
        was = before.get(queue, -1)
        rows.append(
            {
                "topic": queue.topic,
                "broker_name": queue.broker_name,
                "queue_id": queue.queue_id,
                "from_offset": was if was >= 0 else None,
                "to_offset": offset,
            }
        )
    return rows


def _moved(row: dict[str, Any]) -> int:
    """How many messages are consumed again; negative if they are skipped. 0 if the group had no progress there."""
    return 0 if row["from_offset"] is None else row["from_offset"] - row["to_offset"]


@click.command()
@group_argument("source", metavar="SOURCE")
@click.argument("destination", metavar="DESTINATION")
@click.option("--topic", metavar="TOPIC", help="Only in this topic; default: in all topics of SOURCE.")
@deletes
def clone(target: Target, change: Change, source: str, destination: str, topic: str | None) -> None:
    """Copy the offsets of one group to another.

    No member of DESTINATION may be online. DESTINATION is created if it does not exist.
    """
    with target.admin() as admin:
        progress = admin.consumer_progress(source, topic)
        plan = {
            queue: at.consumer_offset
            for queue, at in progress.items()
            if at.consumer_offset >= 0 and not is_retry_topic(queue.topic)
        }
        if not plan:
            raise ConfigurationError(
                f"group {source!r} has no progress{f' in {topic}' if topic else ''}, so there is nothing to copy"
            )
        try:
            exists = destination in admin.groups()
        except RequestNotServed:  # a proxy lists no groups, and a broker behind it refuses offsets of an unknown one
            exists = True
        online = admin.consumer_ids(destination) if exists else []
        if online:
            raise ConfigurationError(
                f"group {destination!r} has members online ({', '.join(online)}), which would overwrite it; stop them first"
            )
        known = admin.consumer_progress(destination, topic) if exists else {}
        before = {queue: at.consumer_offset for queue, at in known.items()}
        rows = _rows(plan, before)
        if not change.output.is_json:
            change.output.table(_COLUMNS, rows)
        sentence = f"copy the offsets of group {source} to group {destination}, in {counted(len(plan), 'queue')}"
        if not change.confirm(sentence, group=destination, queues=rows):
            return
        if not exists:
            note(f"sprocketmq: group {destination} did not exist and is created")
            admin.create_group(destination)
        cloned = admin.clone_offsets(source, destination, topic)
    change.done(
        f"copied the offsets of group {source} to group {destination}, in {counted(len(cloned), 'queue')}",
        group=destination,
        queues=_rows(cloned, before),
    )
