# SPDX-License-Identifier: Apache-2.0
"""``delivery=transactional``: the rows of a batch appear exactly once and all together, whichever process dies.

    tasks     read the ledger: if the batch is decided send nothing, otherwise send half messages and return their positions (half_messages)
    driver    append a decision, read which one counts, commit the half messages of its attempts, roll back others (core.transactions)
    members   of the producer group answer check-backs from the ledger: each process that writes, and ``sprocketmq settle``

    killed before the decision is stored:  nothing appears; the batch runs again, the first half messages are rolled back by check-backs
    killed after it:                       the batch runs again and sends nothing; half messages not ended yet are committed by check-backs

``commit`` raises, and Spark runs the batch again, unless the batch is decided. After that it does not fail for anything that an END or
a check-back will repair. ``abort`` rolls back only if a task has no commit message: then ``commit`` was not called. A batch is decided
only if its brokers keep its half messages for long enough (``core.transactions.half_lifetime``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.results import SendStatus
from sprocketmq.core.resource_names import HALF_TOPIC
from sprocketmq.core.transactions.decision_ledger import (
    AppendDecision,
    BatchStatus,
    Decision,
    EndAttempts,
    OtherTopics,
    QuerySummary,
    RowCountMismatch,
    commit_step,
)
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_ids import TaskId, stream_batch
from sprocketmq.spark.send.row_messages import columns_of, outgoing_rows
from sprocketmq.spark.transactions.decision_topic import DecisionTopic
from sprocketmq.spark.transactions.half_ends import end_half_messages
from sprocketmq.spark.transactions.half_messages import HalfMessage, HalfPositions, HalfSender
from sprocketmq.spark.transactions.responder import BATCH, LEDGER, PARTITION, QUERY, Responder, refuse_behind_proxy
from sprocketmq.spark.transactions.settling import Settling, UncheckedHalfMessages
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records.message import Message, MessageQueue

if TYPE_CHECKING:
    from sprocketmq.spark.write.refused_rows import RefusedRows

log = logging.getLogger("sprocketmq.spark")

_COMMIT, _ROLLBACK = LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE
_PAUSE_S: Final = 0.25
# Below the limit of a message, 4 MiB (maxMessageSize) with its properties.
_MOST_DECISION_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024
# A new query reads at most about this many records of the ledger, 256 in a request.
_SUMMARY_EVERY_RECORDS: Final = 1_000


@dataclass
class TransactionalTaskResult(WriterCommitMessage):
    """``half_positions``: of its attempt. ``skipped``: the batch was decided before, so nothing was sent."""

    query: str
    batch: int
    attempt: str
    is_new: bool = False
    skipped: bool = False
    sent: int = 0
    rows: int = 0
    refused: int = 0
    half_positions: list[HalfPositions] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)


class TransactionalWrite:
    """A transactional write, in a task or in the driver. Picklable. ``streaming``: whether Spark numbers the batches of this write."""

    def __init__(self, options: SinkOptions, streaming: bool) -> None:
        self._options = options
        self._streaming = streaming
        self._write_id = f"write-{uuid.uuid4().hex}"  # of a batch write without a name; made once, on the driver
        with contextlib.suppress(
            NetworkError, RequestTimeout, RemoteError
        ):  # tasks ask again (``Responder.at``), and wait for an answer
            refuse_behind_proxy(Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access), 0)

    # -- tasks -----------------------------------------------------------------------------------------------------------------

    def write(
        self, batches: Iterator[pa.RecordBatch], refused_rows: Callable[[TaskId], RefusedRows]
    ) -> TransactionalTaskResult:
        result = self._task_result()
        options = self._options
        responder = Responder.at(options, frozenset({options.topic} if options.topic else ()))
        ledger = responder.ledger(options.ledger_topic)
        if result.is_new:
            responder.cluster.run(lambda: ledger.queue(create=True))  # its broker may be away for a moment
        else:
            batch_status = responder.cluster.run(
                lambda: ledger.batch_status(result.query, result.batch, create=result.batch == 0)
            )
            self._refuse_superseded(batch_status, result)
            result.skipped = batch_status is BatchStatus.DECIDED
        query, batch_id, partition = result.query, str(result.batch), _partition()
        marks = {QUERY: query, BATCH: batch_id, PARTITION: str(partition), LEDGER: options.ledger_topic}
        sender = HalfSender(options, responder.producer, marks, result.attempt)
        refused = refused_rows((query, batch_id, partition))
        refuse = _passed_over if result.skipped else refused
        topics: set[str] = {options.topic} if options.topic else set()
        try:
            for batch in batches:
                result.rows += batch.num_rows
                columns, longest = columns_of(batch), options.max_message_bytes
                rows = list(outgoing_rows(columns, options.topic, refuse, longest, max_delay_level=None))
                topics.update(row.message.topic for row in rows)
                if batch.num_rows and not result.skipped:
                    responder.record_half_messages(topics)
                    try:
                        sender.send(rows)
                        refused.send_dead_letters()
                    finally:  # it may have taken long
                        responder.record_half_messages(topics)
        except Exception:
            self._roll_back(responder, sender.half_positions)
            raise
        result.sent, result.half_positions, result.lost = sender.sent, sender.half_positions, sorted(sender.lost)
        result.topics, result.refused = sorted(topics), refused.count
        return result

    def _task_result(self) -> TransactionalTaskResult:
        attempt, options = uuid.uuid4().hex, self._options
        if options.txn_app_id is not None:
            return TransactionalTaskResult(options.txn_app_id, options.txn_version or 0, attempt)
        if not self._streaming:
            return TransactionalTaskResult(self._write_id, 0, attempt, is_new=True)
        query, batch = stream_batch(TaskContext.get())
        return TransactionalTaskResult(query, int(batch), attempt)

    @staticmethod
    def _refuse_superseded(batch_status: BatchStatus, result: TransactionalTaskResult) -> None:
        if batch_status is BatchStatus.SUPERSEDED:
            raise ConfigurationError(
                f"batch {result.batch} of {result.query} was never decided, or its decision expired, and a later batch was; the "
                "checkpoint is older than the ledger knows, or another driver writes the same query; use a new checkpoint (or txnAppId)"
            )

    def _roll_back(self, responder: Responder, half_positions: Sequence[HalfPositions]) -> None:
        try:
            responder.engine.run(self._end(responder, half_positions, _ROLLBACK))
        except RocketMQError as error:
            log.info("half messages could not be rolled back, the brokers will ask: %s", error)

    # -- driver ----------------------------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], what: str) -> None:
        """Decide the batch and make its rows visible. Raises NetworkError, RequestTimeout, RemoteError: the ledger cannot be
        written or read; Spark runs the batch again. ConfigurationError: the batch must not be written; the message says why."""
        tasks = [message for message in messages if isinstance(message, TransactionalTaskResult)]
        if not tasks:
            return
        responder = Responder.at(self._options, frozenset(topic for task in tasks for topic in task.topics))
        ends = responder.engine.run(self._decide(responder, tasks))
        to_commit = [positions for task in tasks if task.attempt in ends.commit for positions in task.half_positions]
        to_roll_back = [
            positions for task in tasks if task.attempt in ends.rollback for positions in task.half_positions
        ]
        left = responder.engine.run(self._end(responder, to_commit, _COMMIT))
        responder.engine.run(self._end(responder, to_roll_back, _ROLLBACK))
        if any(task.skipped for task in tasks):
            left = {**left, **self._half_queue_ends(responder, what)}
        if left:
            self._wait(responder, left, what)
        log.info("%s: %d rows sent, decided", what, sum(task.sent for task in tasks if task.attempt in ends.commit))

    @staticmethod
    def _half_queue_ends(responder: Responder, what: str) -> dict[MessageQueue, UncheckedHalfMessages]:
        """What a process that died may have left at each broker; since when is unknown."""
        try:
            return {
                queue: UncheckedHalfMessages(end)
                for queue, end in responder.cluster.run(responder.half_queue_ends).items()
            }
        except RocketMQError as error:  # decided long ago: nothing may fail any more
            sentence = "%s: was decided before, and its remaining half messages cannot be queried: %s"
            troubles.failed("decided before", sentence, what, error, of=what)
            return {}

    def _wait(self, responder: Responder, left: dict[MessageQueue, UncheckedHalfMessages], what: str) -> None:
        names = ", ".join(queue.broker_name for queue in left)
        log.info("%s: waiting until %s asked about half messages that could not be ended", what, names)
        timeout_ms = self._options.settle_timeout_ms
        unsettled = responder.engine.run(Settling(responder, left).wait(timeout_ms))
        if unsettled:
            troubles.failed(
                "unsettled",
                "%s: decided, but %s did not ask about all halves within %d ms; their rows appear when it does: keep a process of group %s "
                "alive, or run 'sprocketmq settle'; a transactionTimeOut of the brokers above the time of a batch avoids this",
                what, ", ".join(unsettled), timeout_ms, self._options.group,
            )  # fmt: skip

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Roll back what is known, if nothing can have been decided."""
        tasks = [message for message in messages if isinstance(message, TransactionalTaskResult)]
        if tasks and any(message is None for message in messages):
            responder = Responder.at(self._options, frozenset(topic for task in tasks for topic in task.topics))
            self._roll_back(responder, [positions for task in tasks for positions in task.half_positions])

    def _refuse_other_rows(self, other: RowCountMismatch, rows: int, first: TransactionalTaskResult) -> None:
        came = f"batch {first.batch} of {first.query} was decided with {other.decided} rows, and now it has {rows}"
        if self._options.on_decided_batch == "pass":
            log.warning(
                "%s: onDecidedBatch=pass, so it counts as done as it was decided, and no row of it is sent", came
            )
            return
        raise ConfigurationError(
            f"{came}; if it was planned anew under its old number (offsets/{first.batch} of the checkpoint was lost, or the query was "
            "changed), rows would be lost or written twice: put the file back, or let the batch count as done and rewind the queues to "
            "where it ended (sprocketmq spark-checkpoint --help); if it has the plan it had, and a table that it is joined with was "
            "changed, or messages expired (failOnDataLoss=false): run it once with the option onDecidedBatch=pass, by which it counts as "
            "done as it was decided"
        )

    async def _decide(self, responder: Responder, tasks: Sequence[TransactionalTaskResult]) -> EndAttempts:
        first = tasks[0]
        rows = sum(task.rows for task in tasks)
        attempts = frozenset(task.attempt for task in tasks if task.sent)
        lost = frozenset(name for task in tasks for name in task.lost)
        is_named = self._options.txn_app_id is not None  # a stream has one write for each batch
        topics = frozenset(topic for task in tasks for topic in task.topics) if is_named else None
        ledger = responder.ledger(self._options.ledger_topic)
        deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
        upto, is_new = 0, first.is_new
        while True:
            try:
                known = await ledger.ledger_of(first.query, first.batch, upto, is_new=is_new)
                is_new = False  # the next read may have its own decision
                step = commit_step(known, first.query, first.batch, attempts, lost, rows, topics)
                if isinstance(step, OtherTopics):
                    raise _two_writes(first, step.decided, topics or frozenset())
                if isinstance(step, RowCountMismatch):
                    self._refuse_other_rows(step, rows, first)
                    step = step.end
                if isinstance(step, EndAttempts):
                    await self._append_summary(responder, ledger, known.summary(_SUMMARY_EVERY_RECORDS))
                    return step
                if isinstance(step, BatchStatus):
                    self._refuse_superseded(step, first)
                elif any(task.skipped for task in tasks):
                    raise ConfigurationError(
                        f"batch {first.batch} of {first.query} was decided when its tasks began, and now it is not: the ledger "
                        f"{self._options.ledger_topic!r} lost messages, or is another one"
                    )
                else:
                    await self._refuse_too_old(responder, tasks)
                    upto = await self._append(responder, ledger, step) + 1
            except (NetworkError, RequestTimeout, RemoteError) as error:
                # Nobody else uses the name of a new write: its decision counts once it is stored, even if it cannot be read now.
                if upto and first.is_new:
                    log.info("the ledger cannot be read after the decision: %s", error)
                    return EndAttempts(attempts, frozenset())
                if time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _refuse_too_old(self, responder: Responder, tasks: Sequence[TransactionalTaskResult]) -> None:
        """Refuse a decision about half messages that their broker gave up, or is about to give up."""
        now_ms = time.time_ns() // 1_000_000
        oldest_ms: dict[MessageQueue, int] = {}
        for positions in (positions for task in tasks for positions in task.half_positions):
            queue = MessageQueue(positions.topic, positions.broker_name, 0)
            oldest_ms[queue] = min(positions.oldest_ms, oldest_ms.get(queue, positions.oldest_ms))
        for queue, sent_ms in oldest_ms.items():
            lifetime = await responder.lifetime(await responder.cluster.master(queue.broker_name, queue.topic))
            if now_ms - sent_ms > lifetime.decide_within_ms:
                raise ConfigurationError(
                    f"batch {tasks[0].batch} is not decided: its oldest row was sent {now_ms - sent_ms} ms ago, and {queue.broker_name} "
                    f"allows {lifetime.decide_within_ms} ms ({lifetime}) before it gives up half messages; set transactionTimeOut above "
                    "the time of a batch (mqadmin updateBrokerConfig), or make batches smaller"
                )

    async def _append(self, responder: Responder, ledger: DecisionTopic, step: AppendDecision) -> int:
        decision: Decision = step.decision
        body = decision.encode()
        if len(body) > _MOST_DECISION_BYTES:
            raise ConfigurationError(
                f"batch {decision.batch} of {decision.query} is not decided: its decision is {len(body)} bytes, of "
                f"{len(decision.attempts)} tasks and {len(decision.lost)} sends without an answer, and {_MOST_DECISION_BYTES} are allowed; "
                "use fewer tasks (coalesce), or see why the brokers did not answer"
            )
        message = Message(ledger.topic, body, keys=f"{decision.query}/{decision.batch}")
        result = await responder.producer.send(message, queue=await ledger.queue())
        if result.status is not SendStatus.SEND_OK:
            raise NetworkError(f"the decision was stored with {result.status.name}, so it may get lost", ledger.topic)
        return result.queue_offset

    @staticmethod
    async def _append_summary(responder: Responder, ledger: DecisionTopic, summary: QuerySummary | None) -> None:
        """Append a summary to the ledger. A failure does not matter: another driver will append one."""
        if summary is None:
            return
        try:
            await responder.producer.send(Message(ledger.topic, summary.encode()), queue=await ledger.queue())
        except RocketMQError as error:
            log.info("the ledger got no summary of the queries in it: %s", error)

    async def _end(
        self, responder: Responder, half_positions: Sequence[HalfPositions], state: LocalTransactionState
    ) -> dict[MessageQueue, UncheckedHalfMessages]:
        """End the half messages, and return those that are left to the brokers, by their half queues."""
        cluster, group = responder.cluster, self._options.group
        # A rollback is not retried: without it the half messages are rolled back by check-backs.
        max_retry_ms = None if state is _COMMIT else 0

        async def place(topic: str, broker_name: str) -> tuple[str, int | None] | None:
            """The broker's address and its current ``direct_end_window_ms``; None if it is unreachable."""
            queue = MessageQueue(topic, broker_name, 0)
            try:
                address = await cluster.retrying(lambda: cluster.master(queue.broker_name, queue.topic), max_retry_ms)
            except RocketMQError as error:
                log.info("half messages of %s are left to its check-back: %s", broker_name, error)
                return None
            return address, await responder.direct_end_window_ms(address, topic) if state is _COMMIT else None

        keys = sorted({(positions.topic, positions.broker_name) for positions in half_positions})
        places = dict(zip(keys, await all_ended(place(*key) for key in keys), strict=True))

        async def one(positions: HalfPositions) -> list[HalfMessage]:
            found = places[positions.topic, positions.broker_name]
            if found is None:
                return list(positions)
            return await end_half_messages(cluster, found[0], group, positions, state, found[1])

        left: dict[MessageQueue, UncheckedHalfMessages] = {}
        for positions, halves in zip(half_positions, await all_ended(map(one, half_positions)), strict=True):
            if halves:
                queue = MessageQueue(HALF_TOPIC, positions.broker_name, 0)
                end = max(half.queue_offset for half in halves) + 1
                since_ms = min(half.sent_ms for half in halves)
                known = left.get(queue, UncheckedHalfMessages(end, since_ms))
                left[queue] = UncheckedHalfMessages(max(end, known.end), min(since_ms, known.since_ms))
        return left


def _two_writes(first: TransactionalTaskResult, decided: frozenset[str], topics: frozenset[str]) -> ConfigurationError:
    before, now = (", ".join(sorted(names)) or "no topic" for names in (decided, topics))
    return ConfigurationError(
        f"txnAppId is {first.query!r} with txnVersion {first.batch}, by which rows were written to {before}, and this write is to {now}; "
        "give each write of a batch a txnAppId of its own, such as its topic"
    )


def _passed_over(row: Mapping[str, Any], error: ConfigurationError) -> None:
    """A row of a batch that is decided: nothing may fail any more."""


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
