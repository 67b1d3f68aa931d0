# SPDX-License-Identifier: Apache-2.0
"""What users have sent, and what RocketMQ promised them about it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import sprocketmq as rmq
from sprocketmq.broker import Broker
from sprocketmq.testing.simulation.loop import SimulationError
from sprocketmq.wire.bodies import TopicConfig
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Host, Process
    from sprocketmq.testing.simulation.world import World

_TAGS: Final = ("A", "B", "C")
_READ_BYTES: Final = 1 << 20
_HARD_OF_HEARING: Final = {"narrow", "deaf", "refusals", "moves"}
_MOST_PROPERTIES_BYTES: Final = 32_767
# A timer message is delivered when its second is over; of a delay level the broker's clock counts milliseconds.
EARLY_S: Final = 0.002


@dataclass(slots=True, eq=False)
class Sent:
    """A message that somebody tried to send. ``due_s``: no listener may have it before. ``decision`` of a transaction: None until its
    producer's data has one. ``places``: where answers said that it is."""

    key: str
    topic: str
    body: bytes
    tag: str
    number: int
    began_s: float
    is_acknowledged: bool = False
    acknowledged_s: float = 0.0
    places: list[tuple[MessageQueue, int]] = field(default_factory=list)
    due_s: float = 0.0
    is_transaction: bool = False
    decision: rmq.LocalTransactionState | None = None
    is_padded: bool = False  # its properties are near the most that a record may have
    is_recalled: bool = False  # perhaps
    is_gone: bool = False  # recalled in time, which was answered
    is_durable: bool = False  # the disk has it
    is_sent_twice: bool = False  # a try was not answered: it may be stored once more
    is_deleted: bool = False  # with its topic
    asker: Process | None = None  # who waits for a reply

    @property
    def is_promised(self) -> bool:
        """Every group that wants it gets it."""
        if self.is_transaction:  # the half of a decided transaction is asked about until it ends
            return self.decision is rmq.LocalTransactionState.COMMIT_MESSAGE
        return self.is_acknowledged and not self.is_recalled

    @property
    def is_forbidden(self) -> bool:
        """Nobody may get it."""
        return self.is_gone or (self.is_transaction and self.decision is not rmq.LocalTransactionState.COMMIT_MESSAGE)


