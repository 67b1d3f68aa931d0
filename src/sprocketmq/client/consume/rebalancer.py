# SPDX-License-Identifier: Apache-2.0
"""Adding and dropping queues (Java: RebalanceImpl, RebalancePushImpl). ``core.group.rebalance`` decides, this file runs it.

Drop: progress persisted; then, unless an orderly listener still runs (refused, next round): forgotten, unlocked at the broker. Add:
orderly: locked at the broker first; start offset found; pull loop started.

A start offset that was computed (end of queue, by time) is recorded as progress at once: if the queue moves before its first message is
consumed, the next member would compute a later offset and lose the messages in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sprocketmq.client.remoting.concurrent_work import for_each
from sprocketmq.client.remoting.group_members import consumer_ids
from sprocketmq.client.settings.push_settings import consume_timestamp_ms
from sprocketmq.core.consume.consume_progress import AskMaxOffset, AskOffsetByTime, StartAt, decide_start
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.group import allocation
from sprocketmq.core.group.rebalance import Add, Drop, DropReason, RebalanceTable
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.errors import NetworkError, ProtocolError, RemoteError, RequestTimeout
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")
E = TypeVar("E", Drop, Add)

_FAILURES = (NetworkError, RemoteError, RequestTimeout, ProtocolError)
_HALF_AN_HOUR_MS = 30 * 60_000
# Each topic and queue waits for a broker several times: 1,000 topics one after the other take seconds, all at once are 10,000 requests.
_TOPICS_AT_ONCE = 32
# A broker lists a member whose connection it lost for two minutes more, beside its new connection.
_LOST_CONNECTION_MS = 140_000
_QUEUES_AT_ONCE = 128  # of one broker, and so requests in flight to it; topics that are rebalanced at once share them


class _Refused:
    """The broker does not allocate queues."""


class Rebalancer:
    def __init__(self, consumer: RunningConsumer) -> None:
        self._consumer = consumer
        self._cluster, self._routes = consumer.instance.cluster, consumer.instance.cluster.routes
        self._locks_needed = consumer.needs_locks
        self._renewed = False  # the subscriptions, in this round
        timestamp = consumer.settings.consume_timestamp
        self._start_timestamp_ms = consume_timestamp_ms(timestamp) if timestamp else None
        self._process_queues: dict[MessageQueue, ProcessQueue] = {}  # read, or being given up
        self._unlocks: dict[MessageQueue, Timer] = {}  # queues that were given up and are still locked
        self._gate = asyncio.Lock()  # one round at a time: a round awaits the network in the middle
        self._asking: dict[str, asyncio.Task[list[str]]] = {}  # members, by address of the broker asked in this round
        self._leaving = False  # from then on a round that waits adds and locks no queue any more
        self._members: dict[str, set[str]] = {}  # client ids by topic, as the last round saw them
        self._regrouped: set[str] = set()  # topics whose members have changed; ``queues_changed`` is not called yet
        self._unlisted: dict[str, str] = {}  # a sentence by address of a broker that does not list this member
        self._twice_since_ms: dict[str, int] = {}  # since when a broker lists our client id more than once, by address
        self._same_id: dict[str, str] = {}  # a sentence by address of a broker that does so for too long
        self._refusals: set[str] = set()  # topics
        self.table = consumer.recorded(RebalanceTable)()
        self._decide_queues = consumer.recorded(allocation.allocate)
        self._decide_start = consumer.recorded(decide_start)
        # Queues assigned by hand (pull consumer): no allocation then, other members do not matter.
        self.assigned: set[MessageQueue] | None = None

    async def rebalance(self, topics: Iterable[str]) -> bool:
        """One round over all topics, several at a time. True: this member has exactly the queues that it should have."""
        async with self._gate:
            topics = sorted(topics)
            self._renewed = False
            self._consumer.service.record_ended()
            await self._run(self.table.subscribed(topics), _QUEUES_AT_ONCE)
            queues_at_once = _QUEUES_AT_ONCE // max(1, min(_TOPICS_AT_ONCE, len(topics)))
            known: list[bool] = []

            async def rebalance_topic(topic: str) -> None:
                known.append(self._leaving or await self._rebalance_topic(topic, queues_at_once))

            try:
                await for_each(topics, rebalance_topic, _TOPICS_AT_ONCE)
            finally:
                asking, self._asking = list(self._asking.values()), {}
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
            return self._leaving or (all(known) and self.table.is_balanced)

    async def drop_all(self) -> None:
        """Shutdown: drop all queues. Listeners must have ended before, because unlocking a queue lets its next owner begin."""
        self._leaving = True
        async with self._gate:
            self._consumer.service.record_ended()
            await self._run(self.table.drop_all(DropReason.SHUTDOWN), _QUEUES_AT_ONCE)
            await asyncio.gather(*map(self._unlock, self._keep_locked(list(self._unlocks))))

    async def drop_at(self, queue: MessageQueue, offset: int) -> None:
        """Drop one queue and set its progress to ``offset``; the next round adds it again from there."""
        async with self._gate:
            effects = self.table.drop(queue, DropReason.OFFSET_ILLEGAL)  # also if a running listener has refused a drop
            if queue in self._process_queues:
                self._consumer.offset_store.progress.update_and_freeze(queue, offset)
            await self._run(effects, _QUEUES_AT_ONCE)

    def seek(self, queue: MessageQueue, offset: int) -> bool:
        """Read a queue of this member from ``offset`` on; progress does not change. False: the queue is not read now. It needs no lock of
        a round, because it awaits nothing, and a queue that a round adds or drops is not read now."""
        if self.table.get(queue) is None:
            return False
        self.table.drop(queue, DropReason.SEEK)
        now_ms = self._consumer.clock.steady_ms()
        for effect in self.table.removed(queue, now_ms):
            process_queue = self.table.added(effect.queue, now_ms)
            assert process_queue is not None
            self._process_queues[queue] = process_queue
            self._consumer.start_loop(process_queue, offset)
            return True
        return False

    def owned(self) -> list[MessageQueue]:
        return list(self.table.active())

    def held(self) -> dict[MessageQueue, ProcessQueue]:
        """The queues whose progress this member writes: those that it reads, and those that a running listener keeps from being dropped."""
        return dict(self._process_queues)

    # -- a round ---------------------------------------------------------------------------------------------------------------

    async def _rebalance_topic(self, topic: str, queues_at_once: int) -> bool:
        try:
            allocated = await self._allocate(topic)
        except _FAILURES as error:
            sentence = "group %s: topic %s is not rebalanced now: %s"
            self._failed("rebalance", error, sentence, self._consumer.name, topic, error)
            return False
        if self._leaving:
            return True
        if allocated is None:
            # A retry topic appears with the first heartbeat: nothing is missing until then.
            return is_retry_topic(topic)
        self._consumer.service.record_ended()
        effects = self.table.assigned(topic, allocated, self._consumer.clock.steady_ms())
        if not self._renewed and (effects or topic in self._regrouped):
            self._renewed = True
            self._consumer.members_changed()
        if effects:
            log.info("group %s: topic %s: %s", self._consumer.name, topic, effects)
            await self._run(effects, queues_at_once)
        if effects or topic in self._regrouped:
            self._regrouped.discard(topic)
            self._consumer.queues_changed(topic)
        return True

    async def _allocate(self, topic: str) -> list[MessageQueue] | None:
        """The queues of a topic for this member; None: unknown at the moment."""
        if self.assigned is not None:
            return [queue for queue in self.assigned if queue.topic == topic]
        queues = await self._routes.subscribe_queues(topic)
        if not queues:
            if not is_retry_topic(topic):
                sentence = "group %s: topic %s does not exist yet, waiting for it"
                self._cluster.outages.failed("missing topics", None, sentence, self._consumer.name, topic, of=topic)
            return None
        if not self._consumer.clustering:
            return list(queues)
        address = await self._routes.any_broker(topic)
        if address is None:
            return None
        # As RebalancePushImpl.clientRebalance: an orderly consumer always allocates the queues itself.
        if not self._consumer.settings.client_rebalance and not self._locks_needed:
            asked = await self._ask_broker(address, topic)
            if not isinstance(asked, _Refused):
                return asked
        asking = self._asking.get(address)
        if asking is None:
            asking = self._asking[address] = asyncio.ensure_future(self._ask_members(address))
        client_ids = await asyncio.shield(asking)  # others wait for it, too
        if self._consumer.client_id not in client_ids:
            return None  # not a reason to drop our queues
        if self._members.get(topic) != set(client_ids):
            self._members[topic] = set(client_ids)
            self._regrouped.add(topic)
        return self._share(topic, queues, client_ids)

    async def _ask_members(self, address: str) -> list[str]:
        """The members of the group as a broker lists them; if this member is missing, after a heartbeat."""
        client_ids = await consumer_ids(self._cluster, address, self._consumer.name)
        if self._consumer.client_id not in client_ids:
            # The broker has no heartbeat from us: it restarted, or it is new in a topic's route.
            await self._consumer.instance.heartbeats.send_to(address)
            client_ids = await consumer_ids(self._cluster, address, self._consumer.name)
        self._note_listing(address, client_ids.count(self._consumer.client_id))
        return client_ids

    def _note_listing(self, address: str, times: int) -> None:
        consumer = self._consumer
        if times:
            self._unlisted.pop(address, None)
        else:
            # A broker that may not create groups takes the heartbeat and ignores it (ClientManageProcessor.heartBeat).
            self._unlisted[address] = (
                f"broker {address} does not list {consumer.client_id} as a member of group {consumer.name} after its heartbeat; "
                "if it may not create groups (autoCreateSubscriptionGroup=false), create the group there"
            )
            self._failed("membership", None, "%s", self._unlisted[address])
        if times < 2:
            self._twice_since_ms.pop(address, None)
            self._same_id.pop(address, None)
            return
        now_ms = consumer.clock.steady_ms()
        since_ms = self._twice_since_ms.setdefault(address, now_ms)
        if now_ms - since_ms >= _LOST_CONNECTION_MS:
            self._same_id[address] = (
                f"broker {address} lists {times} members of group {consumer.name} with the client id {consumer.client_id}, and each of "
                "them consumes all messages of its queues: give each client an instance_name of its own"
            )
            self._failed("client ids", None, "%s", self._same_id[address])

    def _failed(self, what: str, error: Exception | None, sentence: str, *args: object) -> None:
        self._cluster.outages.failed(what, error, sentence, *args, of=self._consumer.name)

    def warnings(self) -> list[str]:
        """What keeps this member from its queues, or gives them to another member, too; a sentence each."""
        return [*self._unlisted.values(), *self._same_id.values()]

    def _share(self, topic: str, queues: list[MessageQueue], client_ids: list[str]) -> list[MessageQueue] | None:
        """The result of the strategy. None, with a line in the log, if it fails: the member keeps its queues, as in RebalanceImpl."""
        strategy = self._consumer.settings.strategy
        try:
            mine = self._decide_queues(strategy, self._consumer.name, self._consumer.client_id, queues, client_ids)
        except Exception as error:  # noqa: BLE001 - logged
            sentence = "group %s: the allocation strategy %s failed for topic %s, our queues stay as they are: %s"
            args = (self._consumer.name, allocation.strategy_name(strategy), topic, error)
            self._cluster.outages.failed("allocation", error, sentence, *args, of=topic, level=logging.ERROR)
            return None
        # A fixed list may name queues of several topics; each topic's round uses its own.
        return [queue for queue in mine if queue.topic == topic]

    async def _ask_broker(self, address: str, topic: str) -> list[MessageQueue] | _Refused | None:
        """Our queues as the broker allocates them (``client_rebalance=False``). If it does not, or only for POP, the members do it."""
        body = bodies.QueryAssignmentRequestBody(
            topic=topic,
            consumer_group=self._consumer.name,
            client_id=self._consumer.client_id,
            strategy_name=allocation.strategy_name(self._consumer.settings.strategy),
            message_model=self._consumer.settings.message_model.value,
        )
        try:
            asked = requests.consumers.QUERY_ASSIGNMENT
            found = (await self._cluster.ask_body(asked, at=address, body=body.encode())).message_queue_assignments
        except RemoteError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return self._refused(f"{address} does not assign queues")
        if found is None:
            return None
        if any(assignment.mode != "PULL" for assignment in found):
            return self._refused(f"{address} assigns queues for POP, which this client does not support")
        return [assignment.message_queue for assignment in found if assignment.message_queue is not None]

    def _refused(self, why: str) -> _Refused:
        if why not in self._refusals:
            self._refusals.add(why)
            log.warning("group %s: its members divide the queues themselves: %s", self._consumer.name, why)
        return _Refused()

    async def _run(self, effects: Sequence[Drop | Add], at_once: int) -> None:
        """Run these effects and those that follow. After an unexpected error or a cancellation, the next round has all of these queues."""
        while effects:
            followers: list[Drop | Add] = []
            try:
                await self._run_together(effects, followers, at_once)
            except BaseException:
                for effect in (*effects, *followers):  # no effect on those that have ended
                    if isinstance(effect, Drop):
                        self.table.removal_refused(effect.queue)
                    else:
                        self.table.add_failed(effect.queue)
                raise
            effects = followers

    async def _run_together(self, effects: Sequence[Drop | Add], followers: list[Drop | Add], at_once: int) -> None:
        now_ms = self._consumer.clock.steady_ms()

        async def drop_queue(drop: Drop) -> None:
            if await self._remove(drop):
                followers.extend(self.table.removed(drop.queue, self._consumer.clock.steady_ms()))
            else:
                self.table.removal_refused(drop.queue)

        async def add_queue(add: Add) -> None:
            await self._add(add.queue, add.queue in locked, now_ms)

        await _of_each_broker([effect for effect in effects if isinstance(effect, Drop)], drop_queue, at_once)
        adds = [effect for effect in effects if isinstance(effect, Add)]
        queues = [add.queue for add in adds]
        self._keep_locked(queues)
        locked = await self._lock(queues) if self._locks_needed and queues else set(queues)
        await _of_each_broker(adds, add_queue, at_once)

    # -- giving up -------------------------------------------------------------------------------------------------------------

    async def _remove(self, drop: Drop) -> bool:
        queue, process_queue = drop.queue, self._process_queues.get(drop.queue)
        self.forget_progress_of_others()
        # First, before the drop may be refused: finished messages must stay finished, however long the listener runs and however this
        # process ends.
        await self._consumer.offset_store.persist(queue)
        if self._locks_needed and process_queue is not None and process_queue.consuming:
            return False
        self._consumer.offset_store.progress.remove(queue)
        self._process_queues.pop(queue, None)
        if self._locks_needed and process_queue is not None and process_queue.lock.locked:
            process_queue.lock.lost()
            await self._unlock_when_due(drop, process_queue)
        log.info("group %s: gave up %s (%s)", self._consumer.name, queue, drop.reason.value)
        return True

    async def _unlock_when_due(self, drop: Drop, process_queue: ProcessQueue) -> None:
        """At once when the consumer shuts down or nothing is cached, else later (RebalancePushImpl.unlockDelay of 4.x): work that a
        listener began may still run, and the next owner begins with the same messages."""
        delay_ms = self._consumer.settings.unlock_delay_ms
        if drop.reason is DropReason.SHUTDOWN or not process_queue.pending_count or delay_ms == 0:
            await self._unlock(drop.queue)
            return

        def due() -> None:
            del self._unlocks[drop.queue]
            self._consumer.tasks.start(self._unlock(drop.queue))

        self._unlocks[drop.queue] = self._consumer.clock.call_later(delay_ms, due)

    def _keep_locked(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Cancel the pending unlocks of these queues, because a queue that comes back must keep its lock; returns those that had one."""
        pending = [queue for queue in queues if queue in self._unlocks]
        for queue in pending:
            self._unlocks.pop(queue).cancel()
        return pending

    async def _unlock(self, queue: MessageQueue) -> None:
        address = self._routes.table.master_address(queue.broker_name)
        if address is None:
            return
        try:
            body = bodies.UnlockBatchRequestBody(
                consumer_group=self._consumer.name, client_id=self._consumer.client_id, mq_set=[queue]
            )
            await self._cluster.send_oneway(requests.consumers.UNLOCK_BATCH_MQ, at=address, body=body.encode())
        except _FAILURES as error:
            log.info(
                "group %s: %s could not be unlocked, the broker releases it after 60 s: %s",
                self._consumer.name,
                queue,
                error,
            )

    # -- taking up -------------------------------------------------------------------------------------------------------------

    async def _add(self, queue: MessageQueue, locked: bool, asked_ms: int) -> None:
        if not locked:
            log.info("group %s: %s is still locked by another member", self._consumer.name, queue)
            self.table.add_failed(queue)
            return
        self._consumer.offset_store.progress.remove(queue)
        try:
            start = await self.start_offset(queue)
        except _FAILURES as error:
            sentence = "group %s: the start offset of %s cannot be found now: %s"
            self._failed("start offset", error, sentence, self._consumer.name, queue, error)
            start = None
        if start is None:
            self.table.add_failed(queue)
            return
        process_queue = self.table.added(queue, self._consumer.clock.steady_ms())
        if process_queue is None:
            return
        if self._locks_needed:
            process_queue.lock.granted(asked_ms)
        self._process_queues[queue] = process_queue
        log.info("group %s: added %s at %d", self._consumer.name, queue, start)
        self._consumer.start_loop(process_queue, start)

    async def start_offset(self, queue: MessageQueue) -> int | None:
        """The offset at which to begin; None: unknown at the moment."""
        settings = self._consumer.settings
        stored = await self._consumer.offset_store.read(queue)
        timestamp_ms = self._start_timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = self._consumer.clock.now_ms() - _HALF_AN_HOUR_MS
        decision = self._decide_start(settings.consume_from_where, queue.topic, stored, timestamp_ms)
        if isinstance(decision, StartAt):
            if stored > 0:  # so that a broker that loses it gets it again, also if no message comes
                self._consumer.offset_store.progress.update(queue, stored)
            return decision.offset
        address = self._routes.table.master_address(queue.broker_name)
        if address is None:
            return None
        if isinstance(decision, AskMaxOffset):
            offset = (await self._cluster.ask_queue(requests.offsets.GET_MAX_OFFSET, queue, at=address)).offset
        elif isinstance(decision, AskOffsetByTime):
            search = requests.offsets.SEARCH_OFFSET_BY_TIMESTAMP
            answer = await self._cluster.ask_queue(search, queue, at=address, timestamp=decision.timestamp_ms)
            offset = answer.offset
        else:
            return None
        self._consumer.offset_store.progress.update(queue, offset)
        return offset

    # -- orderly locks (S10) ---------------------------------------------------------------------------------------------------

    async def lock_one(self, process_queue: ProcessQueue) -> bool:
        queue, asked_ms = process_queue.queue, self._consumer.clock.steady_ms()
        if queue is None or process_queue.dropped:
            return False
        if queue in await self._lock([queue]) and not process_queue.dropped:
            self._granted(queue, process_queue, asked_ms)
            return True
        return False

    def _granted(self, queue: MessageQueue, process_queue: ProcessQueue, asked_ms: int) -> None:
        """Note a grant. If another member may have had the lock since the last one, its progress counts, and ours is forgotten."""
        is_ours = process_queue.lock.is_ours(asked_ms)
        process_queue.lock.granted(asked_ms)
        if not is_ours:
            self._consumer.offset_store.progress.remove(queue)
            self._consumer.locked_again(process_queue)

    def forget_progress_of_others(self) -> None:
        """Forget progress of queues whose lock another member may have by now. Writing it could overwrite the progress of that member."""
        if self._locks_needed:
            now_ms = self._consumer.clock.steady_ms()
            for queue, process_queue in self._process_queues.items():
                if not process_queue.lock.is_ours(now_ms):
                    self._consumer.offset_store.progress.remove(queue)

    async def renew_locks(self) -> None:
        """Renew all locks, also those of queues that were dropped while a listener still runs. Called periodically."""
        asked_ms = self._consumer.clock.steady_ms()
        active = self.table.active()
        active.update((queue, one) for queue, one in self._process_queues.items() if one.consuming)
        by_broker = _by_broker(active)

        async def renew(broker_name: str, queues: list[MessageQueue]) -> None:
            locked = await self._lock_at(broker_name, queues)
            if locked is None:
                return  # no answer: if this continues, the lock expires by itself
            for queue in queues:
                if queue in locked:
                    self._granted(queue, active[queue], asked_ms)
                else:
                    self._failed("lock", None, "group %s: the lock of %s was lost", self._consumer.name, queue)
                    active[queue].lock.lost()

        await asyncio.gather(*(renew(name, queues) for name, queues in by_broker.items()))

    async def _lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        answers = await asyncio.gather(*(self._lock_at(name, part) for name, part in _by_broker(queues).items()))
        return set().union(*(answer for answer in answers if answer is not None))

    async def _lock_at(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        address = self._routes.table.master_address(broker_name)
        if address is None:
            return None
        try:
            asked = requests.consumers.LOCK_BATCH_MQ
            body = bodies.LockBatchRequestBody(
                consumer_group=self._consumer.name, client_id=self._consumer.client_id, mq_set=queues
            ).encode()
            return set((await self._cluster.ask_body(asked, at=address, body=body, timeout_ms=1_000)).lock_ok_mq_set)
        except _FAILURES as error:
            sentence = "group %s: queues of %s could not be locked: %s"
            self._failed("locking", error, sentence, self._consumer.name, broker_name, error)
            return None


def _by_broker(items: Iterable[T], broker_name: Callable[[T], str] = attrgetter("broker_name")) -> dict[str, list[T]]:
    """Queues, or something of each, by the broker of the queue."""
    parts: dict[str, list[T]] = {}
    for item in items:
        parts.setdefault(broker_name(item), []).append(item)
    return parts


async def _of_each_broker(effects: Sequence[E], work: Callable[[E], Coroutine[Any, Any, None]], at_once: int) -> None:
    """Do the work of each effect, of ``at_once`` queues of a broker at a time. A broker that does not answer delays only its own queues."""
    parts = _by_broker(effects, attrgetter("queue.broker_name"))
    await for_each(parts.values(), lambda part: for_each(part, work, at_once), len(parts))
