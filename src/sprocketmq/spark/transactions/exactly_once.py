"""``delivery=transactional``: the rows of a batch appear once, all of them, whatever dies when.

    tasks     ask the ledger: decided already? then send nothing     else send halves, return where they lie     (half_messages)
    driver    append one decision, read what counts, end the halves of the attempts that count, roll back others (core.decision_ledger)
    anybody   of the producer group answers checks from the ledger, while a task's process lives, or by ``sprocketmq settle``

    killed before the decision is stored:  nothing appears; the batch runs again, the first halves are rolled back by the check
    killed after it:                       the batch runs again and sends nothing; what was not ended yet is committed by the check

Laws
1. What is sent belongs to an attempt that only its commit message names; a task that fails takes back what it sent.
2. ``commit`` raises, and Spark runs the batch again, unless the batch is decided; from then on nothing that an END or a broker's question
   will heal fails it: it returns when the rows are shown (``settling``), or with a warning when ``settleTimeoutMs`` is over.
3. ``abort`` rolls back only when a task has no message: then no ``commit`` was tried, whose decision could still arrive.
4. A batch is decided only while its brokers keep its halves for long enough (``core.transactions.half_lifetime``).
5. No answer to a check depends on what this process remembers: all of them read the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from sprocketmq.client.results import SendStatus
from sprocketmq.core.transactions.decision_ledger import (
    Append,
    Decision,
    Names,
    OtherRows,
    Settle,
    Standing,
    commit_step,
)
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.transactions.decision_topic import DecisionTopic
from sprocketmq.spark.transactions.half_ends import end_lane
from sprocketmq.spark.transactions.half_messages import Half, HalfLane, HalfSender
from sprocketmq.spark.transactions.responder import BATCH, LEDGER, PARTITION, QUERY, Responder
from sprocketmq.spark.transactions.settling import LeftHalves, Settling
from sprocketmq.spark.transactions.shown_rows import HALF_TOPIC
from sprocketmq.wire.records.message import Message, MessageQueue

__all__ = ["ExactlyOnce", "HalvesSent"]

log = logging.getLogger("sprocketmq.spark")

_COMMIT, _ROLLBACK = LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE
_PAUSE_S: Final = 0.25
# A message has 4 MiB (maxMessageSize), and properties.
_MOST_DECISION_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024
# A new query reads about so many records of the ledger, at most: 256 in a request.
_NOTE_EACH: Final = 1_000


@dataclass
class HalvesSent(WriterCommitMessage):
    """What one task did: which write it was, and where the halves of its attempt lie; ``skipped``: the batch was decided before, so of its
    ``rows`` none was sent."""

    query: str
    batch: int
    attempt: str
    is_new: bool = False
    skipped: bool = False
    sent: int = 0
    rows: int = 0
    lanes: list[HalfLane] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)


class ExactlyOnce:
    """One side of a transactional write, in a task or in the driver. Picklable.

    Args:
        options: of the sink; ``group`` and ``ledger_topic`` are given.
        streaming: whether Spark numbers the batches of this write.
    """

    def __init__(self, options: SinkOptions, streaming: bool) -> None:
        self._options = options
        self._streaming = streaming
        self._write_id = f"write-{uuid.uuid4().hex}"  # of a batch write that got no name; made once, on the driver

    # -- tasks -----------------------------------------------------------------------------------------------------------------

    def write(self, batches: Iterator[pa.RecordBatch]) -> HalvesSent:
        """Send the rows of one task as half messages."""
        done = self._who_i_am()
        options = self._options
        responder = Responder.at(options, frozenset({options.topic} if options.topic else ()))
        ledger = responder.ledger(options.ledger_topic)
        if done.is_new:
            responder.cluster.run(lambda: ledger.queue(create=True))  # its broker may be away for a moment
        else:
            standing = responder.cluster.run(lambda: ledger.standing(done.query, done.batch, create=done.batch == 0))
            self._refuse_passed(standing, done)
            done.skipped = standing is Standing.DECIDED
        marks = {QUERY: done.query, BATCH: str(done.batch), PARTITION: str(_partition()), LEDGER: options.ledger_topic}
        sender = HalfSender(options, responder.producer, marks, done.attempt)
        topics: set[str] = {options.topic} if options.topic else set()
        try:
            for batch in batches:
                done.rows += batch.num_rows
                if batch.num_rows and not options.topic:
                    topics.update(pc.unique(batch.column("topic")).to_pylist())
                if batch.num_rows and not done.skipped:
                    responder.note_halves(topics)
                    try:
                        sender.send(batch)
                    finally:  # it may have taken long
                        responder.note_halves(topics)
        except Exception:
            self._take_back(responder, sender.lanes)
            raise
        done.sent, done.lanes, done.lost = sender.sent, sender.lanes, sorted(sender.lost)
        done.topics = sorted(topic for topic in topics if topic)
        return done

    def _who_i_am(self) -> HalvesSent:
        attempt, options = uuid.uuid4().hex, self._options
        if options.txn_app_id is not None:
            return HalvesSent(options.txn_app_id, options.txn_version or 0, attempt)
        if not self._streaming:
            return HalvesSent(self._write_id, 0, attempt, is_new=True)
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if not query or batch is None:
            raise ConfigurationError(
                "Spark does not say which query and batch this task belongs to; it must run in a streaming query"
            )
        return HalvesSent(query, int(batch), attempt)

    @staticmethod
    def _refuse_passed(standing: Standing, done: HalvesSent) -> None:
        if standing is Standing.PASSED:
            raise ConfigurationError(
                f"batch {done.batch} of {done.query} was never decided, or its decision expired, and a later batch was; the checkpoint is "
                "older than the ledger knows, or another driver writes the same query; use a new checkpoint (or txnAppId)"
            )

    def _take_back(self, responder: Responder, lanes: Sequence[HalfLane]) -> None:
        try:
            responder.engine.run(self._end(responder, lanes, _ROLLBACK))
        except RocketMQError as error:
            log.info("halves could not be rolled back, the brokers will ask: %s", error)

    # -- driver ----------------------------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], what: str) -> None:
        """Decide the batch and make its rows appear.

        Raises:
            NetworkError, RequestTimeout, RemoteError: the ledger cannot be written or read; Spark runs the batch again.
            ConfigurationError: the batch may not be written, see the sentence.
        """
        tasks = [message for message in messages if isinstance(message, HalvesSent)]
        if not tasks:
            return
        responder = Responder.at(self._options, frozenset(topic for task in tasks for topic in task.topics))
        settled = responder.engine.run(self._decide(responder, tasks))
        winners = [lane for task in tasks if task.attempt in settled.commit for lane in task.lanes]
        losers = [lane for task in tasks if task.attempt in settled.rollback for lane in task.lanes]
        left = responder.engine.run(self._end(responder, winners, _COMMIT))
        responder.engine.run(self._end(responder, losers, _ROLLBACK))
        if any(task.skipped for task in tasks):
            left = {**left, **self._half_ends(responder, what)}
        if left:
            self._wait(responder, left, what)
        log.info("%s: %d rows sent, decided", what, sum(task.sent for task in tasks if task.attempt in settled.commit))

    @staticmethod
    def _half_ends(responder: Responder, what: str) -> dict[MessageQueue, LeftHalves]:
        """All that somebody may have left who died: nobody knows since when."""
        try:
            return {queue: LeftHalves(end) for queue, end in responder.cluster.run(responder.half_ends).items()}
        except RocketMQError as error:  # decided long ago: nothing may fail any more
            log.warning("%s: was decided before, and what is left of it cannot be asked for: %s", what, error)
            return {}

    def _wait(self, responder: Responder, left: dict[MessageQueue, LeftHalves], what: str) -> None:
        names = ", ".join(queue.broker_name for queue in left)
        log.info("%s: waiting until %s asked about halves that could not be ended", what, names)
        timeout_ms = self._options.settle_timeout_ms
        unsettled = responder.engine.run(Settling(responder, left).wait(timeout_ms))
        if unsettled:
            log.warning(
                "%s: decided, but %s did not ask about all halves within %d ms; their rows appear when it does: keep a process of group %s "
                "alive, or run 'sprocketmq settle'; a transactionTimeOut of the brokers above the time of a batch avoids this",
                what, ", ".join(unsettled), timeout_ms, self._options.group,
            )  # fmt: skip

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Roll back what is known, when nothing can have been decided (law 3)."""
        tasks = [message for message in messages if isinstance(message, HalvesSent)]
        if tasks and any(message is None for message in messages):
            responder = Responder.at(self._options, frozenset(topic for task in tasks for topic in task.topics))
            self._take_back(responder, [lane for task in tasks for lane in task.lanes])

    def _refuse_other_rows(self, other: OtherRows, rows: int, first: HalvesSent) -> None:
        """A plan that was lost shows by other rows, and so does what the user can see to be harmless."""
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

    async def _decide(self, responder: Responder, tasks: Sequence[HalvesSent]) -> Settle:
        first = tasks[0]
        rows = sum(task.rows for task in tasks)
        attempts = frozenset(task.attempt for task in tasks if task.sent)
        lost = frozenset(name for task in tasks for name in task.lost)
        ledger = responder.ledger(self._options.ledger_topic)
        deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
        upto, is_new = 0, first.is_new
        while True:
            try:
                known = await ledger.ledger_of(first.query, first.batch, upto, is_new=is_new)
                is_new = False  # its own decision may come next
                step = commit_step(known, first.query, first.batch, attempts, lost, rows)
                if isinstance(step, OtherRows):
                    self._refuse_other_rows(step, rows, first)
                    step = step.settle
                if isinstance(step, Settle):
                    await self._note(responder, ledger, known.note(_NOTE_EACH))
                    return step
                if isinstance(step, Standing):
                    self._refuse_passed(step, first)
                elif any(task.skipped for task in tasks):
                    raise ConfigurationError(
                        f"batch {first.batch} of {first.query} was decided when its tasks began, and now it is not: the ledger "
                        f"{self._options.ledger_topic!r} lost messages, or is another one"
                    )
                else:
                    await self._refuse_too_old(responder, tasks)
                    upto = await self._append(responder, ledger, step) + 1
            except (NetworkError, RequestTimeout, RemoteError) as error:
                # Nobody else knows the name of a new one: its decision counts once it is stored, though it cannot be read now.
                if upto and first.is_new:
                    log.info("the ledger cannot be read after the decision: %s", error)
                    return Settle(attempts, frozenset())
                if time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _refuse_too_old(self, responder: Responder, tasks: Sequence[HalvesSent]) -> None:
        """A decision would name halves that their broker gave up, or is about to give up."""
        now_ms = time.time_ns() // 1_000_000
        oldest_ms: dict[MessageQueue, int] = {}
        for lane in (lane for task in tasks for lane in task.lanes):
            queue = MessageQueue(lane.topic, lane.broker_name, 0)
            oldest_ms[queue] = min(lane.oldest_ms, oldest_ms.get(queue, lane.oldest_ms))
        for queue, sent_ms in oldest_ms.items():
            lifetime = await responder.lifetime(await responder.cluster.address(queue))
            if now_ms - sent_ms > lifetime.decide_within_ms:
                raise ConfigurationError(
                    f"batch {tasks[0].batch} is not decided: its oldest row was sent {now_ms - sent_ms} ms ago, and {queue.broker_name} "
                    f"allows {lifetime.decide_within_ms} ms ({lifetime}) before it gives up half messages; set transactionTimeOut above "
                    "the time of a batch (mqadmin updateBrokerConfig), or make batches smaller"
                )

    async def _append(self, responder: Responder, ledger: DecisionTopic, step: Append) -> int:
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
    async def _note(responder: Responder, ledger: DecisionTopic, note: Names | None) -> None:
        """The batch is decided whether or not this is stored, and another driver will note it."""
        if note is None:
            return
        try:
            await responder.producer.send(Message(ledger.topic, note.encode()), queue=await ledger.queue())
        except RocketMQError as error:
            log.info("the ledger got no note of the queries in it: %s", error)

    async def _end(
        self, responder: Responder, lanes: Sequence[HalfLane], state: LocalTransactionState
    ) -> dict[MessageQueue, LeftHalves]:
        """End the halves; what is left to the brokers, by their half queues."""
        cluster, group = responder.cluster, self._options.group
        # Who decided has time; a rollback is no more than a courtesy, its halves vanish when the broker asks.
        patience_ms = None if state is _COMMIT else 0

        async def place(topic: str, broker_name: str) -> tuple[str, int | None] | None:
            """Address and quiet time of this moment (``quiet_ms`` says why none is kept for the next batch); None when it is away."""
            queue = MessageQueue(topic, broker_name, 0)
            try:
                address = await cluster.retrying(lambda: cluster.address(queue), patience_ms)
            except RocketMQError as error:
                log.info("halves of %s are left to its check: %s", broker_name, error)
                return None
            return address, await responder.quiet_ms(address, topic) if state is _COMMIT else None

        keys = sorted({(lane.topic, lane.broker_name) for lane in lanes})
        places = dict(zip(keys, await asyncio.gather(*(place(*key) for key in keys)), strict=True))

        async def one(lane: HalfLane) -> list[Half]:
            found = places[lane.topic, lane.broker_name]
            if found is None:
                return list(lane)
            return await end_lane(cluster.api, found[0], group, lane, state, found[1])

        left: dict[MessageQueue, LeftHalves] = {}
        for lane, halves in zip(lanes, await asyncio.gather(*map(one, lanes)), strict=True):
            if halves:
                queue = MessageQueue(HALF_TOPIC, lane.broker_name, 0)
                end = max(half.queue_offset for half in halves) + 1
                since_ms = min(half.sent_ms for half in halves)
                known = left.get(queue, LeftHalves(end, since_ms))
                left[queue] = LeftHalves(max(end, known.end), min(since_ms, known.since_ms))
        return left


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
