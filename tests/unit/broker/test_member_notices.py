# SPDX-License-Identifier: Apache-2.0
"""Notices that a group has changed: a step's worth in a turn of the loop, and everybody hears."""

from __future__ import annotations

import asyncio

from sprocketmq.broker.chunked_work import CHUNK_SIZE
from sprocketmq.broker.member_notices import MemberNotices
from sprocketmq.broker.tables.consumers import ConsumerGroup


class Heard:
    """Stands in for a connection: which groups it was told of."""

    def __init__(self) -> None:
        self.groups: list[str] = []

    def push_newest(self, kind: str, frame: bytes) -> None:
        assert kind.encode() in frame
        self.groups.append(kind)


def group(name: str, members: list[Heard]) -> ConsumerGroup:
    return ConsumerGroup(name, members=dict.fromkeys(members))  # type: ignore[arg-type]


def play(groups: list[ConsumerGroup], members: list[Heard]) -> list[int]:
    """How many notices each turn of the loop pushed."""

    async def run() -> list[int]:
        notices, pushed = MemberNotices(), [0]
        for each in groups:
            notices.notify(each)
        while True:
            count = sum(len(member.groups) for member in members)
            pushed.append(count - sum(pushed))
            if len(pushed) > 2 and not pushed[-1]:
                return pushed
            await asyncio.sleep(0)

    return asyncio.run(run())


def test_a_new_member_of_many_groups_is_announced_to_the_others_in_steps():
    members = [Heard() for _ in range(42)]
    names = [f"g{number}" for number in range(100)]
    pushed = play([group(name, members) for name in names], members)
    assert max(pushed) <= CHUNK_SIZE
    assert all(member.groups == names for member in members)


def test_a_group_of_many_members_is_notified_in_chunks():
    members = [Heard() for _ in range(3 * CHUNK_SIZE)]
    assert max(play([group("g", members)], members)) <= CHUNK_SIZE
    assert all(member.groups == ["g"] for member in members)


def test_few_members_are_notified_at_once():
    members = [Heard() for _ in range(5)]
    pushed = play([group("a", members), group("b", members)], members)
    assert pushed[1] == 10


def test_changes_during_a_waiting_notification_are_notified_once():
    others, members = [Heard() for _ in range(CHUNK_SIZE)], [Heard()]
    play([group("large", others), group("g", members), group("g", members)], members)
    assert members[0].groups == ["g"]
