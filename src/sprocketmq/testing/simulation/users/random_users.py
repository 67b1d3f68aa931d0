# SPDX-License-Identifier: Apache-2.0
"""The program of a run: which users there are, and when it is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from functools import partial
from pathlib import Path
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
    from sprocketmq.testing.simulation.world import Here, World

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
    # groups
    "concurrent",
    "orderly",
    "iterating",
    "orderly iterating",
    "pulling",
    "assigned",
    "broadcasting",
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
    # administrators
    "resets",
    "queue changes",
    "doomed topics",
    "reads",
    "retention",
    "doomed groups",
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
CALM_AFTER_MS: Final = 150_000
KINDS: Final[dict[str, type[Member]]] = {
    "concurrent": PushMember,
    "orderly": PushMember,
    "iterating": IteratorMember,
    "orderly iterating": IteratorMember,
    "pulling": PullMember,
    "assigned": AssignedMember,
    "broadcasting": PushMember,
}


class RandomUsers:
    """``messages``: how many are sent. ``pace``: how many times as long users wait and stay. ``features``: some of
    :data:`FEATURES`; None draws them. Call it as the program of
    :func:`simulate`, with brokers of :attr:`CONFIG`."""

    CONFIG: ClassVar[dict[str, str]] = {
        "enablePropertyFilter": "true",
        "recallMessageEnable": "true",
        # Open transactions are asked about as long as the trouble lasts.
        "transactionCheckInterval": "5000",
        "transactionTimeOut": "3000",
        "transactionCheckMax": "10000",
    }
    AFTER_MS: ClassVar[float] = 60 * 60_000
    PROOFS_MS: ClassVar[float] = 10 * 60_000
    COMMITTED_MS: ClassVar[float] = 30 * 60_000  # what was delivered again is still being handled
    SHUTDOWN_MS: ClassVar[float] = SHUTDOWN_MS
    FORGOTTEN_MS: ClassVar[float] = 4 * 60_000  # brokers wait for 120 s for what has lost its power

    world: World
    ledger: Ledger

    def __init__(self, messages: int = 400, features: Collection[str] | None = None, pace: float = 1) -> None:
        self._messages, self._features, self.pace = messages, features, pace
        self.features: frozenset[str] = frozenset()
        self.groups: list[Group] = []
        self.members: dict[str, Member] = {}  # by host
        self.listener_s: list[float] = []  # how long a call takes on average
        self.stay_s = 0.0  # how long a member stays on average
        self.is_ending = False  # all is sent; from now on users only finish
        self.is_over = False
        self.is_calm = False  # the trouble is over, and so are its effects
        self._sending: set[str] = set()  # hosts
        self._unproved: set[str] = set()
        self._ended: set[str] = set()
        self._hosts: list[Any] = []
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
        self.features = frozenset(features if self._features is None else self._features)
        world.note(f"users with {', '.join(sorted(self.features))}")
        self.ledger = Ledger(world)
        self.ledger.expires = "retention" in self.features
        self.listener_s = draws.stream("listeners").sample([0.001, 0.02, 0.2, 2, 6], 2)
        self.stay_s = draws.choice("stay_s", [10_000.0, 60.0, 30.0])
        await self._make_topics()
        for number in range(draws.number("producers", 1, 2)):
            self._sending.add(f"producer-{number}")
            self._unproved.add(f"producer-{number}")
            self._hosts.append(world.start(f"producer-{number}", lambda here: Sender(self, here).run()))
        self._make_groups()
        if {"resets", "queue changes", "doomed topics", "reads", "retention", "doomed groups"} & self.features:
            self._hosts.append(world.start("admin", lambda here: Admin(self, here).run()))
        watch = Watch(self)
        watching = asyncio.ensure_future(watch.run())
        watching.add_done_callback(partial(world.fail_with, whose="the watch"))
        await self._until(lambda: not self._sending, 4 * 3_600_000 * self.pace, "the producers end")
        await self._end(watch)
        watching.cancel()

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
        drawn = [kind for kind in KINDS if kind in self.features] or ["concurrent"]
        for number, kind in enumerate(draws.stream("groups").sample(drawn, min(3, len(drawn)))):
            group = Group(
                self.ledger,
                f"group-{number}",
                kind,
                self._filters(
                    draws.stream(f"filters of group-{number}"),
                    [topic for topic in self.ledger.topics if kind != "assigned" or topic not in self.ledger.doomed],
                ),
                retries=2 if "dead letters" in self.features and kind in ("concurrent", "iterating") else None,
            )
            group.is_prompt = kind in ("concurrent", "iterating", "orderly") and not (
                {"pauses", "subscriptions", "callbacks"} & self.features
            )
            group.may_time_out = "timeouts" in self.features and kind in ("concurrent", "iterating")
            self.groups.append(group)
            for member in range(1 if kind == "assigned" else draws.number(f"members of {group.name}", 1, 3)):
                group.members.append(f"{group.name}-{member}")
                self._hosts.append(self.world.start(group.members[-1], partial(self._join, group)))
            if "guests" in self.features and kind == "concurrent":
                self._hosts.append(self.world.start(f"{group.name}-guest", partial(self._visit, group)))

    def _filters(self, rng: random.Random, topics: list[str]) -> dict[str, Filter]:
        topics = rng.sample(topics, min(len(topics), rng.randint(1, 2)))
        return {
            topic: drawn_filter(rng) if "filters" in self.features and rng.random() < 0.7 else ALL for topic in topics
        }

    async def _join(self, group: Group, here: Here) -> None:
        member = self.members[here.name] = KINDS[group.kind](self, group, here)
        await member.run()

    async def _visit(self, group: Group, here: Here) -> None:
        await Guest(self, group, here).run()

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
        answering = [
            group
            for group in self.groups
            if "requests" in self.features
            and "blocking" not in self.features
            and group.kind in ("concurrent", "iterating")
        ]
        return sorted(
            {topic for group in answering for topic, wanted in group.filters.items() if wanted is ALL}
            - self.ledger.doomed
        )

    def has_proved(self, here: Here) -> None:
        self._unproved.discard(here.name)

    def has_sent(self, here: Here) -> None:
        self._sending.discard(here.name)

    def ended(self, here: Here) -> None:
        """The program of a host has nothing more to do."""
        self._ended.add(here.name)

    def dir_of(self, here: Here) -> Path:
        """A directory that outlives the processes of a host."""
        return self.world.dir_of(here.host)

    # -- the end -----------------------------------------------------------------------------------------------------------------

    async def _end(self, watch: Watch) -> None:
        world, ledger = self.world, self.ledger
        self.is_ending = True
        world.sky.clear()
        world.note("the trouble is over")
        await world.all_up()
        ledger.calms_down()
        await self._finish()
        await world.sleep(max(0.0, CALM_AFTER_MS - (world.loop.time() - ledger.calm_from_s) * 1000))
        await self._finish()  # what was sent meanwhile
        self.is_calm = True
        await self._until(lambda: not self._unproved, self.PROOFS_MS, "producers have proved that all is well")
        await self._finish()
        ledger.check_stored()
        await self._until(ledger.is_indexed, self.AFTER_MS, "every record is in the index")
        ledger.check_index(ledger.sent.values())
        await self._until(
            lambda: not self._uncommitted(), self.COMMITTED_MS, "the progress of every group is committed"
        )
        watch.check_progress()
        await watch.check_quiet()
        self.is_over = True
        await self._until(self._has_ended, self.SHUTDOWN_MS, "every user has ended, and no task is left")
        await self._until(
            lambda: not watch.left(), self.FORGOTTEN_MS, "brokers and processes forget users who have left"
        )

    async def _finish(self) -> None:
        self._open = [(group, sent) for group in self.groups for sent in self.ledger.sent.values()]
        self._unstored = [*self.ledger.sent.values()]
        await self._until(self._is_done, self.AFTER_MS, "every group finishes every acknowledged message")

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
        asleep = [host.name for host in self._hosts if host.name not in self._ended] if self.is_over else []
        tasks = (
            [f"{host}: {task!r}" for host in self._hosts for task in self.world.unfinished(host)[1:4]]
            if self.is_over
            else []
        )
        left = Watch(self).left() if self.is_over else []
        unstored = [f"{sent.key} of {sent.topic} is not stored" for sent in self._unstored[:10]]
        return [*lacks, f"{len(self._open)} in all", *self._uncommitted()[:10], *unstored, *asleep, *tasks, *left]

    def _is_done(self) -> bool:
        for group in self.groups:
            group.dead_letters()
        self.ledger.note_lives()
        self.ledger.look()
        self._open = [(group, sent) for group, sent in self._open if group.lacks(sent)]
        self._unstored = [sent for sent in self._unstored if not self.ledger.is_stored(sent)]
        return not self._open and not self._unstored

    def _uncommitted(self) -> list[str]:
        found: list[str] = []
        for group in self.groups:
            if group.broadcasts:
                continue
            for broker in self.ledger.brokers():
                for topic, queue_id in broker.store.queues():
                    if topic not in group.filters or topic in self.ledger.doomed:
                        continue
                    end = broker.store.max_offset(topic, queue_id)
                    committed = broker.offsets.query(group.name, topic, queue_id)
                    if end and committed != end:
                        where = f"{topic}/{broker.config.broker_name}/{queue_id}"
                        found.append(f"{group} has committed {committed} of {where}, which ends at {end}")
        return found

    def _has_ended(self) -> bool:
        """Nothing runs in the processes of users but their programs, which sleep."""
        return all(host.name in self._ended and len(self.world.unfinished(host)) == 1 for host in self._hosts)
