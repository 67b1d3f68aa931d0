# SPDX-License-Identifier: Apache-2.0
"""Members of consumer groups: programs that come, are given messages, do what users do, and go."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sprocketmq as rmq
from sprocketmq.testing.simulation.users.group import ALL, CONSUME_TIMEOUT_MS, Call, Group
from sprocketmq.testing.simulation.users.user import User
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Process
    from sprocketmq.testing.simulation.users.random_users import RandomUsers
    from sprocketmq.testing.simulation.world import Here

SHUTDOWN_MS: Final = 120_000
# After pause() what was asked for before may still come: no client waits longer than this for the answer to a pull.
_PAUSED_S: Final = 35.0
_PAUSE_S: Final = 100.0
_AT_ONCE_S: Final = 4.0
# For a message: who takes minutes for what a poll gave him may have lost the queue before he commits.
_POLLED_S: Final = 2.0
# So long after the trouble clients know which of their connections are dead, and brokers do not: they wait for 120 s.
REQUESTS_AFTER_S: Final = 60.0
_ODD: Final[tuple[type[BaseException], ...]] = (
    asyncio.CancelledError,
    StopAsyncIteration,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    rmq.RocketMQError,
    TimeoutError,
    MemoryError,
)


class Member(User):
    """``run`` is its host's program."""

    subscribes: ClassVar[bool] = True

    def __init__(self, group: Group, users: RandomUsers, here: Here) -> None:
        super().__init__(users, here)
        self.group = group
        self.consumer: Any = None
        self._paused_s = self._left_s = math.inf
        self._left_topic = ""
        self._producer: rmq.AsyncProducer | None = None

    async def run(self) -> None:
        group, rng = self.group, self.rng
        while not self.users.is_over:
            self.consumer = self._made()
            group.leaving.discard(self.here.name)
            self._is_shut = False  # by its listener
            group.changes()
            tasks = self.world.unfinished(self.here.host)
            if not await self.started(self.consumer, lambda: self.users.is_over):
                break
            self.world.note(f"{self.here.name} consumes")
            group.changes()
            await self._stay(self.loop.time() + rng.expovariate(1 / self.users.stay_s) * self.users.pace)
            await self._leave(self.consumer)
            if self._producer is None:
                await self.check_tasks(tasks)
            if not self.users.is_over:
                await self.users.pause(rng.expovariate(1 / 10))
        if self._producer is not None:
            await self._leave(self._producer)
        await self.ends()

    async def _leave(self, client: Any) -> None:
        self.group.changes()
        self.group.leaving.add(self.here.name)
        await self._shut_down("shutdown", client)
        self.world.note(f"{self.here.name} has left")
        self.group.changes()

    async def _shut_down(self, what: str, client: Any, call: Call | None = None) -> None:
        """At once if there is nothing to wait for. ``call``: the listener call that does it."""
        ledger, began_s = self.ledger, self.loop.time()
        is_idle = self.group.is_idle_at(self.here, call)
        try:
            await self.ended_in(SHUTDOWN_MS, what, client.shutdown())
        finally:
            took_s = self.loop.time() - began_s
            if took_s > _AT_ONCE_S and is_idle and ledger.is_calm_since(began_s - _PAUSE_S):
                ledger.breaks(f"{what} of {self.here.name} took {took_s:.1f} s, and no other listener ran")

    def _made(self) -> Any:
        raise NotImplementedError

    async def _stay(self, end_s: float) -> None:
        await self._until(end_s)

    # -- a message ---------------------------------------------------------------------------------------------------------------

    async def handle(self, message: rmq.MessageExt) -> None:
        rng, group = self.rng, self.group
        call = self._begin(message)
        try:
            await asyncio.sleep(self._listener_s())
            if "callbacks" in self.has and rng.random() < 0.02:
                await self._call_back(call)
            if props.REPLY_TO_CLIENT in message.properties and not group.broadcasts:
                await self._reply(message, call)
        except asyncio.CancelledError:  # by a shutdown that does not wait any longer
            group.gives_up(call)
            raise
        self._end(call)

    def handle_blocking(self, message: rmq.MessageExt) -> None:
        """In a thread."""
        call = self._begin(message)
        time.sleep(self._listener_s())
        self._end(call)

    def _begin(self, message: rmq.MessageExt) -> Call:
        call = self.group.begins(self.here, message)
        self._check_wanted_now(call)
        return call

    def _end(self, call: Call) -> None:
        if self.rng.random() < 0.05 and not self.group.broadcasts:
            raise self._failure(call)
        self.group.finishes(call)

    def _listener_s(self) -> float:
        rng = self.rng
        if self.group.may_time_out and rng.random() < 0.005:
            return CONSUME_TIMEOUT_MS / 1000 * 1.5
        return 30 if rng.random() < 0.005 else rng.expovariate(1 / rng.choice(self.users.listener_s))

    def _failure(self, call: Call) -> BaseException:
        rng, kind = self.rng, self.rng.random()
        if "dead letters" in self.has and kind < 0.1:
            self.group.fails(call, is_dead=True)
            return rmq.DeadLetter(rng.choice(["", "no such order"]))
        self.group.fails(call)
        if kind < 0.3:
            return rmq.RetryLater(delay_ms=rng.randint(1, 3_000))
        if "odd failures" in self.has and kind < 0.8:
            return rng.choice(_ODD)()
        return ValueError("this listener fails now and then")

    def _check_wanted_now(self, call: Call) -> None:
        since_s = call.sent.began_s
        if since_s > self._paused_s + _PAUSED_S:
            self.ledger.breaks(f"{self.here.name} is paused since {self._paused_s:.0f} s and got {call.sent.key}")
        if call.queue.topic == self._left_topic and since_s > self._left_s + _PAUSED_S:
            self.ledger.breaks(f"{self.here.name} has unsubscribed {self._left_topic} and got {call.sent.key}")

    async def _reply(self, request: rmq.MessageExt, call: Call) -> None:
        since_s, asker = self.loop.time() - REQUESTS_AFTER_S, call.sent.asker
        try:
            producer = await self._started_producer()
            await producer.reply(request, b"re:" + request.body)
        except rmq.RocketMQError as error:  # who asked is gone
            self.note(" cannot reply", error)
            if asker is None or asker.is_dead:
                return
            is_promised = call.sent.asker is asker and self.ledger.is_calm_since(since_s)
            if is_promised or (isinstance(error, rmq.RequestTimeout) and self._reaches(asker, call, since_s, error)):
                self.ledger.breaks(f"{self.here.name} cannot reply, and {asker.host} waits for it: {error}")

    def _reaches(self, asker: Process, call: Call, since_s: float, error: rmq.RequestTimeout) -> bool:
        """Whether nothing is between the broker that did not answer and this host, nor between it and who has asked over a connection
        that works."""
        ledger, network = self.ledger, self.world.network
        broker = ledger.host_of(call.queue.broker_name)
        return (
            error.address.startswith(f"{broker.address}:")
            and call.queue.topic != self.group.retry_topic
            and "narrow" not in ledger.kinds
            and not ledger.has_restarted(broker.name, since_s)
            and not self.world.sky.had_disk_trouble(broker, since_s)
            and not any(ledger.was_cut_off(host, since_s) for host in (broker, asker.host, self.here.host))
            and not network.times_forgotten(self.here.host, broker, since_s)
            and not network.times_forgotten(asker.host, broker, call.sent.began_s)
        )

    async def _call_back(self, call: Call) -> None:
        """What a listener calls of its own clients."""
        rng, ledger = self.rng, self.ledger
        what = rng.choice(["send", "shutdown", "pause", "rebalance", "persist"])
        with self.noting(f"{what} in a listener"):
            if what == "send":
                sent, message = ledger.attempt(rng.choice(ledger.topics), rng)
                producer = await self._started_producer()
                ledger.acknowledged(sent, await producer.send(message))
            elif what == "shutdown" and not self.users.is_over:
                self._is_shut = True
                self.group.changes()
                self.group.leaving.add(self.here.name)
                # It cannot know that who iterates is who calls, and gives him time to settle.
                own_call = None if "iterating" in self.group.kind else call
                await self._shut_down("a listener's shutdown", self.consumer, own_call)
            elif what == "pause":
                self.consumer.pause()
                if self._paused_s == math.inf:
                    self.consumer.resume()
            elif what == "rebalance":
                await self.consumer.rebalance_now()
            elif what == "persist":
                await self.consumer.persist_offsets()

    async def _started_producer(self) -> rmq.AsyncProducer:
        if self._producer is None:
            self._producer = self.here.producer(f"producer-of-{self.group.name}")
            await self._producer.start()
        return self._producer

    # -- what consumers of all kinds do while they run -------------------------------------------------------------------------------

    async def _until(self, end_s: float) -> None:
        """Do this and that, until it is time to go."""
        while not self.users.is_over and self.loop.time() < end_s and not self._is_shut:
            await asyncio.sleep(1)
            if self.users.is_ending or self._is_shut or self.rng.random() > 0.05:
                continue
            if "pauses" in self.has:
                await self._pause()
            elif self.subscribes and "subscriptions" in self.has and len(self.group.filters) > 1:
                await self._resubscribe()

    async def _pause(self) -> None:
        self.consumer.pause()
        self._paused_s = self.loop.time()
        await self._while(self.rng.expovariate(1 / _PAUSE_S))
        self._paused_s = math.inf
        if not self._is_shut:
            self.consumer.resume()

    async def _while(self, seconds: float) -> None:
        end_s = self.loop.time() + seconds
        while self.loop.time() < end_s and not self.users.is_ending and not self._is_shut:  # noqa: ASYNC110 - several conditions
            await asyncio.sleep(1)

    async def _resubscribe(self) -> None:
        self._left_topic = self.rng.choice(sorted(self.group.filters))
        self.group.changes()
        await self._unsubscribe(self._left_topic)
        self._left_s = self.loop.time()
        await self._while(self.rng.expovariate(1 / _PAUSE_S))
        self._left_s = math.inf
        self.group.changes()
        await self._subscribe(self._left_topic)

    async def _subscribe(self, topic: str) -> None:
        self.consumer.subscribe(topic, self.group.filters[topic].expression)

    async def _unsubscribe(self, topic: str) -> None:
        self.consumer.unsubscribe(topic)


