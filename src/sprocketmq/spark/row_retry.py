"""Retry and dead letter per row: one bad row neither stops the stream nor gets lost.

    stream.writeStream.foreachBatch(foreach_batch(judge, write=to_parquet, group="delays", namesrv_addr=...))

``judge(rows, batch_id)`` returns the rows with a flag. Good rows go to ``write``. Bad ones go back to the broker that stores them
(CONSUMER_SEND_MSG_BACK, 36), which puts a copy into ``%RETRY%group`` after 10 s, 30 s, 1 min ... with one more reconsume time, and after
``max_reconsume`` tries into ``%DLQ%group``: RocketMQ's own retry, the one that Java consumers and the operator's tools know. Read with
``includeRetry=true`` the copies come back into the same stream under the name of their origin topic.

Laws
1. Good rows are written before bad rows are sent back, and both before the batch counts as done: a crash in between replays the batch
   (at least once, both for good rows and for copies).
2. A row is judged once: what ``write`` gets and what is sent back come from the same materialised judgement.
3. A bad row whose stored copy is gone (retention) is sent to ``%RETRY%group`` with its own body; if that fails too, the batch fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from sprocketmq.client.name_servers import resolve_namesrv_addr
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.spark.cluster import Cluster, SendBack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ACTIONS", "RowRetry", "foreach_batch", "send_back"]

log = logging.getLogger("sprocketmq.spark")

Judge = Callable[["DataFrame", int], "DataFrame | None"]
Write = Callable[["DataFrame", int], object]

# What a row's ``action`` may say; null and "ack" mean that the row is good.
ACTIONS: Final = ("ack", "retry", "dlq", "drop")
# AbstractSendMessageProcessor: a negative level goes straight to the dead-letter topic.
DEAD_LETTER_LEVEL: Final = -1
_NEEDED: Final = ("brokerName", "commitLogOffset")
_USEFUL: Final = ("topic", "messageId", "reconsumeTimes", "delayLevel")
_CHUNK: Final = 4096


def foreach_batch(
    process: Judge,
    *,
    group: str,
    namesrv_addr: str | None = None,
    write: Write | None = None,
    on_error: Literal["retry", "dlq", "drop"] = "retry",
    max_reconsume: int = 16,
    delay_level: int = 0,
    retry_timeout_ms: int = 60_000,
) -> RowRetry:
    """A function for ``DataStreamWriter.foreachBatch`` that sends bad rows back instead of failing.

    Args:
        process: ``(rows, batch_id) -> DataFrame``: the rows to judge, with a column ``action`` (null or ``ack`` good, ``retry``, ``dlq``,
            ``drop``) or a boolean column ``failed``; without either column, every row returned is bad. ``None``: nothing is bad. The
            columns ``brokerName`` and ``commitLogOffset`` must be kept; ``delayLevel`` (int) may be added to choose a row's delay.
        group: the consumer group that retries; the same as the source's option ``group``.
        namesrv_addr: default NAMESRV_ADDR.
        write: ``(good_rows, batch_id)``, called with the good rows, flag column dropped. Without it ``process`` writes them itself.
        on_error: what ``failed`` rows get: another try, the dead-letter topic at once, or nothing.
        max_reconsume: after so many retries a message goes to the dead-letter topic.
        delay_level: 0 lets the broker choose by try (10 s, 30 s, 1 min, ...), 1..18 (1 s, 5 s, 10 s, ...) asks for that level.

    Returns:
        A callable with the counts of what it did: ``retried``, ``dead_lettered``, ``dropped``.

    Raises (in the stream):
        ConfigurationError: the returned rows lack a column; the sentence names it.
    """
    if on_error not in ("retry", "dlq", "drop"):
        raise ConfigurationError(f"on_error is {on_error!r}; allowed is retry, dlq or drop")
    if max_reconsume < 0:
        raise ConfigurationError(f"max_reconsume is {max_reconsume}; a whole number from 0 is allowed")
    return RowRetry(
        process,
        write,
        group,
        resolve_namesrv_addr(namesrv_addr),
        on_error,
        max_reconsume,
        delay_level,
        retry_timeout_ms,
    )


class RowRetry:
    """Made by :func:`foreach_batch`. ``retried``, ``dead_lettered`` and ``dropped`` count rows since it was made."""

    def __init__(
        self,
        process: Judge,
        write: Write | None,
        group: str,
        namesrv_addr: str,
        on_error: str,
        max_reconsume: int,
        delay_level: int,
        retry_timeout_ms: int,
    ) -> None:
        self._process, self._write = process, write
        self._group, self._namesrv_addr, self._retry_timeout_ms = group, namesrv_addr, retry_timeout_ms
        self._on_error, self._max_reconsume, self._delay_level = on_error, max_reconsume, delay_level
        self.retried = self.dead_lettered = self.dropped = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        if self._write is None:
            rows = (
                rows.persist()
            )  # process writes the good ones and the bad ones are looked at after: do not pull twice
        try:
            judged = self._process(rows, batch_id)
            if judged is not None:
                self._split(judged, batch_id)
        finally:
            if self._write is None:
                rows.unpersist()

    def _split(self, judged: DataFrame, batch_id: int) -> None:
        missing = [name for name in _NEEDED if name not in judged.columns]
        if missing:
            raise ConfigurationError(
                f"the rows returned to foreach_batch lack {' and '.join(missing)}; keep these columns, they say where a message is"
            )
        if self._write is None:
            self._send_back(judged, batch_id)
            return
        judged = judged.persist()
        try:
            bad = self._flagged(judged)
            if bad is None:
                raise ConfigurationError(
                    "write is given and the judged rows have neither an action nor a failed column; add one, or leave write out"
                )
            self._write(judged.where(~bad).drop("action", "failed", "delayLevel"), batch_id)
            self._send_back(judged, batch_id)
        finally:
            judged.unpersist()

    @staticmethod
    def _flagged(judged: DataFrame) -> Any:
        """The column that is true for a bad row, None when all are bad."""
        from pyspark.sql import functions as f

        if "action" in judged.columns:
            return f.coalesce(f.lower(f.col("action")) != "ack", f.lit(False))
        if "failed" in judged.columns:
            return f.coalesce(f.col("failed"), f.lit(False))
        return None

    def _send_back(self, judged: DataFrame, batch_id: int) -> None:
        flag = self._flagged(judged)
        bad = judged if flag is None else judged.where(flag)
        wanted = [name for name in (*_NEEDED, *_USEFUL, "action") if name in judged.columns]
        rows = (row.asDict() for row in bad.select(*wanted).toLocalIterator(prefetchPartitions=True))
        retried, dead, dropped = self.retried, self.dead_lettered, self.dropped
        while chunk := list(islice(rows, _CHUNK)):
            refused = send_back(
                [message for row in chunk if (message := self._message(row)) is not None],
                group=self._group,
                namesrv_addr=self._namesrv_addr,
                max_reconsume=self._max_reconsume,
                retry_timeout_ms=self._retry_timeout_ms,
            )
            if refused:
                self._reproduce(bad, refused)
        log.info(
            "batch %d of group %s: %d rows to be retried, %d to dead letters, %d dropped",
            *(batch_id, self._group, self.retried - retried, self.dead_lettered - dead, self.dropped - dropped),
        )

    def _message(self, row: dict[str, Any]) -> SendBack | None:
        action = (row.get("action") or self._on_error).lower()
        if action not in ACTIONS:
            raise ConfigurationError(f"action is {action!r}; allowed is {', '.join(ACTIONS)}")
        if action == "drop":
            self.dropped += 1
            return None
        if action == "dlq" or (row.get("reconsumeTimes") or 0) >= self._max_reconsume:
            self.dead_lettered += 1
            level = DEAD_LETTER_LEVEL
        else:
            self.retried += 1
            level = self._delay_level if row.get("delayLevel") is None else row["delayLevel"]
        return as_send_back(row, level)

    def _reproduce(self, bad: DataFrame, refused: list[tuple[SendBack, RemoteError]]) -> None:
        from sprocketmq.spark.retry_copies import reproduce

        reproduce(bad, refused, self._group, self._namesrv_addr, self._max_reconsume)


def as_send_back(row: dict[str, Any], delay_level: int) -> SendBack:
    """A row of the source as the message to be sent back."""
    return SendBack(
        row["brokerName"],
        row["commitLogOffset"],
        topic=row.get("topic") or "",
        message_id=row.get("messageId") or "",
        delay_level=delay_level,
    )


def send_back(
    messages: Iterable[SendBack],
    *,
    group: str,
    namesrv_addr: str | None = None,
    max_reconsume: int = 16,
    retry_timeout_ms: int = 60_000,
) -> list[tuple[SendBack, RemoteError]]:
    """Send messages back for another try in ``group``: many requests in flight, each tried again while its broker does not answer.

    Returns:
        The messages that a broker refused for good, with its answer (code 1: the stored copy is gone).

    Raises:
        NetworkError, RequestTimeout, SystemBusy: a broker did not answer within ``retry_timeout_ms``; some may have gone back.
    """
    cluster = Cluster.at(resolve_namesrv_addr(namesrv_addr), retry_timeout_ms)
    return [failure for chunk in _chunks(messages) for failure in cluster.send_back(group, chunk, max_reconsume)]


def _chunks(messages: Iterable[SendBack]) -> Iterator[list[SendBack]]:
    rest = iter(messages)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
