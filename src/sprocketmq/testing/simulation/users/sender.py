# SPDX-License-Identifier: Apache-2.0
"""Programs that send in every way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sprocketmq as rmq
from sprocketmq.client.hooks import SendMessageContext
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.testing.simulation.users.ledger import Ledger, Sent
from sprocketmq.testing.simulation.users.member import REQUESTS_AFTER_S, SHUTDOWN_MS
from sprocketmq.testing.simulation.users.user import User

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.random_users import RandomUsers
    from sprocketmq.testing.simulation.world import Here

SEND_LIMIT_MS: Final = 3_000  # send_msg_timeout_ms, all tries together
_SOON_MS: Final = 1_000  # a call that ends at its limit has its last steps to do
_REQUESTS_S: Final = 50.0
_BIG_BYTES: Final = 400_000
_FLOOD: Final = 18  # of which those that are big are more than a connection keeps for a peer that does not read
_RECALL_S: Final = 3.0  # a slot of the timer wheel is read before it is due
State = rmq.LocalTransactionState


class Tries:
    """A hook: notes whose try was not answered, so that the broker may have it although another try is made."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def before_send(self, context: SendMessageContext) -> None:
        pass

    def after_send(self, context: SendMessageContext) -> None:
        if context.result is None:
            for message in context.messages:
                self._ledger.sent[message.keys[0]].is_sent_twice = True


