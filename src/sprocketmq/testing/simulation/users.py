# SPDX-License-Identifier: Apache-2.0
"""Random users of a cluster, and a model of what RocketMQ promises them.

Rules
1. An acknowledged message is stored at the offset that the answer names, with its key and body, and stays there.
2. Every group finishes every acknowledged message: its listener succeeds with it at least once. Nothing else comes.
3. An orderly group begins a message only when all before it in its queue are finished.
4. When the trouble is over, all groups are done within ``AFTER_MS``, and their committed offsets are the ends of the queues.
5. A send ends within its limit, a shutdown within ``SHUTDOWN_MS``, however the cluster is; and then none of its tasks runs.
6. No callback raises.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sprocketmq as rmq
from sprocketmq.broker import Broker
from sprocketmq.testing.simulation.loop import SimulationError
from sprocketmq.wire.records.record import decode_records

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.world import Here, World

AFTER_MS: Final = 30 * 60_000
COMMITTED_MS: Final = 5 * 60_000  # what was delivered again is still being handled
SHUTDOWN_MS: Final = 120_000
_SEND_LIMIT_MS: Final = 3 * 3_000 + 20_000  # three tries, and a route that is read again


class Group:
    """What one group has been given. Offsets are those of stored messages, by (broker, topic, queue)."""

    def __init__(self, name: str, topic: str, *, orderly: bool) -> None:
        self.name, self.topic, self.orderly = name, topic, orderly
        self.finished: dict[str, int] = defaultdict(int)  # times, by key
        self._next: dict[tuple[str, str, int], int] = defaultdict(int)  # the lowest offset that is not finished
        self._ahead: dict[tuple[str, str, int], set[int]] = defaultdict(set)

    def begins(self, message: rmq.MessageExt) -> None:
        queue = (message.broker_name, message.topic, message.queue_id)
        if self.orderly and message.queue_offset > self._next[queue]:
            raise SimulationError(
                f"orderly group {self.name} begins offset {message.queue_offset} of {queue}, and {self._next[queue]} is not finished"
            )

    def finishes(self, message: rmq.MessageExt) -> None:
        self.finished[message.body.decode()] += 1
        queue = (message.broker_name, message.topic, message.queue_id)
        ahead = self._ahead[queue]
        ahead.add(message.queue_offset)
        while self._next[queue] in ahead:
            ahead.discard(self._next[queue])
            self._next[queue] += 1


class RandomUsers:
    """``messages``: how many are sent. Call it as the program of :func:`simulate`."""

    def __init__(self, messages: int = 400) -> None:
        self._messages = messages
        self._number = 0
        self._attempted: set[str] = set()
        self._acknowledged: dict[str, rmq.SendResult] = {}
        self._groups: list[Group] = []
        self._broken: Exception | None = None
        self._over = False
        self._producing = 0
        self._stored_at: dict[str, tuple[rmq.MessageQueue, int]] = {}
        self._ended: set[str] = set()
        self._listener_s: list[float] = [0.01]  # how long a call takes on average

    async def __call__(self, world: World) -> None:
        self._world, rng = world, world.rng
        topics = [f"topic-{number}" for number in range(rng.randint(1, 3))]
        for topic in topics:
            await world.topic(topic, rng.choice([1, 2, 4, 8]))
        self._listener_s = rng.sample([0.001, 0.02, 0.2, 2], 2)
        for number in range(rng.randint(1, 2)):
            self._producing += 1
            world.start(f"producer-{number}", partial(self._produce, topics))
        for number in range(rng.randint(1, 3)):
            group = Group(f"group-{number}", rng.choice(topics), orderly=rng.random() < 0.4)
            self._groups.append(group)
            for member in range(rng.randint(1, 3)):
                world.start(f"{group.name}-{member}", partial(self._consume, group))
        await self._until(lambda: not self._producing, 4 * 3_600_000, "the producers end")
        world.sky.clear()
        world.note("the trouble is over")
        await world.all_up()
        await self._until(self._is_done, AFTER_MS, "every group finishes every acknowledged message")
        self._check_stored()
        await self._until(self._is_committed, COMMITTED_MS, "the progress of every group is committed")
        self._over = True
        await self._until(self._has_ended, SHUTDOWN_MS, "every consumer has shut down, and no task is left")

    async def _until(self, condition: Any, limit_ms: float, what: str) -> None:
        def holds() -> bool:
            if self._broken is not None:
                raise self._broken
            return bool(condition())

        try:
            await self._world.until(holds, limit_ms, what)
        except SimulationError as error:
            if self._broken is None:
                error.add_note("\n".join(self._missing()))
            raise

    # -- sending ---------------------------------------------------------------------------------------------------------------

    async def _produce(self, topics: list[str], here: Here) -> None:
        rng, loop = here.rng, here.world.loop
        producer = here.producer("producers")
        await started(producer, here)
        while self._number < self._messages:
            topic = rng.choice(topics)
            batch = rng.randint(2, 10) if rng.random() < 0.1 else 1
            messages = [self._message(topic, rng) for _ in range(batch)]
            began_s = loop.time()
            try:
                if batch > 1:
                    result = await producer.send_batch(messages)
                    for index, message in enumerate(messages):
                        self._note_sent(message, result, index)
                elif rng.random() < 0.3:
                    await self._send_sharded(producer, messages[0], rng)
                elif rng.random() < 0.1:
                    delayed = self._message(topic, rng, delay_level=rng.randint(1, 6))
                    self._acknowledged[delayed.body.decode()] = await producer.send(delayed)
                else:
                    self._note_sent(messages[0], await producer.send(messages[0]), 0)
            except rmq.RocketMQError as error:
                here.world.note(f"{here.name}: {messages[0].body.decode()}: {type(error).__name__}")
            took_ms = (loop.time() - began_s) * 1000
            if took_ms > _SEND_LIMIT_MS + here.host.process.frozen_ms_since(began_s):
                self._break(SimulationError(f"a send of {here.name} took {took_ms:.0f} ms"))
            await asyncio.sleep(rng.expovariate(rng.choice([0.7, 5, 50])))
        await producer.shutdown()
        self._producing -= 1
        await self._forever()

    def _message(self, topic: str, rng: random.Random, delay_level: int = 0) -> rmq.Message:
        self._number += 1
        key = f"m{self._number}"
        self._attempted.add(key)
        return rmq.Message(topic, key.encode(), keys=key, tags=rng.choice(["A", "B"]), delay_level=delay_level)

    async def _send_sharded(self, producer: rmq.AsyncProducer, message: rmq.Message, rng: random.Random) -> None:
        self._note_sent(message, await producer.send(message, sharding_key=rng.choice("xyz")), 0)

    def _note_sent(self, message: rmq.Message, result: rmq.SendResult, index: int) -> None:
        key = message.body.decode()
        self._acknowledged[key] = result
        self._stored_at[key] = (result.message_queue, result.queue_offset + index)

    # -- consuming -------------------------------------------------------------------------------------------------------------

    async def _consume(self, group: Group, here: Here) -> None:
        """A member that comes and goes."""
        rng = here.rng
        while not self._over:
            consumer = here.push_consumer(
                group.name,
                consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                consume_thread_count=rng.choice([1, 4, 20]),
                max_reconsume_times=-1 if group.orderly else 1_000,
                suspend_current_queue_time_ms=100,
            )
            consumer.subscribe(group.topic)
            if group.orderly:
                consumer.orderly_listener(self._orderly(here, group))
            else:
                consumer.on_message(self._concurrent(here, group))
            if not await started(consumer, here, lambda: self._over):
                break
            here.world.note(f"{here.name} consumes")
            end_s = here.world.loop.time() + rng.expovariate(1 / 60)
            while not self._over and here.world.loop.time() < end_s:  # noqa: ASYNC110 - two conditions
                await asyncio.sleep(1)
            began_s = here.world.loop.time()
            await consumer.shutdown()
            here.world.note(f"{here.name} has left")
            took_ms = (here.world.loop.time() - began_s) * 1000
            if took_ms > SHUTDOWN_MS + here.host.process.frozen_ms_since(began_s):
                self._break(SimulationError(f"the shutdown of {here.name} took {took_ms:.0f} ms"))
            if not self._over:
                await asyncio.sleep(rng.expovariate(1 / 10))
        self._ended.add(here.name)
        await self._forever()

    def _concurrent(self, here: Here, group: Group) -> Any:
        async def listen(message: rmq.MessageExt) -> None:
            await self._handle(here, group, message)

        return listen

    def _orderly(self, here: Here, group: Group) -> Any:
        async def listen(
            messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext
        ) -> rmq.ConsumeOrderlyStatus:
            for message in messages:
                await self._handle(here, group, message)
            return rmq.ConsumeOrderlyStatus.SUCCESS

        return listen

    async def _handle(self, here: Here, group: Group, message: rmq.MessageExt) -> None:
        rng, key = here.rng, message.body.decode()
        if key not in self._attempted:
            self._break(SimulationError(f"{group.name} got {message.body!r}, which nobody sent"))
        try:
            group.begins(message)
        except SimulationError as error:
            self._break(error)
        await asyncio.sleep(30 if rng.random() < 0.005 else rng.expovariate(1 / rng.choice(self._listener_s)))
        if rng.random() < 0.05:
            raise ValueError("this listener fails now and then")
        group.finishes(message)

    # -- the model -------------------------------------------------------------------------------------------------------------

    def _break(self, error: Exception) -> None:
        if self._broken is None:
            self._world.note(f"broken: {error}")
            self._broken = error

    def _is_excused(self, key: str) -> bool:
        """A power cut may take what the disk was not said to have. An answer under SYNC_FLUSH says that it has."""
        losses = self._world.losses.values()
        sent = self._acknowledged[key]
        is_durable = self._world.is_sync_flush and sent.status is rmq.SendStatus.SEND_OK
        return not is_durable and any(key.encode() in each.at_risk for each in losses)

    def _passed_over(self) -> set[str]:
        return {
            body.decode()
            for name, losses in self._world.losses.items()
            for body in losses.skipped(self._broker(name).store)
        }

    def _missing(self) -> list[str]:
        return [
            f"{group.name} (orderly={group.orderly}) lacks {sorted(lacks)[:10]}, {len(lacks)} in all"
            for group in self._groups
            if (lacks := {key for key, sent in self._acknowledged.items() if self._lacks(group, key, sent)})
            if (lacks := {key for key in lacks if not self._is_excused(key)})
            if (lacks := lacks - self._passed_over())
        ]

    def _lacks(self, group: Group, key: str, sent: rmq.SendResult) -> bool:
        return sent.message_queue.topic == group.topic and key not in group.finished

    def _is_done(self) -> bool:
        return not self._missing()

    def _check_stored(self) -> None:
        for key, (queue, offset) in self._stored_at.items():
            found = self._broker(queue.broker_name).store.read(queue.topic, queue.queue_id, offset, 1, 1 << 20)
            bodies = [message.body for chunk in found.chunks for message in decode_records(chunk)]
            if bodies != [key.encode()] and not self._is_excused(key):
                raise SimulationError(f"{key} was acknowledged at {queue}, offset {offset}, and there is {bodies}")

    def _is_committed(self) -> bool:
        for group in self._groups:
            for host in self._world.brokers:
                broker = self._broker(host.name)
                for topic, queue_id in broker.store.queues():
                    end = broker.store.max_offset(topic, queue_id)
                    if topic == group.topic and end and broker.offsets.query(group.name, topic, queue_id) != end:
                        return False
        return True

    def _broker(self, name: str) -> Broker:
        host = next(host for host in self._world.brokers if host.name == name)
        broker = self._world.running(host)
        assert isinstance(broker, Broker), f"{name} does not run"
        return broker

    def _has_ended(self) -> bool:
        """Nothing runs in the processes of consumers but their programs, which sleep."""
        hosts = [host for host in self._world.network.hosts.values() if host.name.startswith("group-")]
        return all(host.name in self._ended and len(self._world.unfinished(host)) == 1 for host in hosts)

    @staticmethod
    async def _forever() -> None:
        while True:  # noqa: ASYNC110 - with an Event nothing could wake the loop
            await asyncio.sleep(3_600)


async def started(client: Any, here: Here, is_over: Any = lambda: False) -> bool:
    """Start a client, again and again while its servers are away. False: ``is_over()`` first."""
    while not is_over():
        try:
            await client.start()
        except (rmq.NetworkError, rmq.RemoteError, rmq.RequestTimeout) as error:
            here.world.note(f"{here.name} does not start: {type(error).__name__}")
            await asyncio.sleep(1)
        else:
            return True
    return False
