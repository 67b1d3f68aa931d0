# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq message``: find, show, trace, track, redeliver."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.messages import as_dict, body_text, message_line
from sprocketmq.cli.frame.output import Column, Output, at, note
from sprocketmq.cli.frame.target import Target, topic_argument
from sprocketmq.cli.frame.values import MOMENT, QUEUE, queue_of
from sprocketmq.cli.frame.verbs import Change, changes, reads
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.errors import ConfigurationError, RequestNotServed, TopicNotExist
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.wire.records.message import MessageExt
    from sprocketmq.wire.trace import TraceRecord

_topic_option = click.option(
    "--topic", metavar="TOPIC", help="The topic of the message; needed if ID is a producer's message id."
)


@click.group(cls=CommandGroup)
def message() -> None:
    """Find, show and trace stored messages."""


@message.command("find")
@topic_argument(metavar="TOPIC")
@click.option("--key", metavar="KEY", help="Only messages with this key.")
@click.option("--id", "message_id", metavar="ID", help="Only messages with this message id.")
@click.option("--queue", type=QUEUE, metavar="BROKER/NUMBER", help="Only messages of this queue.")
@click.option("--offset", type=click.IntRange(0), help="Begin at this offset of --queue.")
@click.option(
    "--since", type=MOMENT, metavar="TIME", help="Only messages stored at this time or later; 5m means 5 minutes ago."
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Only messages stored before this time.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=32, show_default=True, help="Maximum number.")
@reads
def find_messages(
    target: Target, output: Output, topic: str, key: str | None, message_id: str | None, limit: int, **place: Any
) -> None:
    """Find messages by key, id, offset or time.

    Exit code 1 if there are none.
    """
    if (key is not None and message_id is not None) or (place["offset"] is not None and place["queue"] is None):
        raise ConfigurationError("one of --key and --id is allowed, and --offset needs --queue")
    with target.admin() as admin:
        if message_id is not None:
            found = admin.messages_by_unique_key(topic, message_id)
        elif key is not None:
            span: dict[str, Any] = {} if place["until"] is None else {"end_ms": place["until"]}
            found = admin.messages_by_key(topic, key, max_messages=limit, begin_ms=place["since"] or 0, **span)
        else:
            found = _stored(admin, topic, limit, **place)
    _print_messages(output, found)
    if not found:
        sys.exit(1)


def _stored(
    admin: Admin,
    topic: str,
    limit: int,
    *,
    queue: tuple[str, int] | None,
    offset: int | None,
    since: int | None,
    until: int | None,
) -> list[MessageExt]:
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
    help="How to print the body; 'raw' prints only the body, unchanged.",
)
@reads
def show_message(target: Target, output: Output, message_id: str, topic: str | None, body_form: str) -> None:
    """Show one message.

    ID is the message id that the producer got (with --topic), or the offset message id of a stored copy.
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
    """The message with an id of either kind; the newest copy if a send was retried."""
    try:
        return _stored_message(admin, message_id, topic)
    except RequestNotServed as error:
        sentence = (
            f"the proxy at {error.address} finds no message by its id; sprocketmq message find TOPIC --queue BROKER/NUMBER "
            "--offset N --json shows one, and --since TIME those of a time"
        )
        raise RequestNotServed(error.code, sentence, error.address) from error


def _stored_message(admin: Admin, message_id: str, topic: str | None) -> MessageExt:
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
        f"the id {message_id!r} contains no address of a broker of this cluster; a producer's message id needs --topic"
    )


@message.command("trace")
@click.argument("message_id", metavar="ID")
@click.option(
    "--trace-topic",
    metavar="TOPIC",
    default=TRACE_TOPIC,
    show_default=True,
    help="The topic with the trace messages.",
)
@reads
def trace_message(target: Target, output: Output, message_id: str, trace_topic: str) -> None:
    """Show who sent and who consumed a message.

    Only clients with message trace (enable_trace=True) record this. Exit code 1 if there is no record.
    """
    with target.admin() as admin:
        try:
            records = admin.message_trace(message_id, trace_topic=trace_topic)
        except TopicNotExist:  # no client has sent a trace message yet
            records = []
    rows = [_trace_row(record) for record in records]
    output.rows(_TRACED, rows, empty="no trace of this message; clients record it with enable_trace=True")
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
@reads
def track_message(target: Target, output: Output, message_id: str, topic: str | None) -> None:
    """Show which groups have consumed a message."""
    with target.admin() as admin:
        found = stored_message(admin, message_id, topic)
        tracks = admin.message_track(found)
    rows = [
        {"group": one.group, "track": one.track_type.value, "means": _MEANS[one.track_type.value]} for one in tracks
    ]
    output.rows((Column("group"), Column("track"), Column("means")), rows, empty=f"no group reads topic {found.topic}")


_MEANS: Final = {
    "CONSUMED": "consumed",
    "CONSUMED_BUT_FILTERED": "left out by the group's filter",
    "PULL": "a pull consumer: only its application knows",
    "NOT_CONSUME_YET": "not consumed yet",
    "NOT_ONLINE": "no member is online",
    "CONSUME_BROADCASTING": "each member keeps its own progress",
}


@message.command("redeliver")
@click.argument("message_id", metavar="ID")
@click.option("--group", metavar="GROUP", required=True, help="The consumer group.")
@click.option("--client", "client_id", metavar="CLIENT_ID", help="The member; default: the first one that is online.")
@_topic_option
@changes
def redeliver_message(
    target: Target, change: Change, message_id: str, group: str, client_id: str | None, topic: str | None
) -> None:
    """Have one member of a group consume a message now.

    Does not change progress and retries. Exit code 1 if the listener did not return success.
    """
    with target.admin() as admin:
        found = stored_message(admin, message_id, topic)
        online = admin.consumer_ids(group)
        if client_id is None and not online:
            raise ConfigurationError(f"no member of group {group!r} is online, so none can consume the message")
        client = client_id or online[0]
        if not change.confirm(
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