class Sender(User):
    """``KINDS``: what it does, by the features that ask for it."""

    def __init__(self, users: RandomUsers, here: Here) -> None:
        super().__init__(users, here)
        self._ends: dict[rmq.MessageQueue, int] = {}  # of what was acknowledged one after the other
        self._producer: Any = None
        self._notes_tries = self.rng.random() < 0.5
        self._kinds = [send for name, send in self.KINDS.items() if name in self.has]

    async def run(self) -> None:
        rng, users = self.rng, self.users
        batches = "auto-batches" in self.has and rng.random() < 0.5
        if "transactions" in self.has:
            self._producer = self.here.transaction_producer("producers", check=self._check, topics=users.ledger.topics)
        else:
            self._producer = self.here.producer("producers", auto_batch=batches)
        if self._notes_tries:
            self._producer.add_hook(Tries(self.ledger))
        await self.started(self._producer)
        while not users.all_sent:
            send = rng.choice(self._kinds) if self._kinds and rng.random() < 0.5 else Sender._single
            with self.noting(send.__name__[1:]):
                await send(self)
            await users.pause(rng.expovariate(rng.choice([0.7, 5, 50])))
        users.sending.discard(self.here.name)
        while not users.is_calm and not users.is_over:  # it answers checks of transactions, too
            await asyncio.sleep(1)
            if rng.random() < 0.2:
                await self._ask()
        await self._prove()
        users.unproved.discard(self.here.name)
        while not users.is_over:  # noqa: ASYNC110
            await asyncio.sleep(1)
        await self.ended_in(SHUTDOWN_MS, "shutdown", self._producer.shutdown())
        await self.ends()

    def _new(self, topic: str | None = None, **more: Any) -> tuple[Sent, rmq.Message]:
        topic = topic or self.rng.choice(self.ledger.topics)
        is_big = "big" in self.has and not self.users.is_calm
        sent, message = self.ledger.attempt(topic, self.rng, big=is_big, **more)
        sent.is_sent_twice = not self._notes_tries and not self.ledger.is_calm_since(sent.began_s)
        return sent, message

    async def _ended(self, call: Awaitable[Any], limit_ms: float = SEND_LIMIT_MS) -> Any:
        return await self.ended_in(limit_ms + _SOON_MS, "a send", call)

    def _acknowledged(self, sent: Sent, result: rmq.SendResult, index: int = 0) -> None:
        self.ledger.acknowledged(sent, result, index)
        self._check_order(sent, result.message_queue, result.queue_offset + index)

    def _check_order(self, sent: Sent, queue: rmq.MessageQueue, offset: int) -> None:
        if sent.topic in self.ledger.doomed or self.world.losses[queue.broker_name].at_risk:
            return
        if offset < self._ends.get(queue, 0):
            self.ledger.breaks(f"{sent.key} is at offset {offset} of {queue}, before what was acknowledged earlier")
        self._ends[queue] = offset + 1

    async def _single(self) -> None:
        sent, message = self._new()
        self._acknowledged(sent, await self._ended(self._producer.send(message)))

    async def _batch(self) -> None:
        topic = self.rng.choice(self.ledger.topics)
        batch = [self._new(topic) for _ in range(self.rng.randint(2, self.rng.choice([4, 10, 50])))]
        result = await self._ended(self._producer.send_batch([message for _, message in batch]))
        for index, (sent, _) in enumerate(batch):
            self._acknowledged(sent, result, index)

    async def _ordered(self) -> None:
        sent, message = self._new()
        how: dict[str, Any] = {"sharding_key": self.rng.choice("xyz")}
        if self.rng.random() < 0.3:
            how = {"selector": lambda queues, message: queues[-1]}
        elif self.rng.random() < 0.3:
            how = {"queue": self.rng.choice(await self._ended(self._producer.publish_queues(sent.topic)))}
        self._acknowledged(sent, await self._ended(self._producer.send(message, **how)))

    async def _delayed(self) -> None:
        levels = DelayLevels.parse(self.world.config.message_delay_level)
        level = self.rng.randint(1, levels.max_level)
        sent, message = self._new(delay_level=level)
        delay_ms = levels.delay_ms(level)
        self._is_due(sent, sent.began_s + delay_ms / 1000)
        self.ledger.acknowledged(sent, await self._ended(self._producer.send(message)), is_at_place=False)

    async def _timed(self) -> None:
        rng, (sent, message) = self.rng, self._new()
        delay_ms = rng.choice([100, 1_000, 7_000, 30_000, 90_000])
        how: dict[str, Any] = {"delay_ms": delay_ms}
        if rng.random() < 0.5:
            how = {"deliver_time_ms": self.here.host.clock.now_ms() + delay_ms}
        self._is_due(sent, sent.began_s + delay_ms / 1000)
        result = await self._ended(self._producer.send(message, **how))
        self.ledger.acknowledged(sent, result, is_at_place=False)
        if "recalls" in self.has and result.recall_handle is not None and rng.random() < 0.5:
            await self._recall(sent, result.recall_handle)

    def _is_due(self, sent: Sent, due_s: float) -> None:
        if self.ledger.kinds.isdisjoint({"clocks", "drift"}):
            sent.due_s = due_s

    async def _recall(self, sent: Sent, handle: str) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / 5))
        sent.is_recalled = True  # perhaps, if it is not answered
        await self._ended(self._producer.recall(sent.topic, handle))
        if self.world.is_sync_flush or "power" not in self.ledger.kinds:  # else it may be lost
            is_in_time = self.loop.time() < sent.due_s - _RECALL_S
            sent.is_gone = is_in_time and not sent.is_sent_twice  # another broker may have it, too

    async def _one_way(self) -> None:
        sent, message = self._new()
        sent.is_sent_twice = False
        await self._ended(self._producer.send_oneway(message))

    async def _flood(self) -> None:
        if self.rng.random() < 0.1:
            await self._send_at_once([self.rng.choice([_BIG_BYTES, _BIG_BYTES, 0]) for _ in range(_FLOOD)])
        else:
            await self._single()

    async def _futures(self) -> None:
        await self._send_at_once([0] * self.rng.randint(2, self.rng.choice([5, 20, 50])))

    async def _send_at_once(self, fillers_bytes: list[int]) -> None:
        all_sent = [self._new(filler_bytes=filler_bytes) for filler_bytes in fillers_bytes]
        futures = [(sent, self._producer.send_async(message)) for sent, message in all_sent]
        if self.rng.random() < 0.5:
            await self._ended(self._producer.flush())
        failed: rmq.RocketMQError | None = None
        for sent, future in futures:
            try:
                self.ledger.acknowledged(sent, await self._ended(future))
            except rmq.RocketMQError as error:
                failed = error
        if failed is not None:
            raise failed

    async def _ask(self) -> None:
        """For a while brokers may still push replies to connections that are dead."""
        calm_s = self.loop.time() - self.ledger.calm_from_s
        if REQUESTS_AFTER_S <= calm_s < REQUESTS_AFTER_S + _REQUESTS_S:
            for topic in self.users.answered_topics[:1]:
                with self.noting("request"):  # who answers has other things to do
                    await self._request(topic)

    async def _request(self, topic: str | None = None, timeout_ms: int | None = None) -> None:
        answered = self.users.answered_topics
        sent, message = self._new(topic or (self.rng.choice(answered) if answered else None))
        timeout_ms = timeout_ms or self.rng.choice([1_000, 3_000, 10_000])
        sent.asker = self.process
        try:
            reply = await self._ended(self._producer.request(message, timeout_ms=timeout_ms), timeout_ms)
        finally:
            sent.asker = None
        sent.is_acknowledged = True
        if reply.body != b"re:" + sent.body:
            self.ledger.breaks(f"the request {sent.key} got the reply {reply.body[:40]!r}")

    # -- when the trouble is over ------------------------------------------------------------------------------------------------

    async def _prove(self) -> None:
        """All is well again, so each of these calls succeeds."""
        what = "a send"
        try:
            for topic in self.ledger.topics:
                if topic not in self.ledger.doomed:
                    sent, message = self._new(topic)
                    self._acknowledged(sent, await self._ended(self._producer.send(message)))
            what = "a request"
            for topic in self.users.answered_topics:
                await self._request(topic, 60_000)
        except rmq.RocketMQError as error:
            self.ledger.breaks(f"{what} of {self.here.name} fails, although the trouble is over: {error!r}")

    # -- transactions ------------------------------------------------------------------------------------------------------------

    async def _transaction(self) -> None:
        sent, message = self._new()
        sent.is_transaction = True

        async def execute(message: rmq.Message) -> State:
            await asyncio.sleep(self.rng.expovariate(10))
            return self._decide(sent, self.rng)

        result = await self._ended(
            self._producer.send_in_transaction(message, execute=execute), 2 * SEND_LIMIT_MS + 5_000
        )
        sent.is_acknowledged = sent.is_durable = result.status is rmq.SendStatus.SEND_OK
        sent.is_durable &= self.world.is_sync_flush

    def _decide(self, sent: Sent, rng: random.Random) -> State:
        """The local transaction, and what the producer says about it, which may be less than it knows."""
        if sent.decision is None and self.users.is_ending:
            sent.decision = State.ROLLBACK_MESSAGE  # so that the end is near
        elif sent.decision is None and rng.random() < 0.8:
            sent.decision = rng.choice([State.COMMIT_MESSAGE, State.ROLLBACK_MESSAGE])
        if rng.random() < 0.1:
            raise ValueError("the answer of the database got lost")
        return State.UNKNOWN if sent.decision is None or rng.random() < 0.1 else sent.decision

    async def _check(self, message: rmq.MessageExt) -> State:
        """What a producer's data says: none is of a transaction that has not begun, or whose process died in it."""
        sent = self.ledger.of(message)
        if not sent.is_transaction:
            self.ledger.breaks(f"{sent.key} is asked about, and is not of a transaction")
        if sent.decision is None and self.loop.time() > sent.began_s + 60:
            sent.decision = State.ROLLBACK_MESSAGE
        return self._decide(sent, self.rng)

    KINDS: ClassVar[dict[str, Callable[[Sender], Awaitable[None]]]] = {
        "batches": _batch,
        "ordered": _ordered,
        "delays": _delayed,
        "timers": _timed,
        "one-way": _one_way,
        "futures": _futures,
        "transactions": _transaction,
        "requests": _request,
        "big": _flood,
    }
