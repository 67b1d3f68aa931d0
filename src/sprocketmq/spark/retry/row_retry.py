"""Retry and dead letter per row: one bad row neither stops the stream nor gets lost.

    stream.writeStream.foreachBatch(foreach_batch(judge, write=to_parquet, group="delays", namesrv_addr=...))

``judge(rows, batch_id)`` returns the rows with a flag. Good rows go to ``write``. Bad ones go back to the broker that stores them
(CONSUMER_SEND_MSG_BACK, 36), which puts a copy into ``%RETRY%group`` after 10 s, 30 s, 1 min ... with one more reconsume time, and after
``max_reconsume`` tries into ``%DLQ%group``: RocketMQ's own retry, the one that Java consumers and the operator's tools know. Read with
``includeRetry=true`` the copies come back into the same stream under the name of their origin topic.

Laws
1. Good rows are written before bad rows are sent back, and both before the batch counts as done: a crash in between replays the batch
   (at least once, both for good rows and for copies; ``each_try_once`` drops what comes twice).
2. A row is judged once: what ``write`` gets and what is sent back come from the same judgement, kept in the checkpoint of the query; a
   batch that is repeated finds it there (``kept_verdicts``).
3. A bad row whose stored copy is gone (retention) is sent to ``%RETRY%group`` with its own body; if that fails too, the batch fails.
4. A message goes back once for a batch, however many of its rows are bad; a task that Spark runs twice sends nothing twice, as only the
   driver sends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from sprocketmq.client.settings.namesrv_addr import resolve_namesrv_addr
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.columns.fetched_rows import fetched_rows
from sprocketmq.spark.options.access import Access
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.source_columns import CONTENT
from sprocketmq.spark.retry.bad_rows import BadRow, bad_row
from sprocketmq.spark.retry.hand_back import HandBack
from sprocketmq.spark.retry.kept_verdicts import KeptVerdicts
from sprocketmq.spark.retry.verdict_columns import ACTIONS, action_of, check_delay_level, check_verdict, said
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ACTIONS", "RowRetry", "each_try_once", "foreach_batch"]

log = logging.getLogger("sprocketmq.spark")

Judge = Callable[["DataFrame", int], "DataFrame"]
Write = Callable[["DataFrame", int], object]

_NEEDED: Final = ("brokerName", "commitLogOffset")
_USEFUL: Final = ("topic", "messageId", "reconsumeTimes", "delayLevel")
# What a judge adds, and ``write`` does not get.
_VERDICT: Final = ("action", "failed", "delayLevel", "reason")
_CHUNK: Final = 4096


def foreach_batch(
    process: Judge,
    *,
    write: Write,
    group: str,
    namesrv_addr: str | None = None,
    on_error: Literal["retry", "dlq", "drop"] = "retry",
    max_reconsume: int = 16,
    delay_level: int = 0,
    retry_timeout_ms: int = 60_000,
    options: Mapping[str, str] | None = None,
    checkpoint_location: str | None = None,
    name: str | None = None,
) -> RowRetry:
    """A function for ``DataStreamWriter.foreachBatch`` that sends bad rows back instead of failing.

    Args:
        process: ``(rows, batch_id) -> DataFrame``: the rows to judge, the good ones among them, with a column ``action`` (null or ``ack``
            good, ``retry``, ``dlq``, ``drop``) or a boolean column ``failed``. The columns ``brokerName`` and ``commitLogOffset`` must be
            kept. ``delayLevel`` (int) may be added to choose a row's delay, and ``reason`` (string) to say why: it is kept as property
            RETRY_REASON of the copies and of the dead letter (keep ``topic``, ``body``, ``properties`` and ``reconsumeTimes`` then). It
            writes nothing itself: its verdicts count once they are kept, and a batch that is repeated is not judged again.
        write: ``(good_rows, batch_id)``, called with the good rows, the columns of the verdict dropped.
        group: the consumer group that retries; the same as the source's option ``group``.
        namesrv_addr: default what ``options`` say, else NAMESRV_ADDR.
        on_error: what ``failed`` rows get: another try, the dead-letter topic at once, or nothing.
        max_reconsume: after so many retries a message goes to the dead-letter topic.
        delay_level: 0 lets the broker choose by try (10 s, 30 s, 1 min, ...), 1..18 (1 s, 5 s, 10 s, ...) asks for that level.
        retry_timeout_ms: how long a send-back is tried again while its broker does not answer.
        options: the source's options, of which the name server, access keys and TLS are taken.
        checkpoint_location: the query's ``checkpointLocation``, in which the verdicts of a batch are kept. Default: what Spark says; with
            Spark Connect it says nothing, so give it there.
        name: of this judge, where a query has several for one group. Default the group.

    Returns:
        A callable with the counts of what it did: ``retried``, ``dead_lettered``, ``dropped``.

    Raises (in the stream):
        ConfigurationError: the returned rows lack a column; the sentence names it.
    """
    if on_error not in ("retry", "dlq", "drop"):
        raise ConfigurationError(f"on_error is {on_error!r}; allowed is retry, dlq or drop")
    if not callable(write):
        raise ConfigurationError(
            f"write is {write!r}; give a function (good_rows, batch_id), such as lambda good, batch_id: None: what the judge wrote itself "
            "would be another judgement than what is sent back"
        )
    if max_reconsume < 0:
        raise ConfigurationError(f"max_reconsume is {max_reconsume}; a whole number from 0 is allowed")
    given = GivenOptions(dict(options or {}))
    named = GivenOptions({"group": group}).name("group", "")
    if given.name("group", named) != named:
        raise ConfigurationError(
            f"group is {group!r} and the options name group {given.text('group')!r}; a row comes again to the group that sent it back, "
            "give both the same"
        )
    address = resolve_namesrv_addr(namesrv_addr or given.text("namesrvAddr"))
    hand = (group, address, given.access(), max_reconsume, retry_timeout_ms)
    check_delay_level(delay_level)
    return RowRetry(process, write, on_error, delay_level, hand, (name or group, checkpoint_location))


def each_try_once(rows: DataFrame, within: str = "3 hours") -> DataFrame:
    """A stream without repeats: of each message, each try comes once.

    A batch that was replayed after a crash sends its bad rows back once more, and a producer that lost an answer stores its message
    twice; all such copies have the same ``messageId`` and ``reconsumeTimes``. Spark's state store, part of the checkpoint, remembers what
    came. A replayed dead letter has the id it had, and begins a new life: property REPLAY_ID says so.

    Args:
        rows: a stream of the source with the columns ``messageId``, ``reconsumeTimes`` and ``properties``.
        within: for how long repeats are known, counted from when a row was first read, so that no row is ever too late. Longer than the
            longest delay level in use.
    """
    from pyspark.sql import functions as f

    missing = [name for name in ("messageId", "reconsumeTimes", "properties") if name not in rows.columns]
    if missing:
        raise ConfigurationError(f"the rows given to each_try_once lack {' and '.join(missing)}; keep these columns")
    # One text, as in the state of queries that began before replays had ids.
    life = f.concat_ws("/", "messageId", f.try_element_at("properties", f.lit(props.REPLAY_ID)))
    seen = (
        rows.withColumn("life", life).withColumn("firstRead", f.current_timestamp()).withWatermark("firstRead", within)
    )
    return seen.dropDuplicatesWithinWatermark(["life", "reconsumeTimes"]).drop("life", "firstRead")


Hand = tuple[str, str, Access, int, int]


class RowRetry:
    """Made by :func:`foreach_batch`. ``retried``, ``dead_lettered`` and ``dropped`` count rows since it was made."""

    def __init__(
        self, process: Judge, write: Write, on_error: str, delay_level: int, hand: Hand, kept: tuple[str, str | None]
    ) -> None:
        self._process, self._write = process, write
        self._on_error, self._delay_level, self._hand, self._kept = on_error, delay_level, hand, kept
        self.retried = self.dead_lettered = self.dropped = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        kept = KeptVerdicts(rows, batch_id, *self._kept)
        try:
            self._batch(kept, rows, batch_id)
        except BaseException:
            kept.call_failed()
            raise

    def _batch(self, kept: KeptVerdicts, rows: DataFrame, batch_id: int) -> None:
        judged = kept.found()
        if judged is None:
            judged = kept.keep(self._judged(rows, batch_id))
        else:
            log.warning(
                "batch %d of group %s is repeated with the verdicts that it was given before; to have it judged anew, delete %s while the "
                "query stands still",
                *(batch_id, self._hand[0], kept.path),
            )
            # What is upstream has its part in each run of a batch: state stores, watermarks, progress.
            rows.write.format("noop").mode("overwrite").save()
        bad = self._flagged(judged)
        self._write(judged.where(~bad).drop(*_VERDICT), batch_id)
        self._send_back(judged.where(bad), batch_id)

    def _judged(self, rows: DataFrame, batch_id: int) -> DataFrame:
        judged = self._process(rows, batch_id)
        check_verdict(judged)
        missing = [name for name in _NEEDED if name not in judged.columns]
        if missing:
            raise ConfigurationError(
                f"the rows returned to foreach_batch lack {' and '.join(missing)}; keep these columns, they say where a message is"
            )
        if "reason" in judged.columns and (lacking := [name for name in CONTENT if name not in judged.columns]):
            raise ConfigurationError(
                f"the rows returned to foreach_batch have a reason and lack {', '.join(lacking)}: a reason travels with a copy of the "
                "message; keep these columns, or leave reason out"
            )
        return judged

    @staticmethod
    def _flagged(judged: DataFrame) -> Any:
        """The column that is true for a bad row."""
        from pyspark.sql import functions as f

        verdict = said("action") != "ack" if "action" in judged.columns else f.col("failed")
        return f.coalesce(verdict, f.lit(False))

    def _send_back(self, bad: DataFrame, batch_id: int) -> None:
        group, namesrv_addr, access, max_reconsume, retry_timeout_ms = self._hand
        hand = HandBack(
            group, namesrv_addr, access=access, max_reconsume=max_reconsume, retry_timeout_ms=retry_timeout_ms
        )
        rows = fetched_rows(self._wanted(bad))
        retried, dead, dropped = self.retried, self.dead_lettered, self.dropped
        while chunk := list(islice(rows, _CHUNK)):
            going = [going for row in chunk if (going := self._bad_row(row)) is not None]
            refused = hand.rows(self._counted(hand.first_of_each(going)))
            if refused:
                from sprocketmq.spark.retry.retry_copies import fetched_again

                fetched_again(bad, refused, hand.send_copies)
        log.info(
            "batch %d of group %s: %d rows to be retried, %d to dead letters, %d dropped",
            *(batch_id, group, self.retried - retried, self.dead_lettered - dead, self.dropped - dropped),
        )

    @staticmethod
    def _wanted(bad: DataFrame) -> DataFrame:
        """What has to come to the driver: where each row is, and the whole row only if it says why it is bad."""
        from pyspark.sql import functions as f

        here = [f.col(name) for name in (*_NEEDED, *_USEFUL, "action") if name in bad.columns]
        if "reason" in bad.columns:
            explained = f.col("reason").isNotNull() & (f.col("reason") != "")
            heavy = [name for name in ("body", "properties", "storeHost", "sysFlag") if name in bad.columns]
            here += [f.col("reason"), *(f.when(explained, f.col(name)).alias(name) for name in heavy)]
        return bad.select(*here)

    def _bad_row(self, row: dict[str, Any]) -> BadRow | None:
        action = action_of(row.get("action"), self._on_error)
        if action == "drop":
            self.dropped += 1
            return None
        return bad_row(row, action, delay_level=self._delay_level, max_reconsume=self._hand[3])

    def _counted(self, rows: Iterable[BadRow]) -> Iterator[BadRow]:
        for row in rows:
            if row.message.delay_level < 0:
                self.dead_lettered += 1
            else:
                self.retried += 1
            yield row
