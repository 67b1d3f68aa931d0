# SPDX-License-Identifier: Apache-2.0
"""A member of the producer group of transactional writes. It answers the check-backs of brokers, from the ledger alone.

Each process that writes is such a member. So is ``sprocketmq settle``, for half messages that are left when no query runs; it needs no
PySpark. No answer depends on what this process remembers, so it does not matter which member is asked. A half message whose row is
visible is not committed again: an Apache broker delivers the row with each COMMIT, and checks again a half message whose end it did not
record yet, or lost. ROLLBACK ends the copy that the check is about, and takes nothing back.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, Final

from sprocketmq.client.produce.async_transaction_producer import AsyncTransactionProducer
from sprocketmq.core.resource_names import HALF_TOPIC
from sprocketmq.core.transactions.decision_ledger import direct_end_window_ms
from sprocketmq.core.transactions.half_lifetime import HalfLifetime
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import ConfigurationError, RequestNotServed, RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.transactions.decision_topic import DecisionTopic
from sprocketmq.spark.transactions.ledger_location import broker_settings
from sprocketmq.spark.transactions.visible_rows import VisibleRows
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.properties import PGROUP
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

# Properties of the messages, by which a check-back finds the decision.
QUERY: Final = props.SPARK_QUERY_ID
BATCH: Final = props.SPARK_BATCH_ID
PARTITION: Final = props.SPARK_PARTITION
SEQUENCE: Final = props.SPARK_SEQUENCE
ATTEMPT: Final = props.SPARK_ATTEMPT
TRY: Final = props.SPARK_TRY
LEDGER: Final = props.SPARK_LEDGER

# When to ask again how long half messages are kept, after a broker did not answer.
_ASK_AGAIN_S: Final = 30.0
_AWAY_S: Final = 72 * 3_600.0  # MessageStoreConfig.fileReservedTime
# Below a broker's interval between two checks.
_CHECK_PATIENCE_MS: Final = 10_000


def half_name(attempt: str, sequence: str, tried: str | None) -> str:
    """The name of a half message, as in the ledger's ``lost``."""
    return f"{attempt}/{sequence}/{tried or 0}"


def refuse_behind_proxy(cluster: Cluster, max_retry_ms: int | None = None) -> None:
    """Before anything is sent. A proxy answers SUCCESS to END_TRANSACTION, and passes it on only for a half message that a broker is
    checking (SendMessageActivity, TransactionActivity, TransactionDataManager): a row would appear half a minute late, and nobody could
    find out whether it is there already. Raises ConfigurationError (it is a proxy), NetworkError, RequestTimeout, RemoteError (no name
    server answers)."""
    try:
        cluster.run(cluster.name_servers.cluster_info, max_retry_ms)
    except RequestNotServed as error:
        raise ConfigurationError(
            f"delivery is transactional, and {error.address} is a proxy, which commits half messages only when a broker checks them, and "
            "does not look up rows by their keys, so that a row could appear twice; use delivery=idempotent, or the address of a name "
            "server of its cluster"
        ) from None


