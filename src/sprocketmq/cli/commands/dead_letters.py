# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq dead-letters``: list, show, replay and purge dead letters."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.absent_brokers import absent_masters
from sprocketmq.cli.frame.command_line import CommandGroup, options
from sprocketmq.cli.frame.messages import body_text
from sprocketmq.cli.frame.output import UNKNOWN, Column, Output, at
from sprocketmq.cli.frame.partly_done import PartlyDone
from sprocketmq.cli.frame.target import Target, group_argument
from sprocketmq.cli.frame.values import MOMENT, time_text
from sprocketmq.cli.frame.verbs import Change, deletes, reads
from sprocketmq.core.quantities import counted
from sprocketmq.core.resource_names import DLQ_PREFIX
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage
    from sprocketmq.client.dead_letters.dead_letters import DeadLetters

_EVERY: Final = 1_000

_conditions = options(
    click.option("--topic", help="Only letters that were first sent to this topic."),
    click.option("--key", help="Only letters with this key."),
    click.option("--tags", "--tag", "tags", help="Only letters with exactly these tags."),
    click.option(
        "--since",
        "since_ms",
        type=MOMENT,
        metavar="TIME",
        help="Only letters that became dead letters at this time or later; 5m means 5 minutes ago.",
    ),
    click.option(
        "--until",
        "until_ms",
        type=MOMENT,
        metavar="TIME",
        help="Only letters that became dead letters before this time.",
    ),
)


@click.group("dead-letters", cls=CommandGroup)
def dead_letters() -> None:
    """Look at dead letters, and send them again."""


@dead_letters.command("list")
@group_argument(metavar="[GROUP]", required=False)
@_conditions
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Maximum number to show.")
@reads
def list_letters(target: Target, output: Output, group: str | None, limit: int, **where: Any) -> None:
    """List dead letters.

    Without GROUP it lists the groups and how many dead letters each has. The oldest letter comes first. With --json, each line is one
    object.
    """
    if group is None:
        if any(value is not None for value in where.values()):
            raise ConfigurationError("conditions are given without a group; name the group whose dead letters to list")
        _list_groups(target, output)
        return
    shown = 0
    more = False
    reasons: Counter[str] = Counter()
    with target.dead_letters(group) as letters:
        for letter in letters.read(**where):
            reasons[letter.reason or UNKNOWN] += 1
            if shown == limit:
                more = True
                break
            shown += 1
            output.line(_as_dict(letter), escaped(_line(letter)))
        held = letters.count()
    with target.admin() as admin:
        absent_masters(admin)
    if not output.is_json:
        hint = ", give --limit to see more" if more else ""
        print(f"{shown:,} shown, group {group} has {counted(held, 'dead letter')}{hint}")
        if len(reasons) > 1 or (reasons and UNKNOWN not in reasons):
            for reason, count in reasons.most_common():
                print(escaped(f"{count:>7,}  {reason}"))


def _list_groups(target: Target, output: Output) -> None:
    with target.admin() as admin:
        topics = [one for one in admin.topic_summaries(with_system_topics=True) if one.topic.startswith(DLQ_PREFIX)]
        absent_masters(admin)
    rows = [
        {"group": one.topic.removeprefix(DLQ_PREFIX), "dead_letters": one.messages, "last_ms": one.last_message_ms}
        for one in sorted(topics, key=lambda one: -one.messages)
        if one.messages
    ]
    columns = (Column("group"), Column("dead letters", "dead_letters"), at("last", "last_ms"))
    output.rows(columns, rows, empty="no group has dead letters")


@dead_letters.command("show")
@group_argument(metavar="GROUP")
@click.argument("message_id", metavar="MESSAGE_ID")
@click.option("--body", is_flag=True, help="Print only the body, unchanged.")
@reads
def show_letter(target: Target, output: Output, group: str, message_id: str, body: bool) -> None:
    """Show one dead letter."""
    with target.dead_letters(group) as letters:
        letter = letters.get(message_id)
    message = letter.message
    if body:
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
        return
    if output.is_json:
        text = message.body.decode("utf-8", "backslashreplace")
        output.line({**_as_dict(letter), "properties": message.properties, "body": text}, "")
        return
    rows = [
        ("message id", letter.message_id),
        ("from topic", letter.origin_topic or UNKNOWN),
        ("reason", letter.reason or UNKNOWN),
        ("dead since", time_text(letter.dead_since_ms)),
        ("first sent", f"{time_text(message.born_timestamp_ms)} by {message.born_host}"),
        ("deliveries", str(letter.deliveries)),
        ("tags", message.tags or ""),
        ("keys", " ".join(message.keys)),
        ("first copy", letter.origin_offset_message_id or ""),
        ("this copy", f"{message.offset_message_id} ({message.message_queue} offset {message.queue_offset})"),
        *(("property", f"{name}={value}") for name, value in sorted(message.properties.items())),
        ("body", counted(len(message.body), "byte")),
    ]
    for name, value in rows:
        print(escaped(f"{name:<11} {value}".rstrip()))
    print(body_text(message.body))


