# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq topic``: list, show, create, alter, perm, delete."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sprocketmq.cli.frame.absent_brokers import absent_masters
from sprocketmq.cli.frame.command_line import CommandGroup, options
from sprocketmq.cli.frame.output import Column, Output, at, note, perm
from sprocketmq.cli.frame.target import Target, topic_argument
from sprocketmq.cli.frame.values import PAIR, PERMISSION, permission_text
from sprocketmq.cli.frame.verbs import Change, Where, changes, deletes, on_brokers, place, reads
from sprocketmq.core.quantities import counted
from sprocketmq.errors import ConfigurationError, RequestNotServed, TopicNotExist

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sprocketmq.client.admin import Admin
    from sprocketmq.wire.bodies import QueueData, TopicConfig
    from sprocketmq.wire.records.message import MessageQueue

C = TypeVar("C", bound=Callable[..., Any])

_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
_COUNT: Final = click.IntRange(1, 65_535)


def _with_attributes(command: C) -> C:
    """Pass ``attributes`` in the form that 5.x brokers expect."""

    @functools.wraps(command)
    def changing(*args: Any, kind: str | None, attributes: tuple[tuple[str, str], ...], **named: Any) -> Any:
        changed = {f"+{name}" if value else f"-{name}": value for name, value in attributes}
        return command(*args, attributes=changed | ({"+message.type": kind.upper()} if kind else {}), **named)

    return options(  # type: ignore[return-value]
        click.option(
            "--type", "kind", type=click.Choice(_TYPES, case_sensitive=False), help="The type of its messages (5.x)."
        ),
        click.option(
            "--attribute",
            "attributes",
            type=PAIR,
            multiple=True,
            help="An attribute, NAME=VALUE; an empty value removes it (5.x). Repeatable.",
        ),
    )(changing)


@click.group(cls=CommandGroup)
def topic() -> None:
    """List, show, create, change and delete topics."""


@topic.command("list")
@click.option("--all", "with_all", is_flag=True, help="Include system topics, retry topics and dead letter topics.")
@click.option("--cluster", metavar="NAME", help="Only topics of this cluster.")
@click.option("--match", metavar="PATTERN", default="*", help="Only names that match this pattern, such as 'order*'.")
@reads
def list_topics(target: Target, output: Output, with_all: bool, cluster: str | None, match: str) -> None:
    """List the topics with their numbers of queues and messages."""
    with target.admin() as admin:
        found = admin.topic_summaries(cluster=cluster, with_system_topics=with_all)
        absent_masters(admin)
    rows = [
        {
            "topic": one.topic,
            "queues": one.read_queues,
            "write_queues": one.write_queues,
            "messages": one.messages,
            "perm": one.perm,
            "brokers": list(one.brokers),
            "last_message_ms": one.last_message_ms,
        }
        for one in found
        if fnmatch.fnmatchcase(one.topic, match)
    ]
    columns = [
        Column("topic"),
        Column("queues"),
        Column("messages"),
        Column("write queues", "write_queues", wide=True),
        perm(wide=True),
        at("last message", "last_message_ms", wide=True, none="none"),
        Column("brokers", wide=True),
    ]
    output.rows(columns, rows, empty="no topics; --all includes system topics")


@topic.command("show")
@topic_argument("name", metavar="TOPIC")
@reads
def show_topic(target: Target, output: Output, name: str) -> None:
    """Show settings, queues and consumer groups of a topic."""
    traffic = None
    with target.admin() as admin:
        stats = admin.topic_stats(name)
        absent_masters(admin)
        try:
            brokers = [
                {**_queues_row(broker, config), "order": config.order, "attributes": dict(config.attributes)}
                for broker, config in sorted(admin.topic_config(name).items())
            ]
            traffic = admin.topic_traffic(name)
        except RequestNotServed as error:
            brokers = [
                {**_queues_row(data.broker_name, data), "order": None, "attributes": None}
                for data in sorted(admin.route(name).queue_datas, key=lambda data: data.broker_name)
            ]
            note(f"sprocketmq: attributes, rates and consumer groups cannot be shown: {error}")
    record = {
        "topic": name,
        "messages": sum(one.max_offset - one.min_offset for one in stats.values()),
        "in_tps": traffic[0].in_tps if traffic is not None else None,
        "brokers": brokers,
        "queues": [
            {
                "broker_name": queue.broker_name,
                "queue_id": queue.queue_id,
                "min_offset": offsets.min_offset,
                "max_offset": offsets.max_offset,
                "messages": offsets.max_offset - offsets.min_offset,
                "last_message_ms": offsets.last_update_timestamp or None,
            }
            for queue, offsets in stats.items()
        ],
        "groups": [
            {"group": one.group, "lag": one.accumulation, "out_tps": one.out_tps}
            for one in traffic
            if one.group is not None
        ]
        if traffic is not None
        else None,
    }
    output.record(_SHOWN, record, _SHOWN_TABLES)


