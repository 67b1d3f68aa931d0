# SPDX-License-Identifier: Apache-2.0
"""Retry and dead letter for single rows: a bad row neither stops the stream nor is lost.

Bad rows are sent back to the broker that stores them (CONSUMER_SEND_MSG_BACK, 36), as Java consumers do; with ``includeRetry=true`` the
copies come back into the same stream under the name of their origin topic.

1. Good rows are written before bad rows are sent back, and both before the batch is done. A crash in between repeats the batch
   (``each_try_once`` drops repeated copies).
2. The verdict of a row is computed once: ``write`` and the send-back use the verdicts stored in the checkpoint (``verdict_store``).
3. A bad row whose stored record is gone (retention) is sent with its own body. If that fails, too, the batch fails.
4. Only the driver sends, so a task that runs twice sends nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from sprocketmq.client.settings.namesrv_addr import resolve_namesrv_addr
from sprocketmq.core.callbacks import check_callback
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_int, plain_text
from sprocketmq.spark.options.access import access_of
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.source_columns import COPY_COLUMNS
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.bad_rows import BadRow, bad_row
from sprocketmq.spark.retry.fetched_rows import FetchedRows
from sprocketmq.spark.retry.query_sources import QuerySource, check_retries_are_read
from sprocketmq.spark.retry.send_back import RetryGroup
from sprocketmq.spark.retry.verdict_columns import (
    PLACE_COLUMNS,
    action_of,
    as_stored,
    check_delay_level,
    check_source_types,
    check_verdict,
    is_bad,
    known_types,
)
from sprocketmq.spark.retry.verdict_store import VerdictStore
from sprocketmq.spark.send.row_ids import first_of_each
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Process = Callable[["DataFrame", int], "DataFrame"]
Write = Callable[["DataFrame", int], object]

_USEFUL: Final = ("topic", "messageId", "keys", "reconsumeTimes", "delayLevel")
# The columns of a verdict, which ``write`` does not get.
_VERDICT: Final = ("action", "failed", "delayLevel", "reason")
# What rows are alike in, and what differs among them, for what is checked before anything is done.
_KIND: Final = ("brokerName", "topic", "action")
_LIMITS: Final = ("commitLogOffset", "reconsumeTimes")
_CHUNK: Final = 4096
_LIFE: Final = "__sprocketmq_life"
# Rows that ``process`` writes itself could have other verdicts than those that are sent back.
_WRITE: Final = "give lambda good, batch_id: None if nothing is to be written"


def foreach_batch(
    process: Process,
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
    check_source: bool = True,
) -> RowRetry:
    """A function for ``DataStreamWriter.foreachBatch`` that sends bad rows back instead of failing.

    Args:
        process: ``(rows, batch_id) -> DataFrame``: returns all rows, good ones too, with a column ``action`` (null or ``ack`` for a good
            row, ``retry``, ``dlq``, ``drop``) or a boolean column ``failed``. The columns ``brokerName`` and ``commitLogOffset`` must be
            kept. An optional column ``delayLevel`` (int) chooses a row's delay. An optional column ``reason`` (string) is stored as
            property RETRY_REASON of the copies and of the dead letter; it needs the columns ``topic``, ``body``, ``properties`` and
            ``reconsumeTimes``. The function must not write anything: a repeated batch uses the stored verdicts and does not call it again.
        write: ``(good_rows, batch_id)``, called with the good rows, without the columns of the verdict.
        group: the consumer group that retries; the same as the source's option ``group``.
        namesrv_addr: default: that of ``options``, otherwise NAMESRV_ADDR.
        on_error: what happens to rows with ``failed``: another try, the dead-letter topic at once, or nothing.
        max_reconsume: after so many retries a message goes to the dead-letter topic.
        delay_level: 0 lets the broker choose by the number of tries (10 s, 30 s, 1 min, ...), 1 to 18 (1 s, 5 s, 10 s, ...) is a fixed
            level.
        retry_timeout_ms: how long a request is retried while its broker does not answer.
        options: the source's options; the name server, access keys and TLS settings are used.
        checkpoint_location: the query's ``checkpointLocation``, in which the verdicts are stored. By default Spark is asked; Spark Connect
            does not know it, so give it there.
        name: a name for this function, if a query has several for one group. Default: the group.
        check_source: whether the query's own source must read what is sent back to be retried. False: another query or a consumer does.

    Returns:
        A callable that counts what it did: ``retried``, ``dead_lettered``, ``dropped``. Give the query's source its ``source_options``.

    Raises (in the stream):
        ConfigurationError: the returned rows lack a column or a value, or the query's source does not read the retries of ``group``.
    """
    if on_error not in ("retry", "dlq", "drop"):
        raise ConfigurationError(f"on_error is {on_error!r}; allowed is retry, dlq or drop")
    check_callback("process", process, "rows, batch_id")
    check_callback("write", write, "good_rows, batch_id", _WRITE)
    max_reconsume, retry_timeout_ms = plain_int(max_reconsume), plain_int(retry_timeout_ms)
    if max_reconsume < 0:
        raise ConfigurationError(f"max_reconsume is {max_reconsume}; a whole number from 0 is allowed")
    given = GivenOptions(dict(options or {}))
    named = GivenOptions({"group": group}).name("group", "")
    if given.name("group", named) != named:
        raise ConfigurationError(
            f"group is {group!r} and the options name group {given.text('group')!r}; a row is delivered again to the group "
            "that sent it back, give both the same"
        )
    address = resolve_namesrv_addr(namesrv_addr or given.text("namesrvAddr"))
    retry_group = RetryGroup(named, address, access_of(given), max_reconsume, retry_timeout_ms)
    check_delay_level(delay_level)
    source_options = {**(options or {}), "namesrvAddr": address, "group": named, "includeRetry": "true"}
    return RowRetry(
        process,
        write,
        on_error=plain_text(on_error),
        delay_level=plain_int(delay_level),
        group=retry_group,
        name=plain_text(name or named),
        checkpoint_location=checkpoint_location if checkpoint_location is None else plain_text(checkpoint_location),
        source_options=source_options,
        check_source=check_source,
    )


def each_try_once(rows: DataFrame, within: str | None = None) -> DataFrame:
    """A stream without repeated tries: each try of each message comes once.

    A batch that is repeated after a crash sends its bad rows back again, and a producer that lost an answer stores its message twice. All
    such copies have the same ``messageId`` and ``reconsumeTimes``. Spark's state store, part of the checkpoint, remembers what came. A
    replayed dead letter keeps its id but counts as another message: it has the property REPLAY_ID.

    Args:
        rows: a stream of the source with the columns ``messageId``, ``reconsumeTimes`` and ``properties``.
        within: how long repetitions are recognized, counted from when a row was first read, so no row is late; 3 hours by default. Choose
            more than the longest delay level in use. Not for rows with a watermark of yours, whose delay it is then: a query has one
            watermark, so call ``withWatermark`` before this function.
    """
    from pyspark.sql import functions as f

    missing = [name for name in ("messageId", "reconsumeTimes", "properties") if name not in rows.columns]
    if missing:
        raise ConfigurationError(f"the rows given to each_try_once lack {' and '.join(missing)}; keep these columns")
    # The message id alone if there is no REPLAY_ID, as in the state of queries that older versions began.
    life = f.concat_ws("/", "messageId", f.try_element_at("properties", f.lit(props.REPLAY_ID)))
    return first_of_each(rows.withColumn(_LIFE, life), [_LIFE, "reconsumeTimes"], within).drop(_LIFE)


class RowRetry:
    """Made by :func:`foreach_batch`. ``retried``, ``dead_lettered``, ``dropped``: count rows since it was made. ``source_options``:
    options for the query's source, which then reads what is sent back: those given, the name server, the group, and
    includeRetry. ``check_source``: as given."""

    def __init__(
        self,
        process: Process,
        write: Write,
        *,
        on_error: str,
        delay_level: int,
        group: RetryGroup,
        name: str,
        checkpoint_location: str | None,
        source_options: dict[str, str],
        check_source: bool,
    ) -> None:
        self._process, self._write = process, write
        self._on_error, self._delay_level, self._group = on_error, delay_level, group
        self._name, self._checkpoint_location = name, checkpoint_location
        self.source_options, self.check_source = source_options, check_source
        self.retried = self.dead_lettered = self.dropped = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        store = VerdictStore(rows, batch_id, self._name, self._checkpoint_location)
        try:
            self._batch(store, rows, batch_id)
        except BaseException:
            store.call_failed()
            raise

    def _batch(self, store: VerdictStore, rows: DataFrame, batch_id: int) -> None:
        stored = self._stored(store, batch_id)
        bad: FetchedRows | None
        if stored is not None:
            verdicts, bad = stored
        else:
            processed = self._processed(rows, batch_id)
            verdicts, count = store.save(processed, self._is_bad(processed))
            bad = self._fetch_bad_rows(verdicts) if count else None
        self._check_source(store.sources, verdicts, bad)
        if stored is not None:
            troubles.failed(
                ("repeated", self._group.name),
                "batch %d of group %s is repeated with the verdicts that it was given before; to compute new verdicts, delete %s while the "
                "query stands still",
                *(batch_id, self._group.name, store.path),
            )
            # Run the batch all the same, for what depends on it: state stores, watermarks, progress.
            rows.write.format("noop").mode("overwrite").save()
        else:
            store.complete()
        self._write(verdicts.where(~self._is_bad(verdicts)).drop(*_VERDICT), batch_id)
        self._send_back(verdicts, bad, batch_id)

    def _stored(self, store: VerdictStore, batch_id: int) -> tuple[DataFrame, FetchedRows] | None:
        verdicts = store.load()
        if verdicts is None:
            return None
        try:
            return verdicts, self._fetch_bad_rows(verdicts)
        except ConfigurationError as error:  # stored by a version that did not check them
            troubles.failed("judged again", "batch %d was judged before, and it is judged again: %s", batch_id, error)
            return None

    def _fetch_bad_rows(self, verdicts: DataFrame) -> FetchedRows:
        """The bad rows of the batch, checked: each can be sent back. Raises ConfigurationError (a value is missing or not allowed),
        NetworkError, RequestTimeout (the broker of a row is not registered)."""
        bad = FetchedRows(self._columns_to_fetch(verdicts.where(self._is_bad(verdicts))))
        topics = {row.message.broker_name: row.message.topic for row in self._kinds(bad)}
        cluster = self._group.cluster
        # By a topic of its rows: behind a proxy an account may see no other.
        for name, topic in sorted(topics.items()):
            cluster.run(partial(cluster.master, name, topic or None))
        return bad

    def _kinds(self, bad: FetchedRows) -> Iterator[BadRow]:
        """Rows that stand for all that are sent back: what ``bad_row`` refuses in any of them, it refuses here; but for delay levels,
        which were checked before."""
        kinds = bad.of_each_kind(_KIND, _LIMITS)
        return (row for row in map(self._bad_row, kinds) if row is not None)

    def _check_source(self, sources: Sequence[QuerySource], verdicts: DataFrame, bad: FetchedRows | None) -> None:
        """Raise ConfigurationError if rows are to be retried, now or later, and no source of the query reads them again."""
        if not self.check_source or not sources:
            return
        later = "failed" in known_types(verdicts) and self._on_error == "retry" and self._group.max_reconsume > 0
        if later or (bad is not None and any(row.message.delay_level >= 0 for row in self._kinds(bad))):
            check_retries_are_read(sources, self._group.name)

    def _processed(self, rows: DataFrame, batch_id: int) -> DataFrame:
        verdicts = self._process(rows, batch_id)
        check_verdict(verdicts)
        known = known_types(verdicts)
        missing = [name for name in PLACE_COLUMNS if name not in known]
        if missing:
            raise ConfigurationError(
                f"the rows returned to foreach_batch lack {' and '.join(missing)}; keep these columns, they say where a message is"
            )
        check_source_types(verdicts, "reason" in known)
        if "reason" in known and (lacking := [name for name in COPY_COLUMNS if name not in known]):
            raise ConfigurationError(
                f"the rows returned to foreach_batch have a reason and lack {', '.join(lacking)}: a reason is sent with a copy of the "
                "message; keep these columns, or leave reason out"
            )
        return verdicts

    @staticmethod
    def _is_bad(verdicts: DataFrame) -> Any:
        from pyspark.sql import functions as f

        return f.expr(is_bad(known_types(verdicts)))

    def _send_back(self, verdicts: DataFrame, bad: FetchedRows | None, batch_id: int) -> None:
        sender = BadRowSender(self._group)
        rows = map(self._bad_row, bad or ())
        dropped = 0
        while chunk := list(islice(rows, _CHUNK)):
            going = [row for row in chunk if row is not None]
            dropped += len(chunk) - len(going)
            refused = sender.send_back(sender.first_of_each_message(going))
            if refused:
                from sprocketmq.spark.retry.retry_copies import send_with_content

                send_with_content(verdicts.where(self._is_bad(verdicts)), refused, sender.send_copies)
        self.retried += sender.retried
        self.dead_lettered += sender.dead_lettered
        self.dropped += dropped
        sender.log_result(f"batch {batch_id}", dropped)

    @staticmethod
    def _columns_to_fetch(bad: DataFrame) -> DataFrame:
        """What the driver needs: the place of each row, and the whole row only if it has a reason."""
        known = known_types(bad)
        here = [f"{name} AS {name}" for name in (*PLACE_COLUMNS, *_USEFUL, "action") if name in known]
        if "reason" in known:
            heavy = [name for name in ("body", "properties", "storeHost", "sysFlag") if name in known]
            here += ["reason AS reason"]
            here += [f"CASE WHEN reason != '' THEN {as_stored(name)} END AS {name}" for name in heavy]
        return bad.selectExpr(*here)

    def _bad_row(self, row: dict[str, Any]) -> BadRow | None:
        action = action_of(row.get("action"), self._on_error)
        if action == "drop":
            return None
        return bad_row(row, action, delay_level=self._delay_level, max_reconsume=self._group.max_reconsume)
