"""``sprocketmq message``: find, show, trace, track, redeliver."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.changes import Change, changes
from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.messages import as_dict, body_text, message_line
from sprocketmq.cli.frame.output import Column, Output, at, note, shows
from sprocketmq.cli.frame.target import Target, connects, topic_argument
from sprocketmq.cli.frame.values import MOMENT, QUEUE, queue_of
from sprocketmq.errors import ConfigurationError, TopicNotExist
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.wire.records.message import MessageExt
    from sprocketmq.wire.trace import TraceRecord

__all__ = ["message"]

_topic_option = click.option(
    "--topic", metavar="TOPIC", help="Where it was sent; needed for the id that a producer got."
)


@click.group(cls=CommandGroup)
def message() -> None:
    """Stored messages: find, show, trace, track, redeliver."""


@message.command("find")
@topic_argument(metavar="TOPIC")
@click.option("--key", metavar="KEY", help="With this among its keys.")
@click.option("--id", "message_id", metavar="ID", help="With this message id.")
@click.option("--queue", type=QUEUE, metavar="BROKER/NUMBER", help="Of this queue.")
@click.option("--offset", type=click.IntRange(0), help="From this place of --queue on.")
@click.option("--since", type=MOMENT, metavar="TIME", help="Stored since then; 5m is 5 minutes ago.")
@click.option("--until", type=MOMENT, metavar="TIME", help="Stored before then.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=32, show_default=True, help="At most so many.")
@shows
@connects
def find_messages(
    target: Target,
    output: Output,
    topic: str,
    key: str | None,
    message_id: str | None,
    queue: tuple[str, int] | None,
    offset: int | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    """Messages of a topic: by key, by id, by place, or by time.

    Exit code 1 if there is none.
    """
    if sum(one is not None for one in (key, message_id)) > 1 or (offset is not None and queue is None):
        raise ConfigurationError("one of --key and --id is allowed, and --offset needs --queue")
    with target.admin() as admin:
        if message_id is not None:
            found = admin.messages_by_unique_key(topic, message_id)
        elif key is not None:
            until_ms = {} if until is None else {"end_ms": until}
            found = admin.messages_by_key(topic, key, max_messages=limit, begin_ms=since or 0, **until_ms)
        else:
            found = _stored(admin, topic, queue, offset, since, until, limit)
    _print_messages(output, found)
    if not found:
        sys.exit(1)


def _stored(
    admin: Admin,
    topic: str,
    queue: tuple[str, int] | None,
    offset: int | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> list[MessageExt]:
    """Those of one queue or of all, from a place or a time on."""
    found: list[MessageExt] = []
    for one in [queue_of(topic, queue)] if queue is not None else admin.queues(topic):
        begin = offset if offset is not None else (None if since is None else admin.offset_by_time(one, since))
        read = admin.read_messages(one, begin, max_messages=limit)
        found += [
            one
            for one in read
            if (since is None or one.store_timestamp_ms >= since) and (until is None or one.store_timestamp_ms < until)
        ]
    found.sort(key=lambda one: (one.store_timestamp_ms, one.message_queue, one.queue_offset))
    return found[:limit]


def _print_messages(output: Output, found: list[MessageExt]) -> None:
    if output.is_json:
        output.rows((), [as_dict(one) for one in found])
        return
    for one in found:
        print(f"{one.message_id}  {message_line(one)}")
    if not found:
        note("no message found")


@message.command("show")
@click.argument("message_id", metavar="ID")
@_topic_option
@click.option(
    "--body",
    "body_form",
    type=click.Choice(["auto", "text", "json", "hex", "raw"]),
    default="auto",
    help="raw is the body alone, byte for byte.",
)
@shows
@connects
def show_message(target: Target, output: Output, message_id: str, topic: str | None, body_form: str) -> None:
    """All of one message.

    ID is what a producer got (with --topic), or the id of the stored copy.
    """
    with target.admin() as admin:
        found = stored_message(admin, message_id, topic)
    if body_form == "raw":
        sys.stdout.buffer.write(found.body)
        sys.stdout.buffer.flush()
        return
    record = {
        **as_dict(found),
        "offset_message_id": found.offset_message_id,
        "born_host": found.born_host,
        "store_host": found.store_host,
        "body_bytes": len(found.body),
        "all_properties": dict(sorted(found.properties.items())),
    }
    output.record(_SHOWN, record)
    if not output.is_json:
        for name, value in record["all_properties"].items():
            print(escaped(f"property           {name}={value}"))
        print()
        print(body_text(found.body, body_form))


_SHOWN: Final = (
    Column("message id", "message_id"),
    Column("topic"),
    Column("broker", "broker_name"),
    Column("queue", "queue_id"),
    Column("offset", "queue_offset"),
    at("sent", "born_timestamp_ms"),
    Column("sent by", "born_host"),
    at("stored", "store_timestamp_ms"),
    Column("stored copy", "offset_message_id"),
    Column("tag", none="none"),
    Column("keys"),
    Column("deliveries failed", "reconsume_times"),
    Column("body bytes", "body_bytes"),
)


def stored_message(admin: Admin, message_id: str, topic: str | None) -> MessageExt:
    """The message with an id of either kind. The newest copy, when a send was tried again.

    Raises:
        ConfigurationError: it is not there, or the id names no broker of this cluster.
    """
    if topic is not None:
        found = admin.messages_by_unique_key(topic, message_id)
        if found:
            return found[-1]
    try:
        address, _ = admin.decode_message_id(message_id)
    except ConfigurationError:
        address = ""
    brokers = {one for data in admin.cluster_info().broker_addr_table.values() for one in data.broker_addrs.values()}
    if address in brokers:
        return admin.view_message(message_id)
    if topic is not None:
        raise ConfigurationError(
            f"topic {topic!r} has no message with the id {message_id!r}; it may be older than the brokers keep messages"
        )
    raise ConfigurationError(
        f"the id {message_id!r} names no broker of this cluster; the id that a producer got needs --topic"
    )


@message.command("trace")
@click.argument("message_id", metavar="ID")
@click.option(
    "--trace-topic", metavar="TOPIC", default="RMQ_SYS_TRACE_TOPIC", show_default=True, help="Where clients tell it."
)
@shows
@connects
def trace_message(target: Target, output: Output, message_id: str, trace_topic: str) -> None:
    """Who sent and who consumed a message, as clients told it.

    Those with message trace (enable_trace=True) tell. Exit code 1 if none told anything.
    """
    with target.admin() as admin:
        try:
            records = admin.message_trace(message_id, trace_topic=trace_topic)
        except TopicNotExist:  # nobody has traced anything yet
            records = []
    rows = [_trace_row(record) for record in records]
    output.rows(_TRACED, rows, empty="nothing is traced of it; clients tell with enable_trace=True")
    if not rows:
        sys.exit(1)


def _trace_row(record: TraceRecord) -> dict[str, Any]:
    return {
        "what": str(record.trace_type.value),
        "timestamp_ms": record.timestamp_ms or None,
        "group": record.group or None,
        "topic": record.topic or None,
        "success": record.success,
        "cost_ms": record.cost_ms,
        "retry_times": record.retry_times,
        "store_host": record.store_host or None,
        "request_id": record.request_id or None,
    }


_TRACED: Final = (
    Column("what"),
    at("when", "timestamp_ms"),
    Column("group"),
    Column("success"),
    Column("ms", "cost_ms"),
    Column("retries", "retry_times"),
    Column("topic", wide=True, none=""),
    Column("stored at", "store_host", wide=True, none=""),
)


@message.command("track")
@click.argument("message_id", metavar="ID")
@_topic_option
@shows
@connects
def track_message(target: Target, output: Output, message_id: str, topic: str | None) -> None:
    """What became of a message in each group."""
    with target.admin() as admin:
        found = stored_message(admin, message_id, topic)
        tracks = admin.message_track(found)
    rows = [
        {"group": one.group, "track": one.track_type.value, "means": _MEANS[one.track_type.value]} for one in tracks
    ]
    output.rows((Column("group"), Column("track"), Column("means")), rows, empty=f"no group reads topic {found.topic}")


_MEANS: Final = {
    "CONSUMED": "the group is past it",
    "CONSUMED_BUT_FILTERED": "the group is past it, and its filter leaves it out",
    "PULL": "a pull consumer: only its application knows",
    "NOT_CONSUME_YET": "not yet",
    "NOT_ONLINE": "no member is online",
    "CONSUME_BROADCASTING": "each member keeps its own progress",
}


@message.command("redeliver")
@click.argument("message_id", metavar="ID")
@click.option("--group", metavar="GROUP", required=True, help="To this consumer group.")
@click.option("--client", "client_id", metavar="CLIENT_ID", help="To this member; default the first that is online.")
@_topic_option
@shows
@changes
@connects
def redeliver_message(
    target: Target,
    output: Output,
    change: Change,
    message_id: str,
    group: str,
    client_id: str | None,
    topic: str | None,
) -> None:
    """Let one member run its listener on a message, now.

    Progress and retries stay as they are. Exit code 1 if the listener did not take it.
    """
    with target.admin() as admin:
        found = stored_message(admin, message_id, topic)
        online = admin.consumer_ids(group)
        if client_id is None and not online:
            raise ConfigurationError(f"no member of group {group!r} is online, so nobody can take the message")
        client = client_id or online[0]
        if not change.begins(
            f"deliver {message_id} to {client} of group {group}", message_id=message_id, client_id=client
        ):
            return
        result = admin.consume_directly(group, client, found)
    outcome = result.consume_result or "UNKNOWN"
    why = f": {result.remark}" if result.remark else ""
    sentence = f"delivered {message_id} to {client} of group {group}: {outcome} after {result.spent_time_mills} ms{why}"
    change.done(
        sentence,
        message_id=message_id,
        client_id=client,
        result=outcome,
        remark=result.remark,
        spent_ms=result.spent_time_mills,
    )
    if outcome not in ("CR_SUCCESS", "CR_COMMIT"):
        sys.exit(1)
