# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq broker``: list, show, config get and set, drain, and ``broker run``, which runs a broker on this machine."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.output import Column, Output, note
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.frame.values import DURATION, PAIR
from sprocketmq.cli.frame.verbs import Change, changes, deletes, reads
from sprocketmq.cli.server_commands import broker_run
from sprocketmq.core.quantities import counted, duration
from sprocketmq.errors import ConfigurationError, GroupNotExist

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin, BrokerStatus

_POLL_S: Final = 1.0


class _BrokerGroup(CommandGroup):
    """Treats ``sprocketmq broker --port 0`` as ``broker run --port 0``, its form before there were verbs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_BrokerGroup)
def broker() -> None:
    """List, configure and drain brokers, or run one here."""


broker.add_command(broker_run)


@broker.command("list")
@click.option("--cluster", metavar="NAME", help="Only brokers of this cluster.")
@reads
def list_brokers(target: Target, output: Output, cluster: str | None) -> None:
    """List masters and slaves, also those that are gone.

    A name server of RocketMQ forgets a broker that is gone; SprocketMQ's remembers a lost one for a day, and one that was stopped for an
    hour. Exit code 1 if one does not answer or was lost, or if two register with one name and id.
    """
    with target.admin() as admin:
        found = admin.brokers(cluster=cluster)
    rows = [_row(one) for one in found]
    output.rows(_COLUMNS, rows, empty="no broker is registered")
    for one in found:
        for why in (one.rivalry, one.absence):
            if why is not None:
                note(f"sprocketmq: {why}")
    if not all((one.is_up or one.has_left) and not one.rivals for one in found):
        sys.exit(1)


def _row(one: BrokerStatus) -> dict[str, Any]:
    return {
        "broker_name": one.broker_name,
        "broker_id": one.broker_id,
        "role": "master" if one.broker_id == 0 else "slave",
        "address": one.address,
        "cluster": one.cluster,
        "is_up": one.is_up,
        "version": one.version or None,
        "in_tps": one.in_tps if one.is_up else None,
        "out_tps": one.out_tps if one.is_up else None,
        "messages_today_in": one.messages_today_in if one.is_up else None,
        "messages_today_out": one.messages_today_out if one.is_up else None,
        "rivals": list(one.rivals),
        "gone_for_ms": one.gone_for_ms,
        "has_left": one.has_left,
    }


_COLUMNS: Final = (
    Column("broker", "broker_name"),
    Column("role"),
    Column("address"),
    Column("up", "is_up"),
    Column("version"),
    Column("in/s", "in_tps"),
    Column("out/s", "out_tps"),
    Column("cluster", wide=True),
    Column("in today", "messages_today_in", wide=True),
    Column("out today", "messages_today_out", wide=True),
)


@broker.command("show")
@click.argument("name", metavar="BROKER")
@reads
def show_broker(target: Target, output: Output, name: str) -> None:
    """Show a broker's runtime info.

    BROKER is HOST:PORT, or a name; a name stands for the master.
    """
    with target.admin() as admin:
        info = admin.broker_runtime_info(name)
    if output.is_json:
        output.record((), {"broker": name, "info": info})
    else:
        output.table(
            (Column("name"), Column("value")), [{"name": key, "value": value} for key, value in sorted(info.items())]
        )


@broker.group("config", cls=CommandGroup)
def config() -> None:
    """Get and set the settings of running brokers, by their Apache keys."""


@config.command("get")
@click.argument("name", metavar="BROKER")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@reads
def get_config(target: Target, output: Output, name: str, keys: tuple[str, ...]) -> None:
    """Print all settings of a broker, or the given ones."""
    with target.admin() as admin:
        settings = admin.broker_config(name)
    _check_known(settings, keys, name)
    wanted = {key: settings[key] for key in keys} if keys else settings
    if output.is_json:
        output.record((), wanted)
    elif len(keys) == 1:
        print(Column("value").cell({"value": wanted[keys[0]]}))
    else:
        output.table((Column("key"), Column("value")), [{"key": key, "value": value} for key, value in wanted.items()])


def _check_known(settings: dict[str, str], keys: tuple[str, ...], name: str) -> None:
    """Raises ConfigurationError for an unknown key: Apache's brokers accept any key without an error."""
    import difflib

    for key in keys:
        if key not in settings:
            near = difflib.get_close_matches(key, settings)
            hint = f"did you mean {near[0]}?" if near else "sprocketmq broker config get lists what it has"
            raise ConfigurationError(f"broker {name} has no setting {key!r}; {hint}")