class Responder:
    """Use :meth:`at`. ``answers``: counts the answers. ``unsettled``: the brokers where a driver waited in vain until decided rows were
    visible (``settling``), and since when rows may be missing there, milliseconds since 1970."""

    shared: ClassVar[SharedClients[tuple[object, ...], Responder]] = SharedClients(drops=False)

    def __init__(self, options: SinkOptions, topics: frozenset[str], key: tuple[object, ...]) -> None:
        self._key = key
        self._half_topics: frozenset[str] = frozenset()
        self._last_half_s: float | None = None
        self._needed_until_s = 0.0
        self.cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        self.engine = self.cluster.engine
        self.topics = topics
        self.group = options.group
        self._ledgers: dict[str, DecisionTopic] = {}
        self.visible_rows = VisibleRows(self.cluster)
        self.answers: Counter[str] = Counter()
        self.unsettled: dict[str, int] = {}
        self.producer = AsyncTransactionProducer(
            options.group,
            check=_check_by(weakref.ref(self)),
            check_thread_pool_max_size=64,
            check_request_hold_max=100_000,
            namesrv_addr=options.namesrv_addr,
            send_msg_timeout_ms=options.send_timeout_ms,
            retry_times_when_send_failed=0,
            **options.producer_settings(),
            topics=sorted(topics),
            **options.access.client_options(),
        )

    @classmethod
    def at(cls, options: SinkOptions, topics: frozenset[str] = frozenset()) -> Responder:
        """The started member, known to the brokers of ``topics``."""
        limits_ms = options.send_timeout_ms, options.retry_timeout_ms
        of_rows = options.producer_settings().values()
        key = (options.namesrv_addr, options.group, options.access, *limits_ms, *of_rows)

        def make(known: Responder | None) -> Responder:
            if known is None:
                return cls(options, topics, key)._started()
            # The new member has the old topics, too: it answers for half messages of the old one, which is closed when unused.
            made = cls(options, topics | known.topics, key)
            made.unsettled = known.unsettled
            return made._started()

        responder = cls.shared.get(key, make, lambda known: topics <= known.topics)
        for surplus in cls.shared.surplus():
            if not surplus.client.is_needed():
                cls.shared.drop(surplus)
        return responder

    def _started(self) -> Responder:
        refuse_behind_proxy(self.cluster)
        self.engine.run(self.producer.start())
        close_when_dropped(self, self.engine, self.producer.shutdown)
        return self

    def close(self) -> None:
        self.shared.remove(self)
        self.engine.run(self.producer.shutdown())

    def record_half_messages(self, topics: Iterable[str]) -> None:
        """Note that half messages for ``topics`` are sent now: brokers may check them for as long as they keep them."""
        self._half_topics = self._half_topics.union(topic for topic in topics if topic)
        self._last_half_s = time.monotonic()
        self.shared.keep(self._key, self)

    def is_needed(self) -> bool:
        """Whether a broker may still check a half message that was sent here."""
        sent_s, now_s = self._last_half_s, time.monotonic()
        if sent_s is None:
            return False
        if self._needed_until_s <= now_s:
            try:
                kept_ms = self.engine.run(self._halves_kept_ms())
                self._needed_until_s = sent_s + kept_ms / 1000
            except RocketMQError:  # a broker is unreachable; while it is, it sends no check-backs
                self._needed_until_s = min(now_s + _ASK_AGAIN_S, sent_s + _AWAY_S)
        return now_s < self._needed_until_s

    async def _halves_kept_ms(self) -> int:
        kept_ms = 0
        for topic in self._half_topics:
            route = await self.cluster.routes.recent(topic)
            for queue in route.queue_datas if route is not None else ():
                address = await self.cluster.master(queue.broker_name, topic)
                kept_ms = max(kept_ms, (await self.lifetime(address)).given_up_within_ms)
        return kept_ms

    def ledger(self, topic: str) -> DecisionTopic:
        known = self._ledgers.get(topic)
        if known is None:
            known = self._ledgers[topic] = DecisionTopic(self.cluster, topic, self.group)
        return known

    async def half_queue_ends(self) -> dict[MessageQueue, int]:
        """The next offset of the half-message queue at each broker of this member's topics; what a dead process left is before it."""
        ends: dict[MessageQueue, int] = {}
        for topic in sorted(self.topics):
            for queue in await self.producer.publish_queues(topic):
                halves = MessageQueue(HALF_TOPIC, queue.broker_name, 0)
                if halves not in ends:
                    address = await self.cluster.master(queue.broker_name, queue.topic)
                    ends[halves] = (await self.cluster.ask_queue(GET_MAX_OFFSET, halves, at=address)).offset
        return ends

    async def state_of(self, half: MessageExt) -> LocalTransactionState | None:
        """How ``half`` ends, by the ledger; None if it does not belong to a Spark write of this group."""
        found = half.properties
        ledger, query, batch, attempt = (found.get(name) for name in (LEDGER, QUERY, BATCH, ATTEMPT))
        if not (ledger and query and attempt and batch and batch.isdigit()) or found.get(PGROUP) != self.group:
            return None
        name = half_name(attempt, found.get(SEQUENCE, ""), found.get(TRY))
        return await self.ledger(ledger).answer(query, int(batch), attempt, name)

    async def _check(self, message: MessageExt) -> LocalTransactionState:
        # UNKNOWN uses up one of transactionCheckMax checks, so a late answer is better.
        answer = await self.cluster.retrying(lambda: self._answer(message), _CHECK_PATIENCE_MS)
        self.answers[answer.value] += 1
        return answer

    async def _answer(self, message: MessageExt) -> LocalTransactionState:
        answer = await self.state_of(message)
        if answer is None:
            sentence = "group %s: %s is no half message of a Spark write; use another group"
            troubles.failed("foreign halves", sentence, self.group, message.message_id, of=self.group)
            return LocalTransactionState.UNKNOWN
        if answer is LocalTransactionState.COMMIT_MESSAGE and await self.visible_rows.has(message):
            return LocalTransactionState.ROLLBACK_MESSAGE
        return answer

    async def lifetime(self, address: str) -> HalfLifetime:
        """How long the broker at ``address`` keeps half messages that are not ended. Apache's defaults if this account may not ask.
        Raises NetworkError, RequestTimeout (it does not answer now)."""
        return HalfLifetime.of(await broker_settings(self.cluster, address))

    async def direct_end_window_ms(self, address: str, topic: str) -> int:
        """Up to which age a half message for ``topic`` may be ended without a check-back
        (``core.transactions.decision_ledger.direct_end_window_ms``); 0 if the broker does not answer. Asked again for each batch: an
        administrator may lower ``transactionTimeOut`` meanwhile, or take away the right to query the index. With an older answer an END
        would be sent although a check-back is under way, and Apache would deliver the row for both."""
        try:
            settings = await broker_settings(self.cluster, address)
            is_kept = settings.get("messageIndexEnable", "true") == "true"
            can_tell = is_kept and await self.visible_rows.can_tell(address, topic)
        except RocketMQError:
            return 0  # unreachable: leave its half messages to the check-back
        timeout, interval = settings.get("transactionTimeOut", ""), settings.get("transactionOpBatchInterval") or "0"
        if not (timeout.isdigit() and interval.isdigit()):
            return 0
        return direct_end_window_ms(int(timeout), 0 if can_tell else int(interval))


def _check_by(responder: weakref.ref[Responder]) -> Callable[[MessageExt], Awaitable[LocalTransactionState]]:
    """The check function for the producer. It must not refer to the responder, which would never be collected."""

    async def check(message: MessageExt) -> LocalTransactionState:
        known = responder()
        return LocalTransactionState.UNKNOWN if known is None else await known._check(message)

    return check
