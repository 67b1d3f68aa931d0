# SPDX-License-Identifier: Apache-2.0
"""The program of a run: which users there are, and when it is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sprocketmq.testing.simulation.loop import SimulationError
from sprocketmq.testing.simulation.users.admin import Admin
from sprocketmq.testing.simulation.users.group import ALL, Filter, Group, drawn_filter
from sprocketmq.testing.simulation.users.ledger import Ledger, Sent
from sprocketmq.testing.simulation.users.member import (
    SHUTDOWN_MS,
    AssignedMember,
    Guest,
    IteratorMember,
    Member,
    PullMember,
    PushMember,
)
from sprocketmq.testing.simulation.users.sender import Sender
from sprocketmq.testing.simulation.users.watch import Watch

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Host
    from sprocketmq.testing.simulation.world import Here, World

_MEMBERS: Final[dict[str, type[Member]]] = {
    "concurrent": PushMember,
    "orderly": PushMember,
    "iterating": IteratorMember,
    "orderly iterating": IteratorMember,
    "pulling": PullMember,
    "assigned": AssignedMember,
    "broadcasting": PushMember,
}
FEATURES: Final = (
    # sends
    "batches",
    "auto-batches",
    "ordered",
    "delays",
    "timers",
    "recalls",
    "one-way",
    "futures",
    "transactions",
    "requests",
    "big",
    *_MEMBERS,
    # what their members do
    "blocking",
    "filters",
    "dead letters",
    "odd failures",
    "timeouts",
    "callbacks",
    "pauses",
    "subscriptions",
    "seeks",
    "cancels",
    "guests",
    *Admin.ACTS,
)
# Without one of these, a feature has nobody who could do it.
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "auto-batches": ("futures",),
    "recalls": ("timers",),
    "requests": ("concurrent", "iterating"),
    "blocking": ("concurrent", "orderly"),
    "dead letters": ("concurrent", "iterating"),
    "timeouts": ("concurrent", "iterating"),
    "guests": ("concurrent",),
    "cancels": ("iterating",),
    "seeks": ("assigned",),
}
# Brokers forget members and connections of which they have heard nothing for 120 s, and look for them every 10 s.
_CALM_AFTER_MS: Final = 150_000
_AFTER_MS: Final = 60 * 60_000
_PROOFS_MS: Final = 10 * 60_000
_COMMITTED_MS: Final = 30 * 60_000  # what was delivered again is still being handled
_FORGOTTEN_MS: Final = 4 * 60_000  # brokers wait for 120 s for what has lost its power


class RandomUsers:
    """``messages``: how many are sent. ``pace``: how many times as long users wait and stay. Call it as the program of
    :func:`simulate`, with brokers of :attr:`CONFIG`."""

    CONFIG: ClassVar[dict[str, str]] = {
        "enablePropertyFilter": "true",
        "recallMessageEnable": "true",
        # Open transactions are asked about as long as the trouble lasts.
        "transactionCheckInterval": "5000",
        "transactionTimeOut": "3000",
        "transactionCheckMax": "10000",
    }

    world: World
    ledger: Ledger
    _watch: Watch

    def __init__(self, messages: int = 400, pace: float = 1) -> None:
        self._messages, self.pace = messages, pace
        self.features: frozenset[str] = frozenset()
        self.groups: list[Group] = []
        self.members: dict[str, Member] = {}  # by host
        self.listener_s: list[float] = []  # how long a call takes on average
        self.stay_s = 0.0  # how long a member stays on average
        self.is_ending = False  # all is sent; from now on users only finish
        self.is_over = False
        self.is_calm = False  # the trouble is over, and so are its effects
        self._hosts: list[Host] = []
        self.sending: set[str] = set()  # names of hosts
        self.unproved: set[str] = set()
        self.ended: set[str] = set()
        self._open: list[tuple[Group, Sent]] = []  # what groups have not finished
        self._unstored: list[Sent] = []

    async def __call__(self, world: World) -> None:
        self.world, draws = world, world.draws
        self._messages = draws.size("messages", self._messages)
        features = draws.some("features", FEATURES, draws.choice("share of features", [0.1, 0.3]))
        if draws.given_list("features") is None:
            rng = draws.stream("needs")
            if "full" in world.sky.kinds and rng.random() < 0.5:  # an administrator makes room
                features.append("retention")
            lacking = [needs for name, needs in _NEEDS.items() if name in features and not {*needs} & {*features}]
            features = draws.keep("features", [*features, *(rng.choice(needs) for needs in lacking)])
        self.features = frozenset(features)
        world.note(f"users with {', '.join(sorted(self.features))}")
        self.ledger = Ledger(world)
        self.ledger.expires = "retention" in self.features
        self.listener_s = draws.stream("listeners").sample([0.001, 0.02, 0.2, 2, 6], 2)
        self.stay_s = draws.choice("stay_s", [10_000.0, 60.0, 30.0])
        await self._make_topics()
        for number in range(draws.number("producers", 1, 2)):
            self.sending.add(f"producer-{number}")
            self._start(f"producer-{number}", Sender)
        self.unproved = set(self.sending)
        self._make_groups()
        if Admin.ACTS.keys() & self.features:
            self._start("admin", Admin)
        self._watch = Watch(self)
        watching = asyncio.ensure_future(self._watch.run())
        watching.add_done_callback(partial(world.fail_with, whose="the watch"))
        await self._until(lambda: not self.sending, 4 * 3_600_000 * self.pace, "the producers end")
        await self._end()
        watching.cancel()

    def _start(self, name: str, program: Callable[[RandomUsers, Here], Sender | Admin | Member]) -> None:
        self._hosts.append(self.world.start(name, lambda here: program(self, here).run()))

    async def _make_topics(self) -> None:
        draws = self.world.draws
        for number in range(draws.number("topics", 1, 3)):
            topic = f"topic-{number}"
            self.ledger.topics.append(topic)
            await self.world.topic(topic, draws.choice(f"queues of {topic}", [1, 2, 4, 8]))
        if "doomed topics" in self.features:
            self.ledger.topics.append("doomed")
            self.ledger.doomed.add("doomed")
            self.world.deleted_topics.add("doomed")
            await self.world.topic("doomed", 2)

    def _make_groups(self) -> None:
        draws = self.world.draws
        drawn = [kind for kind in _MEMBERS if kind in self.features] or ["concurrent"]
        for number, kind in enumerate(draws.stream("groups").sample(drawn, min(3, len(drawn)))):
            name = f"group-{number}"
            topics = [topic for topic in self.ledger.topics if kind != "assigned" or topic not in self.ledger.doomed]
            group = Group(
                self.ledger, self.features, name, kind, self._filters(draws.stream(f"filters of {name}"), topics)
            )
            self.groups.append(group)
            for member in range(1 if kind == "assigned" else draws.number(f"members of {name}", 1, 3)):
                group.members.append(f"{name}-{member}")
                self._start(group.members[-1], partial(self._member, group))
            if "guests" in self.features and kind == "concurrent":
                self._start(f"{name}-guest", partial(Guest, group))

    def _filters(self, rng: random.Random, topics: list[str]) -> dict[str, Filter]:
        topics = rng.sample(topics, min(len(topics), rng.randint(1, 2)))
        return {
            topic: drawn_filter(rng) if "filters" in self.features and rng.random() < 0.7 else ALL for topic in topics
        }

    def _member(self, group: Group, users: RandomUsers, here: Here) -> Member:
        member = self.members[here.name] = _MEMBERS[group.kind](group, users, here)
        return member

    # -- asked by users ----------------------------------------------------------------------------------------------------------

    @property
    def all_sent(self) -> bool:
        return len(self.ledger.sent) >= self._messages

    async def pause(self, s: float) -> None:
        """Do nothing, for so long at this run's pace, or until the users only finish."""
        end_s = self.world.loop.time() + s * self.pace
        while not self.is_ending and (left_s := end_s - self.world.loop.time()) > 0:  # noqa: ASYNC110 - two conditions
            await asyncio.sleep(min(left_s, 1 + left_s / 50))

    @property
    def answered_topics(self) -> list[str]:
        """Topics whose requests somebody answers."""
        if "requests" not in self.features or "blocking" in self.features:
            return []
        filters = [group.filters for group in self.groups if group.is_concurrent]
        topics = {topic for each in filters for topic, wanted in each.items() if wanted is ALL}
        return sorted(topics - self.ledger.doomed)

    # -- the end -----------------------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        world, ledger = self.world, self.ledger
        self.is_ending = True
        world.sky.clear()
        world.note("the trouble is over")
        await world.all_up()
        ledger.calm_from_s = world.loop.time()
        await self._finish()
        await world.sleep(max(0.0, _CALM_AFTER_MS - (world.loop.time() - ledger.calm_from_s) * 1000))
        await self._finish()  # what was sent meanwhile
        self.is_calm = True
        await self._until(lambda: not self.unproved, _PROOFS_MS, "producers have proved that all is well")
        await self._finish()
        ledger.check_stored()
        await self._until(ledger.is_indexed, _AFTER_MS, "every record is in the index")
        ledger.check_index(ledger.sent.values())
        await self._until(lambda: not self._uncommitted(), _COMMITTED_MS, "the progress of every group is committed")
        self._watch.check_progress()
        await self._watch.check_quiet()
        self.is_over = True
        await self._until(self._has_ended, SHUTDOWN_MS, "every user has ended, and no task is left")
        await self._until(
            lambda: not self._watch.left(), _FORGOTTEN_MS, "brokers and processes forget users who have left"
        )

    async def _finish(self) -> None:
        self._open = [(group, sent) for group in self.groups for sent in self.ledger.sent.values()]
        self._unstored = [*self.ledger.sent.values()]
        await self._until(self._is_done, _AFTER_MS, "every group finishes every acknowledged message")

    async def _until(self, condition: Any, limit_ms: float, what: str) -> None:
        def holds() -> bool:
            if self.ledger.broken is not None:
                raise self.ledger.broken
            return bool(condition())

        try:
            await self.world.until(holds, limit_ms, what)
            holds()
        except SimulationError as error:
            if self.ledger.broken is None:
                error.add_note("\n".join(self._missing()))
            raise

    def _missing(self) -> list[str]:
        lacks = [f"{group} lacks {sent.key} of {sent.topic} at {sent.places}" for group, sent in self._open[:10]]
        unstored = [f"{sent.key} of {sent.topic} is not stored" for sent in self._unstored[:10]]
        missing = [*lacks, f"{len(self._open)} in all", *self._uncommitted()[:10], *unstored]
        if self.is_over:
            missing += [host.name for host in self._hosts if host.name not in self.ended]
            missing += [f"{host}: {task!r}" for host in self._hosts for task in self.world.unfinished(host)[1:4]]
            missing += self._watch.left()
        return missing

    def _is_done(self) -> bool:
        for group in self.groups:
            group.read_dead_letters()
        self.ledger.look()
        self._open = [(group, sent) for group, sent in self._open if group.lacks(sent)]
        self._unstored = [sent for sent in self._unstored if not self.ledger.is_stored(sent)]
        return not self._open and not self._unstored

    def _uncommitted(self) -> list[str]:
        found: list[str] = []
        for group in self.groups:
            if group.broadcasts:
                continue
            for broker, queue in self.ledger.queues():
                if queue.topic in group.filters:
                    end = broker.store.max_offset(queue.topic, queue.queue_id)
                    committed = broker.offsets.query(group.name, queue.topic, queue.queue_id)
                    if end and committed != end:
                        found.append(f"{group} has committed {committed} of {queue}, which ends at {end}")
        return found

    def _has_ended(self) -> bool:
        """Nothing runs in the processes of users but their programs, which sleep."""
        return all(host.name in self.ended and len(self.world.unfinished(host)) == 1 for host in self._hosts)