def _queues_row(broker: str, of: TopicConfig | QueueData) -> dict[str, Any]:
    counts = {"read_queues": of.read_queue_nums, "write_queues": of.write_queue_nums}
    return {"broker_name": broker, **counts, "perm": of.perm}


_SHOWN: Final = (Column("topic"), Column("messages"), Column("messages/s in", "in_tps"))
_SHOWN_TABLES: Final = (
    (
        "settings",
        (
            Column("broker", "broker_name"),
            Column("read queues", "read_queues"),
            Column("write queues", "write_queues"),
            perm(),
            Column("ordered", "order"),
            Column(
                "attributes", text=lambda found: ", ".join(f"{name}={value}" for name, value in sorted(found.items()))
            ),
        ),
        "brokers",
    ),
    (
        "queues",
        (
            Column("broker", "broker_name"),
            Column("queue", "queue_id"),
            Column("first offset", "min_offset"),
            Column("end offset", "max_offset"),
            Column("messages"),
            at("last message", "last_message_ms", none="none"),
        ),
        "queues",
    ),
    ("consumer groups", (Column("group"), Column("lag"), Column("messages/s out", "out_tps")), "groups"),
)


@topic.command("create")
@click.argument("name", metavar="TOPIC")
@click.option("--queues", type=_COUNT, default=8, show_default=True, help="Number of queues on each broker.")
@click.option("--read-queues", type=_COUNT, help="Number of read queues; default: --queues.")
@click.option("--write-queues", type=_COUNT, help="Number of write queues; default: --queues.")
@click.option("--perm", type=PERMISSION, default="rw", show_default=True, help="Permission: rw, r, w or none.")
@click.option("--order", is_flag=True, help="Mark the topic as ordered.")
@_with_attributes
@on_brokers
@changes
def create_topic(
    target: Target, change: Change, name: str, attributes: dict[str, str], where: Where, **settings: Any
) -> None:
    """Create a topic.

    It is an error if the topic exists; 'topic alter' changes an existing one.
    """
    from sprocketmq.client.settings.validators import check_topic

    check_topic(name)
    what = f"topic {name} with {counted(settings['write_queues'] or settings['queues'], 'queue')}"
    with target.admin() as admin:
        with contextlib.suppress(TopicNotExist):
            if any(
                where["cluster"] in (None, one.cluster)
                and where["broker"] in (None, one.broker_name, *one.broker_addrs.values())
                for one in admin.route(name).broker_datas
            ):
                raise ConfigurationError(f"topic {name!r} exists already; sprocketmq topic alter changes it")
        _check_attributes(admin, attributes, where["broker"])
        if not change.confirm(f"create {what} on {place(where)}", topic=name):
            return
        admin.create_topic(name, attributes=attributes, **settings, **where)
        brokers = sorted(admin.topic_config(name))
    change.done(f"created {what} on {', '.join(brokers)}", topic=name, brokers=brokers)


def _check_attributes(admin: Admin, attributes: dict[str, str], broker: str | None) -> None:
    """Raises ConfigurationError if a broker is older than 5.x and would ignore them."""
    if not attributes:
        return
    for one in [broker] if broker else [one.address for one in admin.brokers() if one.broker_id == 0]:
        if not admin.speaks_5x(one):
            raise ConfigurationError(
                f"broker {one} is older than RocketMQ 5 and does not support topic attributes; omit --type and --attribute"
            )


