# SPDX-License-Identifier: Apache-2.0
"""The six allocation strategies against Apache's own classes, of both versions: ten thousand made-up groups, number for number."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Final

import pytest

from interop.peers import VERSIONS, JavaProgram
from sprocketmq.core.group.allocation import allocate, strategy_by_name
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageQueue

CASES: Final = 10_000
# By code points the last two sort the other way round than by Java's UTF-16 units; rooms are before the "@" and the "-".
_BROKERS: Final = (
    "a",
    "b-1",
    "broker-a",
    "broker-B",
    "broker-10",
    "broker-9",
    "east@1",
    "east@2",
    "west@1",
    "\uffee",
    "\U0001f680",
)
_ROOMED: Final = ("east@1", "east@2", "west@1", "north@1", "south@a@b", "east@", "plain")
_CLIENTS: Final = (
    "10.0.0.1@7",
    "10.0.0.12@7",
    "10.0.0.2@DEFAULT",
    "192.168.1.1@9#8",
    "east-1@1",
    "east-2@1",
    "west-1@1",
    "\uffee",
    "\U0001f680",
)


@dataclass(frozen=True)
class Case:
    """One member's view of one topic."""

    strategy: str
    argument: str
    client_id: str
    client_ids: tuple[str, ...]
    queues: tuple[MessageQueue, ...]

    def line(self) -> str:
        queues = ",".join(f"{queue.broker_name}:{queue.topic}:{queue.queue_id}" for queue in self.queues)
        return "\t".join((self.strategy, self.argument, self.client_id, ",".join(self.client_ids), queues))

    def ours(self) -> str:
        """Our answer, in the oracle's form."""
        name = self.strategy
        if name == "MACHINE_ROOM_NEARBY":
            name += f"-{self.argument}"
        try:
            strategy = strategy_by_name(
                name,
                queues=[self.queues[int(place)] for place in self.argument.split(",")] if name == "CONFIG" else None,
                rooms=self.argument.split(",") if name == "MACHINE_ROOM" else None,
                resolver=_Rooms(),
                virtual_node_count=int(self.argument) if name == "CONSISTENT_HASH" else 10,
            )
            mine = allocate(strategy, "group", self.client_id, self.queues, self.client_ids)
        except ConfigurationError:
            return "!"
        return ",".join(str(self.queues.index(queue)) for queue in mine)


class _Rooms:
    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return queue.broker_name.split("@", 1)[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id.split("-", 1)[0]


def random_case(dice: random.Random) -> Case:
    strategy = dice.choice(
        (
            "AVG",
            "AVG_BY_CIRCLE",
            "CONSISTENT_HASH",
            "CONFIG",
            "MACHINE_ROOM",
            "MACHINE_ROOM_NEARBY",
            "MACHINE_ROOM_NEARBY",
        )
    )
    names = dice.sample(_ROOMED if "ROOM" in strategy else _BROKERS, dice.randint(1, 4))
    topic = dice.choice(("flights", "%RETRY%delays", "t"))
    queues = [MessageQueue(topic, name, number) for name in names for number in range(dice.choice((1, 2, 4, 8, 13)))]
    dice.shuffle(queues)
    if dice.random() < 0.4:
        ids = dice.sample(_CLIENTS, dice.randint(1, len(_CLIENTS)))
    else:
        rooms = ("east", "west", "north", "moon") if "ROOM" in strategy else ("10.1.1.1", "10.1.1.10", "10.1.1.9")
        ids = sorted(
            {f"{dice.choice(rooms)}-{dice.randrange(50)}@{dice.randrange(1 << 20)}" for _ in range(dice.randint(1, 24))}
        )
        dice.shuffle(ids)
    client_id = dice.choice(ids) if strategy == "CONFIG" or dice.random() < 0.97 else "stranger-1@1"
    argument = {
        "CONSISTENT_HASH": str(dice.choice((1, 3, 10, 10, 40))),
        "CONFIG": ",".join(map(str, dice.sample(range(len(queues)), dice.randint(1, len(queues))))),
        "MACHINE_ROOM": ",".join(dice.sample(("east", "west", "north", "moon"), dice.randint(1, 3))),
        "MACHINE_ROOM_NEARBY": dice.choice(("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")),
    }.get(strategy, "")
    return Case(strategy, argument, client_id, tuple(ids), tuple(queues))


@pytest.mark.parametrize("java_version", VERSIONS)
def test_every_member_gets_the_queues_that_apaches_classes_give_it(java_peers, java_version, tmp_path):
    dice = random.Random(20_130_817)
    cases = [random_case(dice) for _ in range(CASES)]
    file = tmp_path / "cases"
    file.write_text("".join(f"{case.line()}\n" for case in cases), "utf-8")
    with JavaProgram(java_version, "AllocationOracle", cases=str(file)) as program:
        answers = str(program.read_events("answers", 1)[0]["places"]).split(";")[:-1]
    assert len(answers) == CASES
    assert [
        f"{case!r}: Apache {answer}, ours {case.ours()}"
        for case, answer in zip(cases, answers, strict=True)
        if answer != case.ours()
    ] == []
    # The cases must be able to prove something: each strategy gives, and where it may, leaves out and refuses.
    kinds = Counter(
        (case.strategy, "!" if answer == "!" else bool(answer)) for case, answer in zip(cases, answers, strict=True)
    )
    assert all(kinds[strategy, True] > 300 for strategy in {case.strategy for case in cases}), kinds
    assert kinds["MACHINE_ROOM_NEARBY", "!"] == 0
    assert min(kinds[strategy, False] for strategy in ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM")) > 30


@pytest.mark.parametrize("java_version", VERSIONS)
@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_a_cluster_of_a_thousand_queues_is_shared_as_java_shares_it(java_peers, java_version, tmp_path, strategy):
    queues = tuple(MessageQueue("flights", f"broker-{number % 16}", number // 16) for number in range(1024))
    ids = tuple(f"10.0.{number // 256}.{number % 256}@{number * 7919}" for number in range(300))
    argument = "10" if strategy == "CONSISTENT_HASH" else ""
    cases = [Case(strategy, argument, client_id, ids, queues) for client_id in ids[::10]]
    file = tmp_path / "cases"
    file.write_text("".join(f"{case.line()}\n" for case in cases), "utf-8")
    with JavaProgram(java_version, "AllocationOracle", cases=str(file)) as program:
        answers = str(program.read_events("answers", 1)[0]["places"]).split(";")[:-1]
    assert answers == [case.ours() for case in cases]