class PushMember(Member):
    """With a listener: concurrent, orderly or broadcasting."""

    def _made(self) -> rmq.AsyncPushConsumer:
        rng, group = self.rng, self.group
        options: dict[str, Any] = {}
        if group.broadcasts:
            options = {
                "message_model": rmq.MessageModel.BROADCASTING,
                "instance_name": self.here.name,
                "local_offset_store_dir": self.world.dir_of(self.here.host),
            }
        consumer = self.here.push_consumer(
            group.name,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_thread_count=rng.choice([1, 4, 20]),
            consume_timeout_ms=CONSUME_TIMEOUT_MS if group.may_time_out else 900_000,
            max_reconsume_times=group.retries if group.retries is not None else -1 if group.orderly else 1_000,
            suspend_current_queue_time_ms=100,
            pull_batch_size=rng.choice([1, 32]),
            pull_threshold_for_queue=rng.choice([2, 1_000]),
            # As the guide says for members that differ; only one that wants everything sees that a guest's filter is in force.
            post_subscription_when_pull="guests" in self.has and any(one is not ALL for one in group.filters.values()),
            **options,
        )
        for topic, wanted in group.filters.items():
            consumer.subscribe(topic, wanted.expression)
        self._listen(consumer)
        return consumer

    def _listen(self, consumer: rmq.AsyncPushConsumer) -> None:
        blocks = "blocking" in self.has and self.rng.random() < 0.5
        if self.group.orderly:
            consumer.orderly_listener(self._orderly_blocking if blocks else self._orderly)
        elif blocks:
            consumer.on_message(self.handle_blocking)
        else:
            consumer.on_message(self.handle)

    async def _orderly(
        self, messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext
    ) -> rmq.ConsumeOrderlyStatus:
        for message in messages:
            await self.handle(message)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def _orderly_blocking(
        self, messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext
    ) -> rmq.ConsumeOrderlyStatus:
        for message in messages:
            self.handle_blocking(message)
        return rmq.ConsumeOrderlyStatus.SUCCESS


