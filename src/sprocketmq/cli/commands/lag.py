# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq lag``: how far a group is behind, in messages and in time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.absent_brokers import absent_masters
from sprocketmq.cli.frame.output import Column, Output, note, span
from sprocketmq.cli.frame.target import Target, group_argument
from sprocketmq.cli.frame.values import DURATION, LIMIT, time_text
from sprocketmq.cli.frame.verbs import reads
from sprocketmq.core.quantities import counted, duration
from sprocketmq.core.resource_names import is_system_group
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sprocketmq.client.admin import Admin, BrokerStatus, QueueProgress, WaitingRetries
    from sprocketmq.wire.records.message import MessageQueue

_OVER_THE_LIMIT: Final = 3
_DECADES_MS: Final = 30 * 365 * 86_400_000
_COLUMNS: Final = (
    Column("topic"),
    Column("broker", "broker_name"),
    Column("queue", "queue_id"),
    Column("broker offset", "broker_offset"),
    Column("consumer offset", "consumer_offset", none="none"),
    Column("lag"),
    span("waiting for", "waiting_ms", wide=True),
)


@click.command()
@group_argument(metavar="GROUP", required=False)
@click.option("--all", "of_all", is_flag=True, help="The lag of each group, the largest first.")
@click.option("--topic", metavar="TOPIC", help="Only in this topic.")
@click.option("--watch", type=DURATION, metavar="DURATION", help="Print the lag at this interval, until Ctrl-C.")
@click.option(
    "--fail-over",
    "limit",
    type=LIMIT,
    metavar="N|DURATION",
    help="Exit code 3 if the lag exceeds this number of messages, or this time.",
)
@reads
def lag(
    target: Target,
    output: Output,
    group: str | None,
    of_all: bool,
    topic: str | None,
    watch: int | None,
    limit: tuple[str, int] | None,
) -> None:
    """Show how far a consumer group is behind, or all groups.

    For each queue of its topics and its retry topic: the number of messages that it has not consumed, and how long the oldest of them has
    been waiting (-o wide). Failed messages that wait for their next try are no lag, and are counted beside it. With --fail-over and a lost
    broker the exit code is 1.
    """
    if of_all and group is not None:
        raise ConfigurationError("give one of the two: a group, or --all")
    if group is None and (topic is not None or watch is not None):
        raise ConfigurationError("--all is given with --topic or --watch, which need a group")
    if watch is not None and limit is not None:
        raise ConfigurationError("--watch and --fail-over are both given; give one of the two")
    with target.admin() as admin:
        gone = absent_masters(admin)
        if group is None:
            _show_all(admin, output, limit)
            if limit is not None:
                _fail_if_lost(gone)
            return
        if watch is not None:
            _watch(admin, output, group, topic, watch)
        record = _record(admin, group, topic)
    if output.is_json:
        output.record((), record)
    else:
        output.table(_COLUMNS, record["queues"])
        print(_sum(record))
    if limit is not None:
        _fail_over(record, *limit)
        _fail_if_lost(gone)


def _fail_if_lost(gone: list[BrokerStatus]) -> None:
    """The true lag may be above the limit."""
    if any(one.is_lost for one in gone):
        sys.exit(1)


def _record(admin: Admin, group: str, topic: str | None) -> dict[str, Any]:
    progress = admin.consumer_progress(group, topic)
    if not progress:
        raise ConfigurationError(
            f"group {group!r} has no progress on any broker yet, and no member holds messages: how far it is behind is not known; "
            "start a member, or give --topic"
        )
    return _with_times(admin, group, progress) | _retries(_waiting_retries(admin) if topic is None else None, group)


def _waiting_retries(admin: Admin) -> WaitingRetries | None:
    """None if it is not known: the account may not ask brokers for their settings, or a proxy answers."""
    try:
        return admin.waiting_retries()
    except (RemoteError, NetworkError, RequestTimeout):
        return None


def _retries(waiting: WaitingRetries | None, group: str) -> dict[str, Any]:
    return {
        "retries_waiting": None if waiting is None else waiting.counts.get(group, 0),
        "next_retry_ms": None if waiting is None else waiting.next_ms.get(group),
    }


