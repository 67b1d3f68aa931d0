"""A retry copy made here, for a bad row whose stored copy the broker has deleted already (Java: sendMessageBack by the inner producer).

The rows are asked for their body and properties only now, because this is rare: a stream that is days behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.producer import AsyncProducer
from sprocketmq.client.send_back import retry_copy
from sprocketmq.core.retry_schedule import retry_level
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.net.engine import Engine
from sprocketmq.spark.cluster import SendBack
from sprocketmq.wire.message import MessageExt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["reproduce"]

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
        ConfigurationError: the rows were not kept whole, so nothing is left to send.
        RocketMQError: the broker does not take the copy either.
    """
    missing = [name for name in _NEEDED if name not in bad.columns]
    if missing:
        message, error = refused[0]
        raise ConfigurationError(
            f"{len(refused)} bad rows cannot be sent back, the first is {message} ({error}), and the rows lack {', '.join(missing)} "
            "to send a new copy; keep the columns of the source in the rows that process returns"
        )
    producer = AsyncProducer(group + "_RETRY", namesrv_addr=namesrv_addr)
    engine = Engine.shared()
    engine.run(producer.start())
    try:
        for at in range(0, len(refused), _ROWS_PER_QUERY):
            part = {(m.broker_name, m.commit_log_offset): m for m, _ in refused[at : at + _ROWS_PER_QUERY]}
            for row in bad.where(_is_one_of(part)).select("brokerName", "commitLogOffset", *_NEEDED).toLocalIterator():
                message = part[row["brokerName"], row["commitLogOffset"]]
                level = retry_level(row["reconsumeTimes"]) if message.delay_level == 0 else message.delay_level
                # A send to %RETRY% whose tries exceed its limit is stored as a dead letter at once.
                limit = max_reconsume_times if level >= 0 else 0
                copy = retry_copy(_message(row.asDict()), group, limit, max(level, 0))
                engine.run(producer.send(copy))
    finally:
        engine.run(producer.shutdown())


def _is_one_of(places: dict[tuple[str, int], SendBack]) -> Any:
    from pyspark.sql import functions as f

    conditions = [(f.col("brokerName") == name) & (f.col("commitLogOffset") == at) for name, at in places]
    return reduce(lambda one, other: one | other, conditions)


def _message(row: dict[str, Any]) -> MessageExt:
    message = MessageExt(
        row["topic"],
        bytes(row["body"]),
        reconsume_times=row["reconsumeTimes"],
        broker_name=row["brokerName"],
        commit_log_offset=row["commitLogOffset"],
    )
    message.properties.update(row["properties"] or {})
    return message
