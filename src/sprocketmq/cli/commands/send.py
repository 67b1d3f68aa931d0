# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq send`` and ``request``: sending messages from the command line, stdin, or a file with one JSON object in each line."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.messages import as_dict, body_text, message_of
from sprocketmq.cli.frame.output import Output, note
from sprocketmq.cli.frame.partly_done import PartlyDone
from sprocketmq.cli.frame.target import Target, topic_argument
from sprocketmq.cli.frame.values import DURATION, MOMENT_AHEAD, PAIR, now_ms
from sprocketmq.cli.frame.verbs import reads
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.client.produce.producer import Producer
    from sprocketmq.client.results import SendResult
    from sprocketmq.wire.records.message import Message

_GROUP: Final = "sprocketmq-cli"
_REPORT_EVERY: Final = 10_000
_LOOK_MS: Final = 300  # whether a topic is new; a name server that does not answer costs the send no more


@click.command()
@topic_argument(metavar="TOPIC")
@click.argument("body", metavar="[BODY|-]", required=False)
@click.option("--key", "keys", multiple=True, help="A key of the message. Repeatable.")
@click.option("--tag", help="The tag of the message.")
@click.option("--property", "properties", type=PAIR, multiple=True, help="A property, NAME=VALUE. Repeatable.")
@click.option("--delay", type=DURATION, help="Deliver the message after this time, such as 10s.")
@click.option("--at", "deliver_at", type=MOMENT_AHEAD, metavar="TIME", help="Deliver the message at this time.")
@click.option("--sharding-key", help="Messages with the same sharding key stay in order.")
@click.option("--file", type=click.File("r", encoding="utf-8"), help="Send the messages in this file; - is stdin.")
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Number of messages of --file in one request.",
)
@reads
def send(
    target: Target, output: Output, topic: str, body: str | None, file: IO[str] | None, batch: int, **given: Any
) -> None:
    """Send one message, or the messages of a file.

    If BODY is -, the body is read from stdin. The file of --file has one JSON object in each line, as 'tail --json' writes them.
    """
    if (body is None) == (file is None):
        raise ConfigurationError("one of BODY and --file is needed; BODY - reads stdin")
    if file is not None and any(given[name] for name in ("keys", "tag", "properties")):
        raise ConfigurationError("--key, --tag and --property are given with --file; set them in each line of the file")
    if batch > 1 and (file is None or any(given[name] for name in ("delay", "deliver_at", "sharding_key"))):
        raise ConfigurationError("--batch needs --file, and a batch has no --delay, --at and --sharding-key")
    delivery = _delivery(target, topic, given.pop("delay"), given.pop("deliver_at"))
    is_new = _is_new(target, topic)
    from sprocketmq.client.produce.producer import Producer

    with Producer(_GROUP, **target.options()) as producer:
        if file is None:
            assert body is not None
            content = sys.stdin.buffer.read() if body == "-" else body.encode("utf-8", "surrogateescape")
            message, sharding_key = _message(topic, content, **given)
            _print(output, producer.send(message, sharding_key=sharding_key, **delivery), comes_later=bool(delivery))
            _note_new(is_new, topic)
        else:
            _send_all(producer, output, topic, file, batch, given["sharding_key"], delivery, is_new=is_new)


def _is_new(target: Target, topic: str) -> bool:
    from sprocketmq.client.admin import Admin
    from sprocketmq.errors import TopicNotExist

    options: dict[str, Any] = {**target.options(), "mq_client_api_timeout_ms": _LOOK_MS}
    with Admin(**options) as admin:
        try:
            admin.queues(topic)
        except TopicNotExist:
            return True
        except RocketMQError:  # the send says it
            pass
    return False


def _note_new(is_new: bool, topic: str) -> None:
    if is_new:
        note(f"created topic {topic}")


def _message(
    topic: str,
    body: bytes,
    *,
    keys: tuple[str, ...],
    tag: str | None,
    properties: tuple[tuple[str, str], ...],
    sharding_key: str | None,
) -> tuple[Message, str | None]:
    from sprocketmq.wire.records.message import Message

    return Message(topic, body, tags=tag, keys=keys or None, properties=dict(properties) or None), sharding_key


