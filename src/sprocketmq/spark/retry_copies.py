"""A retry copy made here, for a bad row whose stored copy the broker has deleted already (Java: sendMessageBack by the inner producer).

The rows are asked for their body and properties only now, because this is rare: a stream that is days behind.

    refused send-backs --(place: broker, commit log offset)--> rows of the batch --> retry_copies --> send_copies --> %RETRY%group
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.producer import AsyncProducer
from sprocketmq.client.send_back import retry_copy
from sprocketmq.core.retry_schedule import retry_level
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.net.engine import Engine
from sprocketmq.spark.cluster import SendBack
from sprocketmq.wire import properties as props
from sprocketmq.wire.message import Message, MessageExt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["reproduce", "retry_copies", "send_copies"]

Place = tuple[str, int]

_NEEDED: Final = ("topic", "body", "properties", "reconsumeTimes")
_ROWS_PER_QUERY: Final = 200


def reproduce(
    bad: DataFrame,
    refused: Sequence[tuple[SendBack, RemoteError]],
    group: str,
    namesrv_addr: str,
    max_reconsume_times: int,
) -> None:
    """Send the ``refused`` rows of ``bad`` to ``%RETRY%group`` with their own bodies.

    Raises:
        ConfigurationError: the rows were not kept whole, or are not there when asked again, so nothing is left to send.
        RocketMQError: the broker does not take the copy either.
    """
    missing = [name for name in _NEEDED if name not in bad.columns]
    if missing:
        message, error = refused[0]
        raise ConfigurationError(
            f"{len(refused)} bad rows cannot be sent back, the first is {message} ({error}), and the rows lack {', '.join(missing)} "
            "to send a new copy; keep the columns of the source in the rows that process returns"
        )
    wanted = ["brokerName", "commitLogOffset", *_NEEDED, *(name for name in ("storeHost",) if name in bad.columns)]
    for at in range(0, len(refused), _ROWS_PER_QUERY):
        part = {(m.broker_name, m.commit_log_offset): m for m, _ in refused[at : at + _ROWS_PER_QUERY]}
        rows = (row.asDict() for row in bad.where(_is_one_of(part)).select(wanted).toLocalIterator())
        send_copies(retry_copies(rows, part, group, max_reconsume_times), group, namesrv_addr)


def retry_copies(
    rows: Iterable[Mapping[str, Any]], refused: Mapping[Place, SendBack], group: str, max_reconsume_times: int
) -> Iterator[Message]:
    """The messages for ``%RETRY%group``, one per row; ``refused`` says by place how each was to go back.

    Raises:
        ConfigurationError: a refused place is not among the rows; it would be lost.
    """
    unseen = dict(refused)
    for row in rows:
        place = row["brokerName"], row["commitLogOffset"]
        unseen.pop(place, None)
        asked_level = refused[place].delay_level
        dead = asked_level < 0
        # A send to %RETRY% whose tries exceed its limit is stored as a dead letter at once.
        limit = 0 if dead else max_reconsume_times
        level = 0 if dead else retry_level(row["reconsumeTimes"], asked_level)
        yield retry_copy(_message(row, refused[place].message_id), group, limit, level)
    if unseen:
        raise ConfigurationError(
            f"{len(unseen)} bad rows cannot be sent back and were not there when asked for again, the first is "
            f"{next(iter(unseen.values()))}; let process return the same rows each time, or give write"
        )


def send_copies(copies: Iterable[Message], group: str, namesrv_addr: str) -> None:
    """Send ``copies`` one after the other, each stored before the next. Raises what the producer raises."""
    producer = AsyncProducer(group + "_RETRY", namesrv_addr=namesrv_addr)
    engine = Engine.shared()
    engine.run(producer.start())
    try:
        for copy in copies:
            engine.run(producer.send(copy))
    finally:
        engine.run(producer.shutdown())


def _is_one_of(places: Iterable[Place]) -> Any:
    from pyspark.sql import functions as f

    conditions = [(f.col("brokerName") == name) & (f.col("commitLogOffset") == at) for name, at in places]
    return reduce(lambda one, other: one | other, conditions)


def _message(row: Mapping[str, Any], message_id: str) -> MessageExt:
    message = MessageExt(
        row["topic"],
        bytes(row["body"]),
        reconsume_times=row["reconsumeTimes"],
        broker_name=row["brokerName"],
        commit_log_offset=row["commitLogOffset"],
        store_host=row.get("storeHost") or "127.0.0.1:0",
    )
    message.properties.update(row["properties"] or {})
    if message_id and not row.get("storeHost"):  # the stored copy cannot be named without its host; its sender's id can
        message.properties.setdefault(props.ORIGIN_MESSAGE_ID, message_id)
    return message