@config.command("set")
@click.argument("name", metavar="BROKER")
@click.argument("settings", nargs=-1, required=True, type=PAIR, metavar="KEY=VALUE...")
@changes
def set_config(target: Target, change: Change, name: str, settings: tuple[tuple[str, str], ...]) -> None:
    """Change settings of a running broker and its slaves.

    Exit code 1 if the broker did not accept one.
    """
    wanted = dict(settings)
    with target.admin() as admin:
        before = admin.broker_config(name)
        _check_known(before, tuple(wanted), name)
        differences = ", ".join(f"{key} {before[key] or 'nothing'} -> {value}" for key, value in wanted.items())
        if not change.confirm(f"change broker {name}: {differences}", broker=name, settings=wanted):
            return
        admin.update_broker_config(wanted, broker=name)
        after = admin.broker_config(name)
    refused = [key for key, value in wanted.items() if after.get(key) == before[key] != value]
    if refused:
        note(
            f"sprocketmq: broker {name} did not change {', '.join(refused)}; a change of this setting may need a restart"
        )
    taken = {key: after.get(key) for key in wanted}
    change.done(
        f"changed broker {name}: {', '.join(f'{key} {value}' for key, value in taken.items())}",
        broker=name,
        settings=taken,
    )
    if refused:
        sys.exit(1)


@broker.command("drain")
@click.argument("name", metavar="BROKER")
@click.option("--undo", is_flag=True, help="Allow sending to the broker again.")
@click.option(
    "--wait",
    "wait_ms",
    type=DURATION,
    help="Wait at most this long until all groups have consumed everything. Exit code 1 if they have not.",
)
@deletes
def drain(target: Target, change: Change, name: str, undo: bool, wait_ms: int | None) -> None:
    """Stop sends to a broker, or allow them again.

    Consumers continue with what the broker holds. Producers learn of the change with their next route request, within 30 seconds. If the
    broker restarts, producers send to it again.
    """
    with target.admin() as admin:
        if name not in admin.cluster_info().broker_addr_table:
            known = ", ".join(sorted(admin.cluster_info().broker_addr_table)) or "none"
            raise ConfigurationError(f"broker {name!r} is unknown, the name server knows {known}")
        if undo:
            if change.confirm(f"allow sends to broker {name} again", broker=name):
                topics = sum(admin.add_write_perm(name).values())
                change.done(
                    f"producers may send to broker {name} again, {counted(topics, 'topic')}", broker=name, topics=topics
                )
            return
        behind = _behind(admin, name)
        sentence = (
            f"stop sends to broker {name}, where groups have {counted(sum(behind.values()), 'message')} to consume"
        )
        if not change.confirm(sentence, broker=name, lag=behind):
            return
        topics = sum(admin.wipe_write_perm(name).values())
        if wait_ms is not None:
            behind = _wait(admin, name, wait_ms)
        else:
            behind = _behind(admin, name)
    left = ", ".join(f"{group} {count:,}" for group, count in sorted(behind.items()) if count)
    change.done(
        f"producers no longer send to broker {name}, {counted(topics, 'topic')}; left to consume: {left or 'nothing'}",
        broker=name,
        topics=topics,
        lag=behind,
    )
    if wait_ms is not None and left:
        sys.exit(1)


def _behind(admin: Admin, name: str) -> dict[str, int]:
    """The number of messages on this broker that each group has not consumed. (Code 317 leaves some out.)"""
    found: dict[str, int] = {}
    for group in admin.groups():
        with contextlib.suppress(GroupNotExist):
            progress = admin.consumer_progress(group)
            found[group] = sum(at.lag for queue, at in progress.items() if queue.broker_name == name)
    return found


def _wait(admin: Admin, name: str, wait_ms: int) -> dict[str, int]:
    end = time.monotonic() + wait_ms / 1000
    reported = -1
    while True:
        behind = _behind(admin, name)
        total = sum(behind.values())
        if not total or time.monotonic() >= end:
            if total:
                note(
                    f"sprocketmq: after {duration(wait_ms)} groups have {counted(total, 'message')} of broker {name} to consume"
                )
            return behind
        if total != reported:
            note(f"{counted(total, 'message')} to consume")
            reported = total
        time.sleep(_POLL_S)