def _delivery(target: Target, topic: str, delay_ms: int | None, deliver_at_ms: int | None) -> dict[str, Any]:
    """A 4.9 broker supports only delay levels; it would ignore a time."""
    from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS, DelayLevels
    from sprocketmq.errors import RequestNotServed, TopicNotExist

    if delay_ms is None and deliver_at_ms is None:
        return {}
    if delay_ms is not None and deliver_at_ms is not None:
        raise ConfigurationError("--delay and --at are both given; keep one")
    with target.admin() as admin:
        try:
            brokers = sorted({queue.broker_name for queue in admin.queues(topic)})
        except TopicNotExist:  # the send may create it, on any broker
            try:
                brokers = sorted(admin.cluster_info().broker_addr_table)
            except RequestNotServed:  # a proxy
                brokers = []
        old = next((broker for broker in brokers if not admin.speaks_5x(broker)), None)
        if old is None:
            return {"delay_ms": delay_ms} if delay_ms is not None else {"deliver_time_ms": deliver_at_ms}
        configured = admin.broker_config(old).get("messageDelayLevel") or DEFAULT_DELAY_LEVELS
    if delay_ms is None:
        raise ConfigurationError(
            f"broker {old} is older than RocketMQ 5 and does not support --at; --delay with one of {configured} is allowed"
        )
    levels = DelayLevels.parse(configured)
    if delay_ms not in levels.delays_ms:
        raise ConfigurationError(f"broker {old} is older than RocketMQ 5; --delay with one of {configured} is allowed")
    return {"delay_level": levels.level_for(delay_ms)}


def _print(output: Output, result: SendResult, *, comes_later: bool = False) -> None:
    row = {
        "message_id": result.message_id,
        "status": str(result.status),
        "topic": result.message_queue.topic,
        "broker_name": result.message_queue.broker_name,
        "queue_id": result.message_queue.queue_id,
        "queue_offset": result.queue_offset,
        "offset_message_id": result.offset_message_id,
    }
    stored = "" if row["status"] == "SEND_OK" else f" ({row['status']})"
    # The place of what is delivered later is that in the log of timers.
    place = f"{row['topic']}, at its time" if comes_later else f"{result.message_queue} offset {result.queue_offset}"
    output.line(row, escaped(f"sent {result.message_id} to {place}{stored}"))


def _send_all(
    producer: Producer,
    output: Output,
    topic: str,
    file: Iterable[str],
    batch: int,
    sharding_key: str | None,
    delivery: dict[str, Any],
    *,
    is_new: bool,
) -> None:
    """Send the messages of a file in order, up to the first one that fails. Raises PartlyDone with the number of its line."""
    sent = done_to = 0
    messages = _messages(topic, enumerate(file, 1))
    try:
        while chunk := list(itertools.islice(messages, batch)):
            _, message, own_key = chunk[0]
            if batch == 1:
                result = producer.send(message, sharding_key=own_key or sharding_key, **delivery)
            else:
                result = producer.send_batch([one for _, one, _ in chunk])
            _note_new(is_new and not sent, topic)
            sent, done_to = sent + len(chunk), chunk[-1][0]
            if output.is_json:
                _print(output, result)
            elif sent % _REPORT_EVERY == 0:
                note(f"{sent:,} sent")
    except RocketMQError as error:
        if not sent:
            raise
        raise PartlyDone(f"{sent:,} messages were sent; those from line {done_to + 1} on were not: {error}") from error
    except KeyboardInterrupt:
        note(f"sprocketmq: {sent:,} messages were sent")
        raise
    if not output.is_json:
        print(f"{sent:,} sent to {topic}")


def _messages(topic: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Message, str | None]]:
    number = 0
    while True:
        try:
            number, line = next(lines)
        except StopIteration:
            return
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"the file is not UTF-8 behind line {number} ({error})") from error
        if line.strip():
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ConfigurationError("not a JSON object")
                message, sharding_key = message_of(topic, row)
            except (ValueError, RecursionError, ConfigurationError) as error:
                raise ConfigurationError(
                    f"line {number} is not a message ({error}); a JSON object as 'tail --json' writes it is allowed"
                ) from error
            yield number, message, sharding_key


@click.command()
@topic_argument(metavar="TOPIC")
@click.argument("body", metavar="BODY|-")
@click.option("--key", "keys", multiple=True, help="A key of the message. Repeatable.")
@click.option("--tag", help="The tag of the message.")
@click.option("--property", "properties", type=PAIR, multiple=True, help="A property, NAME=VALUE. Repeatable.")
@click.option("--sharding-key", help="Requests with the same sharding key go to the same queue.")
@click.option(
    "--wait", "wait_ms", type=DURATION, default="3s", show_default=True, help="How long to wait for the reply."
)
@reads
def request(target: Target, output: Output, topic: str, body: str, wait_ms: int, **given: Any) -> None:
    """Send a request message and print the reply.

    If BODY is -, the body is read from stdin.
    """
    from sprocketmq.client.produce.producer import Producer

    content = sys.stdin.buffer.read() if body == "-" else body.encode("utf-8", "surrogateescape")
    message, sharding_key = _message(topic, content, **given)
    begun = now_ms()
    with Producer(_GROUP, **target.options()) as producer:
        reply = producer.request(message, timeout_ms=wait_ms, sharding_key=sharding_key)
    output.line({**as_dict(reply), "after_ms": now_ms() - begun}, body_text(reply.body))