class Guest(PushMember):
    """Of another opinion about what its group subscribes to: it asks for less, takes no queue, and is gone before the end."""

    async def run(self) -> None:
        while not self.users.is_ending:
            await self.users.pause(self.rng.expovariate(1 / 20))
            self.consumer = self._made()
            self.group.changes()
            if not await self.started(self.consumer, lambda: self.users.is_ending):
                break
            self.group.changes()
            await self.users.pause(self.rng.expovariate(1 / 10))
            await self._leave(self.consumer)
        await self.ends()

    def _made(self) -> rmq.AsyncPushConsumer:
        consumer = self.here.push_consumer(self.group.name, allocate_strategy=_no_queue)
        for topic in self.group.filters:
            consumer.subscribe(topic, "C")
        consumer.on_message(self.handle)
        return consumer


def _no_queue(group: str, client_id: str, queues: Sequence[Any], client_ids: Sequence[str]) -> list[Any]:
    return []


class IteratorMember(PushMember):
    """Iterates, and settles each message."""

    def _listen(self, consumer: rmq.AsyncPushConsumer) -> None:
        self._messages = consumer.messages(orderly=self.group.orderly)

    async def _stay(self, end_s: float) -> None:
        if "cancels" in self.has and not self.group.orderly:
            try:
                for _ in range(20):
                    await self._receive_some()
            except rmq.ClosedError:
                if not self._is_shut:  # by a listener
                    raise
        tasks = [asyncio.ensure_future(self._iterate()) for _ in range(self.rng.choice([1, 3]))]
        await self._until(end_s)
        self._messages.stop()
        await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def _iterate(self) -> None:
        async for message in self._messages:
            await self._handle_and_settle(message)

    async def _receive_some(self) -> None:
        """Two receives at once, cancelled when one of them has something, or soon, perhaps with what they have collected so far."""
        both = [asyncio.ensure_future(self._messages.receive(most, timeout_ms=2_000)) for most in (1, 10)]
        if self.rng.random() < 0.5:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(self.rng.randint(0, 6)):
            await asyncio.sleep(0)
        for receiving in both:
            receiving.cancel()
        await asyncio.wait(both)
        received = [message for one in both if not one.cancelled() for message in one.result()]
        await asyncio.gather(*map(self._handle_and_settle, received))  # each has its time from now on

    async def _handle_and_settle(self, message: Any) -> None:
        try:
            await self.handle(message)
        except rmq.DeadLetter:
            self._settle(message.dead_letter)
        except BaseException:  # noqa: BLE001 - what this loop raised itself
            self._settle(message.nack)
        else:
            self._settle(message.ack)

    def _settle(self, verdict: Any) -> None:
        try:
            verdict()
        except rmq.ClosedError:  # delivered again
            self.world.note(f"{self.here.name} settles after its shutdown")