class Ledger:
    """``doomed``: topics that are deleted while they are used; nothing is promised about their messages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: dict[str, Sent] = {}
        self.topics: list[str] = []
        self.doomed: set[str] = set()
        self.altered: dict[str, int] = {}  # topics, and how many queues each has when nobody alters it
        self.configs: dict[str, dict[str, TopicConfig]] = {}  # what was acknowledged of them, by topic and broker
        self._begins: dict[tuple[MessageQueue, int], int] = {}  # by queue and boot of its host
        self.expires = False  # files of the log are deleted as soon as the next one has begun
        self.broken: Exception | None = None
        self.kinds = frozenset(world.sky.kinds)
        self.calm_from_s = math.inf if self.kinds - {"spikes"} else -math.inf
        self._lives: dict[str, object] = {host.name: world.running(host) for host in world.brokers}
        self._restarted_s: dict[str, float] = {}
        self.starts: Counter[str] = Counter()  # of each broker
        self._found: dict[str, set[tuple[MessageQueue, int]]] = {}  # queues and offsets, by key
        self._looked: dict[MessageQueue, int] = {}  # up to which offset

    def breaks(self, text: str) -> None:
        """A rule is broken; the first one ends the run."""
        if self.broken is None:
            self.world.note(f"broken: {text}")
            self.broken = SimulationError(text)

    # -- what excuses users ------------------------------------------------------------------------------------------------------

    def note_lives(self) -> None:
        """Note which brokers have started again."""
        for host in self.world.brokers:
            server = self.world.running(host)
            if self._lives.get(host.name) is not server:
                self._lives[host.name] = server
                self._restarted_s[host.name] = self.world.loop.time()
                self.starts[host.name] += 1
                # It may have lost the end of its log, and give the same offsets to other messages.
                self._looked = {queue: end for queue, end in self._looked.items() if queue.broker_name != host.name}
                for places in self._found.values():
                    places.difference_update([place for place in places if place[0].broker_name == host.name])

    def has_restarted(self, name: str, since_s: float) -> bool:
        self.note_lives()
        return self._restarted_s.get(name, 0.0) >= since_s

    def was_away(self, host: Host, since_s: float) -> bool:
        """Whether a broker has restarted, stood still or could not be reached."""
        return (
            not self.kinds.isdisjoint(_HARD_OF_HEARING)
            or self.has_restarted(host.name, since_s)
            or self.was_cut_off(host, since_s)
        )

    def was_cut_off(self, host: Host, since_s: float) -> bool:
        """Whether there was a wall between it and another one, or its process has stood still or read nothing."""
        process = host.process
        return (
            self.world.network.was_walled(host, since_s)
            or process.frozen_ms_since(since_s) > 0
            or process.was_deaf_since(since_s)
        )

    def hears_late(self, name: str, senders: Collection[str], since_s: float) -> bool:
        """Whether a broker may get now what hosts had sent it before: a wall has fallen, or one of them goes on after a freeze."""
        network = self.world.network
        return "narrow" in self.kinds or any(
            host.process.went_on_since(since_s) or (host.name == name and network.wall_fell_since(host, since_s))
            for host in network.hosts
            if host.name in (name, *senders)
        )

    def is_calm_since(self, since_s: float) -> bool:
        return since_s >= self.calm_from_s

    # -- messages ----------------------------------------------------------------------------------------------------------------

    def attempt(
        self, topic: str, rng: random.Random, *, big: bool = False, filler_bytes: int = 0, **more: object
    ) -> tuple[Sent, rmq.Message]:
        """A new message, which the caller will try to send."""
        number = len(self.sent) + 1
        key = f"m{number}"
        filler = rng.randbytes(4) * rng.choice([1, 1_100, 9_000]) if big else b""
        filler = rng.randbytes(filler_bytes) if filler_bytes else filler  # which nothing compresses
        sent = Sent(key, topic, b"%s:%s" % (key.encode(), filler), rng.choice(_TAGS), number, self.world.loop.time())
        self.sent[key] = sent
        properties = {"number": str(number)}
        if big and rng.random() < 0.05:  # near the most that a record may have, or too many
            sent.is_padded = True
            properties["pad"] = "-" * (_MOST_PROPERTIES_BYTES - rng.randint(0, 700))
        return sent, rmq.Message(topic, sent.body, keys=key, tags=sent.tag, properties=properties, **more)  # type: ignore[arg-type]

    def of(self, message: MessageExt) -> Sent:
        """What was sent as ``message``. If nobody sent it, or other bytes, the rule is broken."""
        sent = self.sent.get(message.body.partition(b":")[0].decode(errors="replace"))
        if sent is None or sent.body != message.body:
            self.breaks(f"{message.body[:40]!r} of {message.topic} was received, and nobody sent it")
            return Sent("", message.topic, message.body, "", 0, self.world.loop.time())
        return sent

    def acknowledged(self, sent: Sent, result: rmq.SendResult, index: int = 0, *, is_at_place: bool = True) -> None:
        """``is_at_place``: the answer says where consumers find it."""
        sent.is_acknowledged = True
        sent.acknowledged_s = self.world.loop.time()
        sent.is_durable = self.world.is_sync_flush and result.status is rmq.SendStatus.SEND_OK
        if is_at_place:
            sent.places.append((result.message_queue, result.queue_offset + index))

    def may_be_lost(self, sent: Sent) -> bool:
        """Whether a promised message may be missing in the store, and so for groups that have not had it. All excuses are here: its
        topic is deleted now and then; its file has expired; a power cut took what the disk was not said to have (an answer under
        SYNC_FLUSH says that it has); or it came to an offset that a lost one had before, so that a group has passed it."""
        if sent.topic in self.doomed or (self.expires and not self._is_kept(sent)):
            return True
        losses = self.world.losses.values()
        if not sent.is_durable and any(sent.body in each.at_risk for each in losses):
            return True
        return any(
            sent.body in each.skipped(broker.store)
            for name, each in self.world.losses.items()
            if each.at_risk and (broker := self.running_broker(name)) is not None
        )

    def _is_kept(self, sent: Sent) -> bool:
        """Whether its queue has always begun before it: a power cut may bring an expired file back, and groups have passed it."""
        return bool(sent.places) and all(
            (broker := self.running_broker(queue.broker_name)) is not None
            and broker.store.min_offset(queue.topic, queue.queue_id) <= offset
            and self._largest_begin(queue) <= offset
            for queue, offset in sent.places
        )

    def _largest_begin(self, queue: MessageQueue) -> int:
        boots = self.world.disks[self.host_of(queue.broker_name)].boots
        return max(self._begins.get((queue, boot), 0) for boot in range(boots + 1))

    def running_broker(self, name: str) -> Broker | None:
        return next((broker for broker in self.brokers() if broker.config.broker_name == name), None)

    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [
            broker
            for host in self.world.brokers
            if isinstance(broker := self.world.running(host), Broker) and broker.is_running
        ]

    def host_of(self, name: str) -> Host:
        return next(host for host in self.world.brokers if host.name == name)

    def queues(self) -> Iterator[tuple[Broker, MessageQueue]]:
        """Of running brokers, those of which something is promised."""
        for broker in self.brokers():
            for topic, queue_id in broker.store.queues():
                if topic in self.topics and topic not in self.doomed:
                    yield broker, MessageQueue(topic, broker.config.broker_name, queue_id)

    def stored(self, queue: MessageQueue, begin: int, end: int) -> Iterator[tuple[int, Sent]]:
        """Offsets and messages of a part of a queue; nothing if its broker does not run."""
        broker = self.running_broker(queue.broker_name)
        while broker is not None and begin < end:
            found = broker.store.read(queue.topic, queue.queue_id, begin, end - begin, _READ_BYTES)
            for message in (message for chunk in found.chunks for message in decode_records(chunk)):
                if message.queue_offset < end:
                    yield message.queue_offset, self.of(message)
            if found.next_offset <= begin:
                break
            begin = found.next_offset

    # -- tables ------------------------------------------------------------------------------------------------------------------

    def deleted(self, topic: str, began_s: float) -> None:
        """The deletion of a topic was acknowledged. What was acknowledged before it is gone, if all brokers took part."""
        brokers = self.brokers()
        if len(brokers) == len(self.world.brokers) and all(broker.topics.get(topic) is None for broker in brokers):
            for sent in self.sent.values():
                if sent.topic == topic and 0 < sent.acknowledged_s < began_s and sent.places and not sent.is_sent_twice:
                    sent.is_deleted = True

    def check_tables(self) -> None:
        """What was acknowledged of topics is so, and deleted messages are not there."""
        for broker in self.brokers():
            name = broker.config.broker_name
            for topic, configs in self.configs.items():
                wanted, found = configs.get(name), broker.topics.get(topic)
                if wanted is not None and _numbers(wanted) != _numbers(found):
                    self.breaks(f"{topic} has {found!r} at {name}, and {wanted!r} was acknowledged")
            for topic, queue_id in broker.store.queues() if self.doomed else ():
                if topic in self.doomed:
                    begin, end = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
                    # A deletion that fails midway leaves queues.
                    if begin < end and broker.topics.get(topic) is None and self.kinds.isdisjoint({"errors", "full"}):
                        self.breaks(f"{topic} does not exist at {name}, and its queue {queue_id} has messages")
                    for _, sent in self.stored(MessageQueue(topic, name, queue_id), begin, end):
                        if sent.is_deleted:
                            self.breaks(f"{sent.key} was deleted with {topic}, and {name} has it again")

    def check_begins(self) -> None:
        """What has expired is not there again, unless a power cut undid the deletion of its file."""
        for broker, queue in self.queues():
            key, begin = (
                (queue, self.world.disks[self.host_of(queue.broker_name)].boots),
                broker.store.min_offset(queue.topic, queue.queue_id),
            )
            if begin < self._begins.get(key, 0):
                self.breaks(f"{queue} begins at {begin}, and began at {self._begins[key]}")
            self._begins[key] = begin

    def look(self) -> None:
        """Look at what has been stored since the last time."""
        self.note_lives()
        for broker, queue in self.queues():
            begin, end = self._looked.get(queue, 0), broker.store.max_offset(queue.topic, queue.queue_id)
            if begin >= end:
                continue
            begin = max(begin, broker.store.min_offset(queue.topic, queue.queue_id))
            for offset, sent in self.stored(queue, begin, end):
                if sent.is_forbidden:
                    self.breaks(f"{sent.key} of {queue.topic} is visible, and it was rolled back or recalled")
                self._found.setdefault(sent.key, set()).add((queue, offset))
            self._looked[queue] = end

    def is_stored(self, sent: Sent) -> bool:
        return bool(self._found.get(sent.key)) or not sent.is_promised or self.may_be_lost(sent)

    def check_stored(self) -> None:
        """Each acknowledged message still is where its answer said, with its bytes; and its topic has it once, unless a try was not
        answered."""
        self._found.clear()
        self._looked.clear()
        self.look()
        for sent in self.sent.values():
            places = self._found.get(sent.key, set())
            if not self.is_stored(sent):
                self.breaks(f"{sent.key} of {sent.topic} was acknowledged, and is not stored")
            for queue, offset in sent.places:
                if (queue, offset) not in places and not self.may_be_lost(sent):
                    self.breaks(f"{sent.key} was acknowledged at {queue}, offset {offset}, and is at {sorted(places)}")
            if len(places) > 1 and not sent.is_sent_twice:
                self.breaks(f"{sent.key} of {sent.topic} was sent once and is stored at {sorted(places)}")

    def is_indexed(self) -> bool:
        return not any(broker.store.undispatched_bytes for broker in self.brokers())

    def check_index(self, all_sent: Iterable[Sent]) -> None:
        """A query by key finds each stored message, unless it had expired, and a power cut brought its file back."""
        for sent in all_sent:
            for queue, offset in self._found.get(sent.key, ()):
                broker = self.running_broker(queue.broker_name)
                if (
                    broker is not None
                    and self._largest_begin(queue) <= offset
                    and not broker.store.find_by_key(queue.topic, sent.key, 64, 0, 1 << 62).physical_offsets
                    and not broker.store.undispatched_bytes
                ):
                    self.breaks(f"the index of {queue.broker_name} lacks {sent.key} of {queue.topic}")


def _numbers(config: TopicConfig | None) -> tuple[int, int, int] | None:
    return None if config is None else (config.read_queue_nums, config.write_queue_nums, config.perm)
