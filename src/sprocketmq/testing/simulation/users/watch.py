# SPDX-License-Identifier: Apache-2.0
"""What must be true at each moment, looked at each second; and what must be left at the end."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.random_users import RandomUsers

# After the last cause: progress is written, members that are gone are forgotten, routes and queues are looked up again.
QUIET_AFTER_MS: Final = 180_000
_QUIET_S: Final = 60
# Writes of one host to another in a quiet minute: heartbeats, members and locks of groups whose members still come and go (134 were seen);
# for each queue, pulls that wait for 15 s and progress that is written each 5 s; each second the route of a topic that is not there.
_QUIET_WRITES: Final = 240
_QUIET_WRITES_OF_QUEUE: Final = 24
_QUIET_WRITES_OF_MISSING: Final = 66
# Callbacks a second of a broker or client with nothing to do. A broker flushes and asks for pulls that have waited long enough; eight
# members of three groups with 30 queues take 62.
_QUIET_STEPS: Final = 90
_LOCK_S: Final = 90.0
_HEARTBEATS_S: Final = 65.0  # two periods of 30 s, and the time of a request
_SETTLED_S: Final = 150.0
_ANSWERED_S: Final = 60.0  # the longest limit of a client is 30 s


class Watch:
    def __init__(self, users: RandomUsers) -> None:
        self._users, self._ledger, self._world = users, users.ledger, users.world
        self._rng = users.world.draws.stream("watch")
        self._consume_s: dict[ClientInstance, float] = {}  # since when each instance has a consumer

    async def run(self) -> None:
        while not self._users.is_over:
            await asyncio.sleep(1)
            self._ledger.look()
            self._ledger.check_tables()
            self.check_progress()
            self._check_locks()
            self._ledger.check_begins()
            self._check_index()
            self._check_heartbeats()
            self._check_space()
            self._check_answers()

    def check_progress(self) -> None:
        for broker in self._ledger.brokers():
            for group in self._users.groups:
                for topic in () if group.broadcasts else sorted({*group.topics} - self._ledger.doomed):
                    config = broker.topics.get(topic)
                    for queue_id in range(0 if config is None else config.read_queue_nums):
                        committed = broker.offsets.query(group.name, topic, queue_id)
                        group.check_progress(MessageQueue(topic, broker.config.broker_name, queue_id), committed)

    def _check_index(self) -> None:
        """Ask for one message, also in the middle of a repair."""
        if self._ledger.sent:
            self._ledger.check_index([self._ledger.sent[f"m{self._rng.randint(1, len(self._ledger.sent))}"]])

    def _check_locks(self) -> None:
        """Two members that would begin a queue's next message now."""
        holders: dict[tuple[str, MessageQueue], str] = {}
        now_s = self._world.loop.time()
        for member in self._users.members.values():
            running = getattr(member.consumer, "_running", None)
            is_there = member.process.is_running and member.process is member.here.host.process
            if not member.group.orderly or running is None or not is_there:
                continue
            for queue, process_queue in running.rebalancer.held().items():
                if process_queue.dropped or not process_queue.lock.is_valid(member.here.host.clock.steady_ms()):
                    continue
                other = holders.setdefault((member.group.name, queue), member.here.name)
                if other != member.here.name and not self._ledger.has_restarted(queue.broker_name, now_s - _LOCK_S):
                    self._ledger.breaks(f"{other} and {member.here.name} both hold the lock of {queue}")

    def _check_heartbeats(self) -> None:
        """A broker hears of each client that consumes and can reach it. Of one that has left, it may still have a half-open connection, on
        which nobody told it so."""
        network, now_s = self._world.network, self._world.loop.time()
        since_s = now_s - _SETTLED_S
        self._consume_s = {
            instance: self._consume_s.get(instance, now_s)
            for instance in ClientInstance._instances.values()
            if instance._loop is self._world.loop and instance._consumers
        }
        consume_s = {instance.client_id: begun_s for instance, begun_s in self._consume_s.items()}
        for broker in self._ledger.brokers():
            name = broker.config.broker_name
            at = self._ledger.host_of(name)
            if self._ledger.was_away(at, since_s):
                continue
            heard_ms: dict[str, int] = {}
            for group in broker.consumers.groups.values():
                for member in group.members.values():
                    heard_ms[member.client_id] = max(heard_ms.get(member.client_id, 0), member.last_update_ms)
            for client_id, at_ms in heard_ms.items():
                host = next(host for host in network.hosts if host.address == client_id.partition("@")[0])
                consumes_s = now_s - consume_s.get(client_id, now_s)
                silent_s = min(consumes_s, (broker.clock.steady_ms() - at_ms) / 1000)
                if (
                    silent_s > _HEARTBEATS_S
                    and client_id.endswith(f"{host.name}-{self._world.lives[host]}")
                    and host.process.is_running
                    and not self._ledger.was_cut_off(host, since_s)
                    and network.times_forgotten(host, at, since_s) < 2  # one heartbeat each
                ):
                    self._ledger.breaks(
                        f"{name} has not heard of {client_id} for {silent_s:.0f} s, and nothing is between them"
                    )

    def _check_space(self) -> None:
        """A page that is written without space ends the process, when the disk is full."""
        if self._ledger.kinds.isdisjoint({"full", "short"}):
            return
        for broker in self._ledger.brokers():
            for file in broker.store.commit_log.files.files[-2:]:
                if isinstance(file, MappedFile) and file.room:
                    fd = os.open(file.path, os.O_RDONLY)
                    hole = os.lseek(fd, 0, os.SEEK_HOLE)
                    os.close(fd)
                    if hole < file.room:
                        self._ledger.breaks(
                            f"{broker.config.broker_name} writes up to {file.room} in a file of its log, and space is reserved up to {hole}"
                        )

    def _check_answers(self) -> None:
        """What a process has read is answered, when it may write."""
        now_s = self._world.loop.time()
        for host in self._world.network.hosts:
            for end in host.ends if host.process.is_running else ():
                for opaque, read_s in end.unanswered_s.items():
                    if not end.owes_answers:
                        end.unanswered_s[opaque] = now_s
                    elif now_s - read_s - host.process.frozen_ms_since(read_s) / 1000 > _ANSWERED_S:
                        self._ledger.breaks(f"{host} has not answered request {opaque} of {end.peer.process.host}")

    # -- the end -----------------------------------------------------------------------------------------------------------------

    async def check_quiet(self) -> None:
        """With nothing to do, clients and brokers do nearly nothing."""
        await asyncio.sleep(QUIET_AFTER_MS / 1000)
        loop, network = self._world.loop, self._world.network
        steps, count, before = loop.steps, len(network.hosts), Counter(network.sent)
        await asyncio.sleep(_QUIET_S)
        each = (loop.steps - steps) / _QUIET_S / count
        if each > _QUIET_STEPS:
            self._ledger.breaks(f"nothing is left to do, and each of {count} hosts takes {each:.0f} steps a second")
        for (sender, receiver), writes in (network.sent - before).items():
            most = self._most_quiet_writes({sender.name, receiver.name})
            if writes > most:
                self._ledger.breaks(
                    f"nothing is left to do, and {sender} has written {writes} times to {receiver} in {_QUIET_S} s; {most} is the most"
                )

    def _most_quiet_writes(self, names: set[str]) -> int:
        """From one of two hosts to the other."""
        queues = sum(
            config.read_queue_nums
            for broker in self._ledger.brokers()
            if broker.config.broker_name in names
            for group in self._users.groups
            if not names.isdisjoint(group.members)
            for topic in group.topics
            if (config := broker.topics.get(topic)) is not None
        )
        return _QUIET_WRITES + _QUIET_WRITES_OF_QUEUE * queues + _QUIET_WRITES_OF_MISSING * len(self._ledger.doomed)

    def left(self) -> list[str]:
        """What is left of users who have gone."""
        left = [
            f"the instance {instance.client_id}"
            for instance in ClientInstance._instances.values()
            if instance._loop is self._world.loop
        ]
        for broker in self._ledger.brokers():
            counts = {
                "connections": broker.connection_count,
                "parked pulls": len(broker.parked),
                "locks": len(broker.locks),
                "consumer groups": len(broker.consumers.groups),
                "producer groups": len(broker.producers.groups),
            }
            left += [f"{count} {what} at {broker.config.broker_name}" for what, count in counts.items() if count]
        return left