def _with_times(admin: Admin, group: str, progress: Mapping[MessageQueue, QueueProgress]) -> dict[str, Any]:
    waiting: dict[Any, int | None] = {}
    for name in sorted({queue.topic for queue, at in progress.items() if at.lag}):
        try:
            for one in admin.consume_time_span(name, group):
                # Java brokers count from 1970 if they find no message, and answer 0 if they do not know.
                waiting[one.message_queue] = one.delay_time if 0 < one.delay_time < _DECADES_MS else None
        except RemoteError:  # the topic was deleted, or this broker does not know the group
            continue
    queues = [
        {
            "topic": queue.topic,
            "broker_name": queue.broker_name,
            "queue_id": queue.queue_id,
            "broker_offset": at.broker_offset,
            "consumer_offset": at.consumer_offset if at.consumer_offset >= 0 else None,
            "lag": at.lag,
            "waiting_ms": (waiting.get(queue) if at.consumer_offset >= 0 else None) if at.lag else 0,
        }
        for queue, at in progress.items()
    ]
    return {"group": group, "lag": sum(row["lag"] for row in queues), "waiting_ms": _longest(queues), "queues": queues}


def _show_all(admin: Admin, output: Output, limit: tuple[str, int] | None) -> None:
    """One row for each group; with a limit, exit code 3 if one of them is above it."""
    summaries = {one.group: one for one in admin.group_summaries()}
    waiting = _waiting_retries(admin)
    records: list[dict[str, Any]] = []
    for name in sorted({*summaries, *admin.groups()}):
        if is_system_group(name):
            continue
        record: dict[str, Any] = {"group": name, "lag": None, "waiting_ms": None}
        if (summary := summaries.get(name)) is not None and summary.lag is not None:
            record |= {"lag": summary.lag, "waiting_ms": 0}
        if record["lag"]:
            timed = _with_times(admin, name, admin.consumer_progress(name))
            record = {key: timed[key] for key in record}
        records.append(record | _retries(waiting, name))
    records.sort(key=lambda record: (record["lag"] is not None, -(record["lag"] or 0), record["group"]))
    columns = (
        Column("group"),
        Column("lag"),
        span("waiting for", "waiting_ms"),
        Column("waiting retries", "retries_waiting"),
    )
    output.rows(columns, records, empty="no groups")
    if limit is not None:
        for record in sorted(records, key=lambda record: record["lag"] is None):
            summary = summaries.get(record["group"])
            if record["lag"] is not None or (summary is not None and summary.members):  # else it has not begun
                _fail_over(record, *limit)


def _longest(queues: list[dict[str, Any]]) -> int | None:
    """How long the oldest message has been waiting; None if that is not known of any queue with lag."""
    known = [row["waiting_ms"] for row in queues if row["lag"] and row["waiting_ms"] is not None]
    if known:
        return int(max(known))
    return None if any(row["lag"] for row in queues) else 0


def _sum(record: dict[str, Any]) -> str:
    waiting = record["waiting_ms"]
    if not record["lag"]:
        behind = ""
    elif waiting is None:
        behind = ", waiting for an unknown time"
    else:
        behind = f", the oldest for {duration(waiting)}"
    retries = ""
    if record["retries_waiting"]:
        first = duration(max(0, record["next_retry_ms"] - time.time_ns() // 1_000_000))
        retries = f"; and {counted(record['retries_waiting'], 'failed message')} to try again, the first in {first}"
    return f"lag of {record['group']}: {record['lag']:,}{behind}{retries}"


def _fail_over(record: dict[str, Any], kind: str, limit: int) -> None:
    found = record["lag"] if kind == "messages" else record["waiting_ms"]
    limit_text = counted(limit, "message") if kind == "messages" else duration(limit)
    if found is None and record["lag"] != 0:
        behind = "of an unknown number" if record["lag"] is None else f"of {counted(record['lag'], 'message')}"
        note(f"sprocketmq: group {record['group']} has a lag {behind}; since when is not known")
        sys.exit(1)
    found = found or 0
    if found > limit:
        note(f"sprocketmq: group {record['group']} is further behind than {limit_text}")
        sys.exit(_OVER_THE_LIMIT)


def _watch(admin: Admin, output: Output, group: str, topic: str | None, every_ms: int) -> None:
    before: tuple[float, int] | None = None
    while True:
        record = _record(admin, group, topic)
        at_s, total = time.monotonic(), int(record["lag"])
        rate = None if before is None else (total - before[1]) / (at_s - before[0])
        before = at_s, total
        row = {key: value for key, value in record.items() if key != "queues"}
        now = time.time_ns() // 1_000_000
        changed = "" if rate is None else f"  {rate:+,.1f}/s"
        output.line({**row, "time_ms": now, "per_second": rate}, f"{time_text(now)}  {_sum(record)}{changed}")
        time.sleep(max(0.1, every_ms / 1000))