class PullMember(Member):
    """Polls, and commits by itself or not. There are no retries: a failure is the program's own to mend."""

    def _made(self) -> rmq.AsyncPullConsumer:
        self._commits = self.rng.random() < 0.5
        return self.here.pull_consumer(
            self.group.name,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            auto_commit=not self._commits,
            pull_batch_size=self.rng.choice([1, 10]),
        )

    async def _stay(self, end_s: float) -> None:
        tries_end_s = end_s
        while not await self._joined():
            await asyncio.sleep(1)
            if self.users.is_over or self.loop.time() > tries_end_s + 600:
                return
        life = asyncio.ensure_future(self._until(end_s))
        while not life.done():
            await self._poll()
        life.result()
        if self._commits:
            await self._try("commit", self.consumer.commit())

    async def _poll(self) -> None:
        timeout_ms = self.rng.choice([0, 100, 5_000])
        polled = self.consumer.poll(self.rng.choice([1, 32]), timeout_ms=timeout_ms)
        messages = await self.ended_in(timeout_ms + 1_000, "a poll", polled)
        polled_s = self.loop.time()
        for message in messages:
            call = self._begin(message)
            call.began_s = polled_s  # another member may have its queue by now
            await asyncio.sleep(self.rng.expovariate(1 / min(self.users.listener_s[0], _POLLED_S)))
            self.group.finishes(call)
        if not timeout_ms:
            await asyncio.sleep(0.1)
        if self._commits and self.rng.random() < 0.3:
            await self._try("commit", self.consumer.commit())

    async def _try(self, what: str, call: Any) -> bool:
        try:
            await self.ended_in(30_000, what, call)
        except rmq.RocketMQError as error:
            self.note(f": {what}", error)
            return False
        return True

    async def _joined(self) -> bool:
        return all(
            [
                await self._try("subscribe", self.consumer.subscribe(topic, wanted.expression))
                for topic, wanted in self.group.filters.items()
            ]
        )

    async def _subscribe(self, topic: str) -> None:
        while not await self._try("subscribe", self.consumer.subscribe(topic, self.group.filters[topic].expression)):  # noqa: ASYNC110 - it is tried
            await asyncio.sleep(1)

    async def _unsubscribe(self, topic: str) -> None:
        await self._try("unsubscribe", self.consumer.unsubscribe(topic))


