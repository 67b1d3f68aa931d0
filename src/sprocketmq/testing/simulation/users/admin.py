# SPDX-License-Identifier: Apache-2.0
"""An administrator, who changes topics, moves groups and looks at messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, Final

import sprocketmq as rmq
from sprocketmq.core.resource_names import retry_topic
from sprocketmq.testing.simulation.users.user import User
from sprocketmq.wire.records.record import decode_records

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.random_users import RandomUsers
    from sprocketmq.testing.simulation.world import Here

_LIMIT_MS: Final = 30_000
_MOST_QUEUES: Final = 16
_WRITE, _READ, _READ_WRITE = 2, 4, 6


class Admin(User):
    """``ACTS``: what it does, by the features that ask for it."""

    def __init__(self, users: RandomUsers, here: Here) -> None:
        super().__init__(users, here)
        self._admin = here.admin()

    async def run(self) -> None:
        mine = [act for name, act in self.ACTS.items() if name in self.has]
        await self.started(self._admin)
        tasks = self.world.unfinished(self.here.host)
        while not self.users.is_ending:
            await self.users.pause(self.rng.expovariate(1 / 5))
            act = Admin._expire if Admin._expire in mine and self._a_disk_is_full() else self.rng.choice(mine)
            with self.noting(act.__name__[1:]):
                await self.ended_in(_LIMIT_MS, act.__name__[1:], act(self))
            await self.check_tasks(tasks, goes_on=True)
        for topic in sorted(self.ledger.altered.keys() - self.ledger.doomed):
            await self._restore(topic)
        await self._admin.shutdown()
        await self.ends()

    def _moved(self) -> None:
        for group in self.users.groups:
            group.moves()

    async def _reset(self) -> None:
        """Back, to messages that the group has finished."""
        group = self.rng.choice(self.users.groups)
        topic = self.rng.choice(sorted(group.filters))
        if group.broadcasts or topic in self.ledger.doomed:
            return
        queues = await self._admin.queues(topic)
        if not queues:  # none may be read now
            return
        queue = self.rng.choice(queues)
        committed = await self._admin.consumer_offset(group.name, queue)
        if committed:
            offset = self.rng.randint(max(0, committed - 20), committed)
            self._moved()
            await self._admin.reset_offset(group.name, queue, offset)
            self._moved()
            self.world.note(f"admin: {group} is at {offset} of {queue} again, after {committed}")

    async def _change_queues(self) -> None:
        """More queues to read; or, until the end, fewer, or none that may be read or written."""
        topic = self.rng.choice(self.ledger.topics)
        found = max((config.read_queue_nums for config in (await self._admin.topic_config(topic)).values()), default=1)
        most = self.ledger.altered.setdefault(topic, found)
        read = min(_MOST_QUEUES, most + self.rng.choice([0, 1, 4]))
        self.ledger.altered[topic] = read
        read = self.rng.choice([read, read, self.rng.randint(1, read)])
        await self._alter(topic, read, self.rng.choice([_READ_WRITE, _READ_WRITE, _READ, _WRITE]))

    async def _restore(self, topic: str) -> None:
        altered = 0
        while altered < len(self.world.brokers):  # not all may be in the route yet
            with self.noting(f"{topic} is not as it was yet"):
                altered = await self._alter(topic, self.ledger.altered[topic], _READ_WRITE)
            await asyncio.sleep(1)

    async def _alter(self, topic: str, read: int, perm: int) -> int:
        """Returns at how many brokers."""
        self._moved()
        self.ledger.configs.pop(topic, None)  # until this is acknowledged
        write = self.rng.randint(1, read)
        configs = await self._admin.alter_topic(topic, read_queues=read, write_queues=write, perm=perm)
        if topic not in self.ledger.doomed:
            self.ledger.configs[topic] = configs
        self._moved()
        self.world.note(f"admin: {topic} has {read} queues, and permission {perm}")
        return len(configs)

    async def _delete_topic(self) -> None:
        topic = self.rng.choice(sorted(self.ledger.doomed))
        self._moved()
        if self.rng.random() < 0.5:
            await self._admin.create_topic(topic, queues=self.rng.choice([1, 2, 4]))
        else:
            began_s = self.world.loop.time()
            await self._admin.delete_topic(topic)
            self.ledger.deleted(topic, began_s)
        self._moved()

    async def _delete_group(self) -> None:
        """With its retries, and perhaps its progress. Its members make it again."""
        group = self.rng.choice(self.users.groups)
        group.loses_retries = True
        self.world.deleted_topics.add(retry_topic(group.name))
        self._moved()
        try:
            await self._admin.delete_group(group.name, remove_offsets=self.rng.random() < 0.5)
        finally:
            self._moved()
            group.committed.clear()
        self.world.note(f"admin: {group} was deleted")

    async def _expire(self) -> None:
        with contextlib.suppress(rmq.RocketMQError):  # a full disk takes no change, and it may be so already
            await self._admin.update_broker_config({"fileReservedTime": 0}, cluster="DefaultCluster")
        await self._admin.delete_expired_commit_logs(cluster="DefaultCluster")

    def _a_disk_is_full(self) -> bool:
        return any(disk.free_bytes is not None for disk in self.world.disks.values())

    async def _read(self) -> None:
        """A message that was acknowledged, by its place and by its key."""
        keys = [*self.ledger.sent]
        sent = self.ledger.sent[self.rng.choice(keys)] if keys else None
        if sent is None or not sent.places or sent.topic in self.ledger.doomed:
            return
        queue, offset = sent.places[0]
        if self.rng.random() < 0.3:
            await asyncio.to_thread(self._read_queue, queue, offset)
            return
        await self._admin.consume_queue(queue, self.rng.randint(0, offset))
        message = await self._admin.message_at(queue, offset)
        if (message is None or message.body != sent.body) and not self.ledger.may_be_lost(sent):
            self.ledger.breaks(
                f"{sent.key} was acknowledged at {queue}, offset {offset}, and an admin reads {message!r}"
            )

    def _read_queue(self, queue: rmq.MessageQueue, offset: int) -> None:
        """What a bulk reader makes of the queue's beginning: each offset once, in order."""
        at = 0
        ranges = [(queue, 0, offset + 1)]
        with rmq.QueueReader(
            self.world.namesrv_addr, "readers", ranges, retry_timeout_ms=10_000, timeout_ms=3_000
        ) as reader:
            for chunk in reader:
                bodies = [one for one in decode_records(chunk.body) if chunk.start <= one.queue_offset < chunk.end]
                if chunk.start != at or [one.queue_offset for one in bodies] != list(range(chunk.start, chunk.end)):
                    self.ledger.breaks(
                        f"a reader of {queue} got {chunk.start} to {chunk.end} after {at}: {len(bodies)} messages"
                    )
                for message in bodies:
                    self.ledger.of(message)
                at = chunk.end

    ACTS: ClassVar[dict[str, Callable[[Admin], Awaitable[None]]]] = {
        "resets": _reset,
        "queue changes": _change_queues,
        "doomed topics": _delete_topic,
        "reads": _read,
        "retention": _expire,
        "doomed groups": _delete_group,
    }
