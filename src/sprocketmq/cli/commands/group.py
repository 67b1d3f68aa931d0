# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq group``: list, show, create, alter, delete. The other verbs are in ``group_members`` and ``group_progress``."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sprocketmq.cli.commands.group_members import doctor, members, stack
from sprocketmq.cli.commands.group_progress import clone, reset
from sprocketmq.cli.frame.absent_brokers import absent_masters
from sprocketmq.cli.frame.command_line import CommandGroup, options
from sprocketmq.cli.frame.output import Column, Output, note
from sprocketmq.cli.frame.target import Target, group_argument
from sprocketmq.cli.frame.verbs import Change, Where, changes, deletes, on_brokers, place, reads
from sprocketmq.core.quantities import counted
from sprocketmq.core.resource_names import is_system_group
from sprocketmq.errors import ConfigurationError, RemoteError, RequestNotServed

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.client.keyword_options import GroupSettings

K = TypeVar("K")
V = TypeVar("V")

_settings = options(
    click.option(
        "--retry-max",
        "retry_max_times",
        type=click.IntRange(-1),
        help="How often a message is retried before it becomes a dead letter.",
    ),
    click.option(
        "--retry-queues",
        "retry_queue_nums",
        type=click.IntRange(1),
        help="Number of queues of its retry topic on each broker.",
    ),
    click.option("--enable/--disable", "consume_enable", default=None, help="Whether the group may consume."),
    click.option(
        "--broadcast/--no-broadcast",
        "consume_broadcast_enable",
        default=None,
        help="Whether the group may consume in broadcasting mode.",
    ),
    click.option(
        "--orderly/--no-orderly",
        "consume_message_orderly",
        default=None,
        help="Whether the group consumes in order (5.x).",
    ),
)


@click.group(cls=CommandGroup)
def group() -> None:
    """Manage consumer groups, and see why one is stuck."""


for verb in (members, stack, doctor, reset, clone):
    group.add_command(verb)


@group.command("list")
@click.option("--all", "with_all", is_flag=True, help="Include groups of brokers and tools.")
@click.option("--topic", metavar="TOPIC", help="Only groups that consume this topic.")
@click.option("--match", metavar="PATTERN", default="*", help="Only names that match this pattern, such as 'order*'.")
@reads
def list_groups(target: Target, output: Output, with_all: bool, topic: str | None, match: str) -> None:
    """List the groups, the one with the largest lag first."""
    with target.admin() as admin:
        summaries = {one.group: one for one in admin.group_summaries()}
        names = set(admin.consumers_of(topic)) if topic else summaries.keys() | set(admin.groups())
        absent_masters(admin)
    rows: list[dict[str, Any]] = []
    for name in names:
        one = summaries.get(name)
        if (with_all or not is_system_group(name)) and fnmatch.fnmatchcase(name, match):
            rows.append(
                {
                    "group": name,
                    "members": one.members if one else 0,
                    "message_model": one.message_model if one else None,
                    "consume_type": one.consume_type if one else None,
                    "consume_tps": one.consume_tps if one else None,
                    "lag": one.lag if one else None,
                }
            )
    rows.sort(key=lambda row: (row["lag"] is not None or not row["members"], -(row["lag"] or 0), row["group"]))
    columns = (
        Column("group"),
        Column("members"),
        Column("lag"),
        Column("messages/s", "consume_tps"),
        Column("model", "message_model", wide=True),
        Column("type", "consume_type", wide=True),
    )
    output.rows(columns, rows, empty="no groups; --all includes those of brokers and tools")


@group.command("show")
@group_argument("name", metavar="GROUP")
@reads
def show_group(target: Target, output: Output, name: str) -> None:
    """Show the settings, members and lag of one group."""
    with target.admin() as admin:
        record = _record(admin, name)
        absent_masters(admin)
    output.record(_SHOWN, record, _SHOWN_TABLES)


def _record(admin: Admin, name: str) -> dict[str, Any]:
    configs = _unless_not_served("its settings", lambda: admin.group_config(name))
    connection = admin.consumer_connection(name)
    progress_by_queue = _unless_not_served("its progress", lambda: admin.consumer_progress(name))
    topics: dict[str, dict[str, Any]] = {}
    for queue, progress in (progress_by_queue or {}).items():
        row = topics.setdefault(queue.topic, {"topic": queue.topic, "queues": 0, "lag": 0, "subscription": None})
        row["queues"] += 1
        row["lag"] += progress.lag
    for topic, subscription in (connection.subscription_table if connection else {}).items():
        row = topics.setdefault(topic, {"topic": topic, "queues": 0, "lag": None, "subscription": None})
        row["subscription"] = subscription.sub_string
    return {
        "group": name,
        "members": len(connection.connection_set) if connection else 0 if configs is not None else None,
        "message_model": connection.message_model if connection else None,
        "consume_type": connection.consume_type if connection else None,
        "lag": sum(row["lag"] or 0 for row in topics.values()) if topics else None,
        "brokers": [
            {
                "broker_name": broker,
                "consume_enable": config.consume_enable,
                "consume_broadcast_enable": config.consume_broadcast_enable,
                "retry_max_times": config.retry_max_times,
                "retry_queue_nums": config.retry_queue_nums,
            }
            for broker, config in sorted(configs.items())
        ]
        if configs is not None
        else None,
        "topics": [topics[topic] for topic in sorted(topics)],
    }