@dead_letters.command("replay")
@group_argument(metavar="GROUP")
@click.argument("message_ids", nargs=-1, metavar="[MESSAGE_ID]...")
@click.option("--all", "everything", is_flag=True, help="All dead letters of the group.")
@_conditions
@click.option("--to-topic", metavar="TOPIC", help="Send them to this topic instead of their original topics.")
@click.option("--dry-run", is_flag=True, help="Only print what would be sent.")
@reads
def replay_letters(
    target: Target,
    output: Output,
    group: str,
    message_ids: tuple[str, ...],
    everything: bool,
    to_topic: str | None,
    dry_run: bool,
    **where: Any,
) -> None:
    """Send dead letters to their original topic again.

    Sends the letters with the given ids, or all that match the conditions, as they were first sent. Every group of the topic gets them.
    The dead letters themselves remain until the broker's retention deletes them. If one cannot be sent, the command stops there with exit
    code 4, or 1 if it was the first.
    """
    conditions = any(value is not None for value in where.values())
    if message_ids and (everything or conditions):
        raise ConfigurationError("message ids and conditions are both given; give one of the two")
    if not message_ids and not everything and not conditions:
        raise ConfigurationError("no dead letters are chosen; give message ids, conditions such as --topic, or --all")
    with target.dead_letters(group) as letters:
        chosen = (
            [letters.get(message_id) for message_id in dict.fromkeys(message_ids)]
            if message_ids
            else letters.read(**where)
        )
        done = 0
        for letter in chosen:
            try:
                place = _send_again(letters, letter, to_topic, dry_run)
            except RocketMQError as error:
                if not done or dry_run:
                    raise
                raise PartlyDone(
                    f"{done:,} replayed; {letter.message_id} and the letters after it were not: {error}"
                ) from error
            done += 1
            if output.is_json or message_ids or dry_run or done % _EVERY == 0:
                output.line({"message_id": letter.message_id, "to": place}, escaped(f"{letter.message_id} -> {place}"))
    _print_total(output, done, dry_run)


def _send_again(letters: DeadLetters, letter: DeadLetterMessage, to_topic: str | None, dry_run: bool) -> str:
    """Send one letter again. Returns the queue where it is stored, or with ``--dry-run`` the topic to which it would be sent."""
    if not dry_run:
        sent = letters.replay(letter, topic=to_topic)
        return f"{sent.message_queue}" if sent.status == "SEND_OK" else f"{sent.message_queue} ({sent.status})"
    if to_topic is None and letter.origin_topic is None:
        raise ConfigurationError("its original topic is not known; give --to-topic")
    return to_topic or letter.origin_topic or UNKNOWN


def _print_total(output: Output, done: int, dry_run: bool) -> None:
    if not output.is_json:
        print(f"{done:,} would be replayed" if dry_run else f"{done:,} replayed; the dead letters themselves remain")


@dead_letters.command("purge")
@group_argument(metavar="GROUP")
@deletes
def purge_letters(target: Target, change: Change, group: str) -> None:
    """Delete all dead letters of a group.

    RocketMQ cannot delete single messages, so the group's dead letter topic is deleted.
    """
    with target.dead_letters(group) as letters:
        held = letters.count()
        if not change.confirm(
            f"delete {counted(held, 'dead letter')} of group {group}", group=group, dead_letters=held
        ):
            return
        gone = letters.purge()
    change.done(f"deleted {counted(gone, 'dead letter')} of group {group}", group=group, dead_letters=gone)


def _line(letter: DeadLetterMessage) -> str:
    message = letter.message
    marks = [f"tags={message.tags}"] * bool(message.tags) + [f"keys={','.join(message.keys)}"] * bool(message.keys)
    marks += [f"reason={letter.reason}"] * bool(letter.reason)
    return (
        f"{letter.message_id}  {time_text(letter.dead_since_ms)}  {letter.origin_topic or '?'}  "
        f"{counted(letter.deliveries, 'try', 'tries')}  {counted(len(message.body), 'byte')}  {' '.join(marks)}"
    ).rstrip()


def _as_dict(letter: DeadLetterMessage) -> dict[str, Any]:
    message = letter.message
    return {
        "message_id": letter.message_id,
        "topic": letter.origin_topic,
        "reason": letter.reason,
        "dead_since_ms": letter.dead_since_ms,
        "born_timestamp_ms": message.born_timestamp_ms,
        "deliveries": letter.deliveries,
        "tags": message.tags,
        "keys": message.keys,
        "body_bytes": len(message.body),
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "offset_message_id": message.offset_message_id,
    }