@topic.command("alter")
@topic_argument("name", metavar="TOPIC")
@click.option("--queues", type=_COUNT, help="Number of queues on each broker.")
@click.option("--read-queues", type=_COUNT, help="Number of read queues.")
@click.option("--write-queues", type=_COUNT, help="Number of write queues.")
@click.option("--perm", type=PERMISSION, help="Permission: rw, r, w or none.")
@click.option("--order/--no-order", default=None, help="Whether the topic is marked as ordered.")
@_with_attributes
@on_brokers
@deletes
def alter_topic(
    target: Target,
    change: Change,
    name: str,
    queues: int | None,
    attributes: dict[str, str],
    where: Where,
    **settings: Any,
) -> None:
    """Change the settings of a topic.

    What no option names stays as it is. To reduce the number of queues, reduce --write-queues first, and --read-queues when the messages
    of the other queues have been consumed. If messages would become unreadable, the command asks first.
    """
    settings = {key: queues if value is None and "queues" in key else value for key, value in settings.items()}
    wanted = {key: value for key, value in settings.items() if value is not None}
    if not wanted and not attributes:
        raise ConfigurationError(
            "nothing to change is given; one of --queues, --perm, --order, --type and --attribute is needed"
        )
    with target.admin() as admin:
        _check_attributes(admin, attributes, where["broker"])
        now = admin.topic_config(name)
        perm_text = {key: permission_text(value) for key, value in wanted.items() if key == "perm"}
        changed_to = {**wanted, **perm_text, **attributes}
        sentence = f"topic {name}: " + ", ".join(
            f"{key.replace('_', ' ')} {value}" for key, value in changed_to.items()
        )
        hidden = _hidden(admin, name, wanted["read_queues"], now, where["broker"]) if "read_queues" in wanted else ""
        what = f"change {sentence}, on {', '.join(sorted(now))}"
        if not change.confirm(what, warning=hidden, ask=bool(hidden), topic=name, **wanted):
            return
        done = admin.alter_topic(name, attributes=attributes, **where, **wanted)
    change.done(f"changed {sentence}, on {', '.join(sorted(done))}", topic=name, brokers=sorted(done), **wanted)


def _hidden(admin: Admin, topic: str, read_queues: int, now: Mapping[str, TopicConfig], broker: str | None) -> str:
    """A sentence about the messages that can be read now, and not when the topic has this many read queues; "" if there are none."""

    def is_hidden(queue: MessageQueue) -> bool:
        if broker is not None and ":" not in broker and queue.broker_name != broker:
            return False
        config = now.get(queue.broker_name)
        return config is not None and read_queues <= queue.queue_id < config.read_queue_nums

    held = sum(at.max_offset - at.min_offset for queue, at in admin.topic_stats(topic).items() if is_hidden(queue))
    if not held:
        return ""
    unread = {
        group: sum(at.lag for queue, at in admin.consumer_progress(group, topic).items() if is_hidden(queue))
        for group in admin.consumers_of(topic)
    }
    if not unread:
        return f"no consumer reads the {counted(held, 'message')} of the removed queues any more"
    behind = [f"{group} ({counted(count, 'message')})" for group, count in sorted(unread.items()) if count]
    return (
        f"messages of the removed queues that were not consumed yet are read by nobody any more: {', '.join(behind)}"
        if behind
        else ""
    )


@topic.command("perm")
@topic_argument("name", metavar="TOPIC")
@click.argument("perm_", metavar="rw|r|w|none", type=PERMISSION)
@on_brokers
@changes
def set_perm(target: Target, change: Change, name: str, perm_: int, where: Where) -> None:
    """Set whether a topic can be read and written."""
    with target.admin() as admin:
        brokers = sorted(admin.topic_config(name))
        sentence = f"topic {name}: perm {permission_text(perm_)}"
        if not change.confirm(f"change {sentence}, on {place(where, ', '.join(brokers))}", topic=name, perm=perm_):
            return
        done = sorted(admin.alter_topic(name, perm=perm_, **where))
    change.done(f"changed {sentence}, on {', '.join(done)}", topic=name, perm=perm_, brokers=done)


@topic.command("delete")
@topic_argument("name", metavar="TOPIC")
@click.option("--cluster", metavar="NAME", help="Only from the brokers of this cluster; default: from all brokers.")
@deletes
def delete_topic(target: Target, change: Change, name: str, cluster: str | None) -> None:
    """Delete a topic and its messages."""
    with target.admin() as admin:
        held = sum(one.max_offset - one.min_offset for one in admin.topic_stats(name).values())
        readers = [group for group in admin.consumers_of(name) if admin.consumer_ids(group)]
        absent_masters(admin)
        warning = f"members of {', '.join(readers)} are online and consume it" if readers else ""
        if not change.confirm(
            f"delete topic {name} with {counted(held, 'message')}", warning=warning, topic=name, messages=held
        ):
            return
        admin.delete_topic(name, cluster=cluster)
    change.done(f"deleted topic {name} with {counted(held, 'message')}", topic=name, messages=held)