def _unless_not_served(what: str, ask: Callable[[], dict[K, V]]) -> dict[K, V] | None:
    """None, and a note, if a proxy does not tell it."""
    try:
        return ask()
    except RequestNotServed as error:
        note(f"sprocketmq: {what} cannot be shown: {error}")
        return None


_SHOWN: Final = (
    Column("group"),
    Column("members"),
    Column("model", "message_model"),
    Column("type", "consume_type"),
    Column("lag"),
)
_SHOWN_TABLES: Final = (
    ("topics", (Column("topic"), Column("queues"), Column("lag"), Column("subscription")), "topics"),
    (
        "settings",
        (
            Column("broker", "broker_name"),
            Column("enabled", "consume_enable"),
            Column("may broadcast", "consume_broadcast_enable"),
            Column("tries", "retry_max_times"),
            Column("retry queues", "retry_queue_nums"),
        ),
        "brokers",
    ),
)


@group.command("create")
@click.argument("name", metavar="GROUP")
@_settings
@on_brokers
@changes
def create_group(target: Target, change: Change, name: str, where: Where, **given: Any) -> None:
    """Create a group.

    It is an error if the group exists; 'group alter' changes an existing one.
    """
    from sprocketmq.client.settings.validators import check_group

    check_group(name)
    settings = _given(given)
    with target.admin() as admin:
        broker, cluster = where["broker"], where["cluster"]
        if name in (admin.group_configs(broker) if broker is not None else admin.groups(cluster=cluster)):
            raise ConfigurationError(f"group {name!r} exists already; sprocketmq group alter changes it")
        if not change.confirm(f"create group {name} on {place(where)}", group=name, **settings):
            return
        admin.create_group(name, **where, **settings)
        brokers = sorted(admin.group_config(name))
    change.done(f"created group {name} on {', '.join(brokers)}", group=name, brokers=brokers, **settings)


@group.command("alter")
@group_argument("name", metavar="GROUP")
@_settings
@on_brokers
@changes
def alter_group(target: Target, change: Change, name: str, where: Where, **given: Any) -> None:
    """Change the settings of a group.

    What no option names stays as it is.
    """
    settings = _given(given)
    if not settings:
        raise ConfigurationError(
            "nothing to change is given; one of --retry-max, --enable, --disable, --broadcast, ... is needed"
        )
    values = ", ".join(f"{key} {_text(value)}" for key, value in settings.items())
    with target.admin() as admin:
        brokers = sorted(admin.group_config(name))
        if not change.confirm(
            f"change group {name}: {values}, on {place(where, ', '.join(brokers))}", group=name, **settings
        ):
            return
        done = sorted(admin.alter_group(name, **where, **settings))
    change.done(f"changed group {name}: {values}, on {', '.join(done)}", group=name, brokers=done, **settings)


def _given(options_: dict[str, Any]) -> GroupSettings:
    settings: Any = {name: value for name, value in options_.items() if value is not None}
    found: GroupSettings = settings
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@group.command("delete")
@group_argument("name", metavar="GROUP")
@click.option(
    "--progress",
    "remove_offsets",
    is_flag=True,
    help="Delete its progress, too. Otherwise a new group of this name continues from it.",
)
@on_brokers
@deletes
def delete_group(target: Target, change: Change, name: str, remove_offsets: bool, where: Where) -> None:
    """Delete a group, its retry topic and its dead letters."""
    with target.admin() as admin:
        brokers = sorted(admin.group_config(name))
        online = admin.consumer_ids(name)
        warnings = [f"{len(online)} members are online and will create it again: {', '.join(online)}"] if online else []
        with contextlib.suppress(RemoteError):  # the account may not ask brokers for their settings
            if count := admin.waiting_retries().counts.get(name):
                warnings.append(f"{counted(count, 'failed message')} to try again are lost with it")
        absent_masters(admin)
        what = f"group {name}, its retry topic and its dead letters" + (", and its progress" if remove_offsets else "")
        if not change.confirm(
            f"delete {what}, on {place(where, ', '.join(brokers))}", warning="; ".join(warnings), group=name
        ):
            return
        admin.delete_group(name, remove_offsets=remove_offsets, **where)
    change.done(f"deleted {what}", group=name, brokers=brokers)
