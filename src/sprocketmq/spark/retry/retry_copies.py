# SPDX-License-Identifier: Apache-2.0
"""Retry copies made by the client: for a bad row with a reason, and for one whose stored record the broker has deleted (Java:
sendMessageBack by the inner producer). A copy is what the broker would have made of its own record, plus the reason as a property."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.consume.send_back import retry_copy
from sprocketmq.client.remoting.message_writer import MessageWriter, send_answer
from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.results import SendStatus
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.core.retry.retry_schedule import retry_level
from sprocketmq.errors import ConfigurationError, RemoteError, RocketMQError
from sprocketmq.net.address import local_ip
from sprocketmq.net.process.clock import SystemClock
from sprocketmq.spark.options.source_columns import COPY_COLUMNS
from sprocketmq.spark.retry.bad_rows import BadRow
from sprocketmq.spark.retry.fetched_rows import FetchedRows
from sprocketmq.spark.retry.send_back import Masters, RetryGroup, send_each
from sprocketmq.spark.retry.verdict_columns import as_stored, check_source_types, known_types
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_PER_QUERY: Final = 200
# Columns that a copy uses if the row has them.
_IF_THERE: Final = ("storeHost", "sysFlag")
# A row, and how its copy is stored, or why it is not.
UnsafeCopy = tuple[BadRow, SendStatus | RocketMQError]
_TRY_MS: Final = 10_000


def send_with_content(
    bad: DataFrame, refused: Sequence[tuple[BadRow, RemoteError]], send: Callable[[Iterable[BadRow]], None]
) -> None:
    """Fetch the bodies of the ``refused`` rows from ``bad``, now: of a stream that is days behind. Raises ConfigurationError (the rows lack
    columns of a copy, or are not found again), RocketMQError (the broker refuses the copy, too)."""
    known = known_types(bad)
    missing = [name for name in COPY_COLUMNS if name not in known]
    if missing:
        row, error = refused[0]
        raise ConfigurationError(
            f"{len(refused)} bad rows cannot be sent back, the first is {row.message} ({error}), and the rows lack {', '.join(missing)} "
            "to send a new copy; keep the columns of the source in the rows that process returns"
        )
    check_source_types(bad, with_content=True)
    names = ["brokerName", "commitLogOffset", *COPY_COLUMNS, *(name for name in _IF_THERE if name in known)]
    wanted = [f"{as_stored(name)} AS {name}" for name in names]
    for at in range(0, len(refused), _ROWS_PER_QUERY):
        part = {row.place: row for row, _ in refused[at : at + _ROWS_PER_QUERY]}
        send(with_content(FetchedRows(bad.where(_is_one_of(part)).selectExpr(*wanted)), part))


def with_content(rows: Iterable[dict[str, Any]], refused: dict[tuple[str, int], BadRow]) -> Iterator[BadRow]:
    """Each refused row once, with its content. Raises ConfigurationError if one is missing, as it would be lost."""
    unseen = dict(refused)
    for row in rows:
        found = unseen.pop((row["brokerName"], row["commitLogOffset"]), None)
        if found is not None:
            yield replace(found, content=row)
    if unseen:
        first = next(iter(unseen.values())).message
        raise ConfigurationError(
            f"{len(unseen)} bad rows cannot be sent back and were not found when fetched again, the first is {first}; let process "
            "return the same rows each time, or give write"
        )


def _is_one_of(places: Iterable[tuple[str, int]]) -> Any:
    from pyspark.sql import functions as f

    conditions = [(f.col("brokerName") == name) & (f.col("commitLogOffset") == at) for name, at in places]
    return reduce(lambda one, other: one | other, conditions)


def send_copies(rows: Iterable[BadRow], group: RetryGroup) -> list[UnsafeCopy]:
    """Send a copy of each row (all have content) to the broker of its record, which creates %RETRY%group with the first message for it, so
    no route is needed. Returns the rows whose copies were refused, here or by the broker, or are not stored with SEND_OK. Raises
    NetworkError, RequestTimeout, SystemBusy (some copies may be stored)."""
    cluster = group.cluster
    settings = SendSettings(group=group.name + "_RETRY")
    writer = MessageWriter(settings, SystemClock(), UniqueKeys(local_ip()), None, False)
    masters, unsafe = Masters(cluster), list[UnsafeCopy]()

    async def send(row: BadRow) -> None:
        problem = await _problem(masters, writer, row, _copy(row, group))
        if problem is not None:
            unsafe.append((row, problem))

    cluster.engine.run(send_each(list(rows), send))
    return unsafe


async def _problem(
    masters: Masters, writer: MessageWriter, row: BadRow, copy: Message
) -> SendStatus | RocketMQError | None:
    cluster = masters.cluster
    send = Send(copy, stored_flag=(row.content or {}).get("sysFlag") or 0)

    async def ask() -> SendStatus:
        broker_name = row.message.broker_name
        address = await masters.of(broker_name, row.message.topic or None)
        command = writer.command(send, MessageQueue(copy.topic, broker_name, 0))
        try:
            answer = await cluster.invoke(address, command, min(_TRY_MS, cluster.retry_timeout_ms))
            status, _ = send_answer(answer, address)
        except RocketMQError:
            masters.forget(broker_name)
            raise
        return status

    try:
        writer.write(send)
    except ConfigurationError as error:
        return error
    try:
        status = await cluster.retrying(ask)
    except RocketMQError as error:
        if is_transient(error):
            raise
        return error
    return None if status is SendStatus.SEND_OK else status


def _copy(row: BadRow, group: RetryGroup) -> Message:
    assert row.content is not None
    asked_level = row.message.delay_level
    dead = asked_level < 0
    # The broker stores a send to %RETRY% whose tries exceed its limit as a dead letter.
    limit = 0 if dead else group.max_reconsume
    level = 0 if dead else retry_level(row.content["reconsumeTimes"], asked_level)
    return retry_copy(_message(row), group.name, limit, level, row.reason)


def _message(row: BadRow) -> MessageExt:
    content = row.content
    assert content is not None
    place = {"broker_name": row.message.broker_name, "commit_log_offset": row.message.commit_log_offset}
    make = partial(MessageExt, content["topic"], content["body"], reconsume_times=content["reconsumeTimes"], **place)
    host = content.get("storeHost") or ""
    try:
        message = make(store_host=host)
    except ConfigurationError:  # no address
        host, message = "", make()
    message.properties.update({name: text for name, text in dict(content["properties"]).items() if text})
    if row.message.message_id and not host:
        # without its host the stored record has no offset message id; the id of its sender is used
        message.properties.setdefault(props.ORIGIN_MESSAGE_ID, row.message.message_id)
    return message