class AssignedMember(PullMember):
    """The only member of its group: assigns all queues to itself, and seeks backwards."""

    subscribes = False

    def _made(self) -> rmq.AsyncPullConsumer:
        self._sought: dict[rmq.MessageQueue, int] = {}
        self._queues: list[rmq.MessageQueue] = []
        self._is_old = False  # a topic has other queues now
        return super()._made()

    async def _joined(self) -> bool:
        queues: list[rmq.MessageQueue] = []

        async def assign() -> None:
            for topic in self.group.filters:
                await self.consumer.register_topic_message_queue_change_listener(topic, self._queues_changed)
                queues.extend(await self.consumer.fetch_message_queues(topic))
            expressions = {topic: wanted.expression for topic, wanted in self.group.filters.items()}
            await self.consumer.assign(queues, expressions)

        self._is_old = False  # before it asks: what changes meanwhile is told
        if not await self._try("assign", assign()):
            self._is_old = True
            return False
        self._queues = queues
        # Who was assigned a queue anew begins where the group is.
        self._sought = {queue: offset for queue, offset in self._sought.items() if queue in queues}
        return True

    async def _queues_changed(self, topic: str, queues: Collection[rmq.MessageQueue]) -> None:
        self._is_old = True

    async def _poll(self) -> None:
        if self._is_old:
            self.group.changes()
            await self._joined()
        if "seeks" in self.has and self.rng.random() < 0.02:
            await self._seek()
        await super()._poll()

    async def _seek(self) -> None:
        queue = self.rng.choice(self._queues)
        position = self.consumer.positions.get(queue, 0)
        offset = self.rng.randint(max(0, position - 20), max(0, position))
        self.group.moves()

        async def seek() -> None:
            await self.consumer.seek(queue, offset)
            # A reset by an administrator takes effect with the next pull, which may be after a seek that is later.
            if "resets" not in self.users.features:
                self._sought[queue] = offset

        await self._try(f"seek of {queue} to {offset}", seek())

    def _check_wanted_now(self, call: Call) -> None:
        super()._check_wanted_now(call)
        sought = self._sought.pop(call.queue, None)
        if sought is not None and call.offset != sought:
            self.group.check_skipped(call.queue, sought, call.offset)
