# SPDX-License-Identifier: Apache-2.0
"""core.allocation: Java's numbers, and the laws for every strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.group.allocation import (
    AVG,
    STRATEGIES,
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByConfig,
    AllocateByConsistentHash,
    AllocateByMachineRoom,
    AllocateMachineRoomNearby,
    AllocationStrategy,
    _java_text,
    _ring_hash,
    allocate,
    java_order,
    strategy_by_name,
    strategy_name,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageQueue


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def ids(count: int) -> list[str]:
    return [f"10.0.0.{number}@1" for number in range(count)]


def shares(strategy: AllocationStrategy, all_queues: list[MessageQueue], members: list[str]) -> list[list[int]]:
    return [[queue.queue_id for queue in allocate(strategy, "g", member, all_queues, members)] for member in members]


def javas_averagely(count: int, members: int, index: int) -> range:
    """The formula of AllocateMessageQueueAveragely."""
    mod = count % members
    size = 1 if count <= members else count // members + (1 if mod > 0 and index < mod else 0)
    start = index * size if mod > 0 and index < mod else index * size + mod
    return range(start, start + max(0, min(size, count - start)))


@given(count=st.integers(1, 60), members=st.integers(1, 20))
def test_avg_is_javas_formula(count, members):
    names = [f"{number:03}" for number in range(members)]
    expected = [list(javas_averagely(count, members, index)) for index in range(members)]
    assert shares(AllocateAveragely(), queues(count), names) == expected


def test_by_circle_assigns_the_queues_to_the_clients_in_turn():
    assert shares(AllocateAveragelyByCircle(), queues(7), ids(3)) == [[0, 3, 6], [1, 4], [2, 5]]


def test_the_ring_hashes_are_javas():
    assert _ring_hash("10.0.0.1@1-0") == 2998294157
    assert _ring_hash(_java_text(MessageQueue("T", "b", 0))) == 562732085


def test_consistent_hash_agrees_with_a_ring_walked_by_hand():
    strategy, members = AllocateByConsistentHash(virtual_node_count=3), ids(4)
    ring = sorted((_ring_hash(f"{member}-{number}"), member) for member in members for number in range(3))
    for queue in queues(40):
        key = _ring_hash(_java_text(queue))
        owner = next((member for point, member in ring if point >= key), ring[0][1])
        assert queue in allocate(strategy, "g", owner, queues(40), members)


def test_the_config_is_what_the_user_set():
    mine = tuple(queues(2))
    assert allocate(AllocateByConfig(mine), "g", "a", queues(5), ["a", "b"]) == list(mine)


def test_machine_room_shares_only_the_named_rooms():
    all_queues = queues(5, "east@one") + queues(3, "west@one") + queues(2, "nowhere") + queues(1, "east@one@two")
    strategy = AllocateByMachineRoom(frozenset({"east"}))
    found = [allocate(strategy, "g", member, all_queues, ids(2)) for member in ids(2)]
    east = queues(5, "east@one")
    # each floor(5/2) from i*2, then the remainder's first queue to the first client
    assert found == [[east[0], east[1], east[4]], [east[2], east[3]]]


class Rooms:
    """A resolver: rooms are before the "@" of a broker and the "-" of a client."""

    @staticmethod
    def broker_deploy_in(queue: MessageQueue) -> str:
        return queue.broker_name.split("@")[0]

    @staticmethod
    def consumer_deploy_in(client_id: str) -> str:
        return client_id.split("-")[0]


def nearby(within: AllocationStrategy) -> AllocateMachineRoomNearby:
    return AllocateMachineRoomNearby(within, Rooms.broker_deploy_in, Rooms.consumer_deploy_in)


def test_nearby_keeps_to_its_room_and_shares_rooms_without_consumers():
    strategy = nearby(AVG)
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    all_queues = queues(4, "east@1") + queues(2, "west@1") + queues(3, "north@1")
    members = ["east-a", "east-b", "west-a"]
    found = {member: allocate(strategy, "g", member, all_queues, members) for member in members}
    east, west, north = queues(4, "east@1"), queues(2, "west@1"), queues(3, "north@1")
    assert found["east-a"] == [*east[:2], north[0]]
    assert found["east-b"] == [*east[2:], north[1]]
    assert found["west-a"] == [*west, north[2]]


def test_nearby_needs_a_room_for_every_queue_and_client():
    strategy = AllocateMachineRoomNearby(AVG, lambda queue: "", Rooms.consumer_deploy_in)
    with pytest.raises(ConfigurationError, match="machine room of queue"):
        allocate(strategy, "g", "east-a", queues(1), ["east-a"])


SERVING_ALL: list[Callable[[], AllocationStrategy]] = [
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByConsistentHash,
    lambda: nearby(AllocateAveragely()),
    lambda: nearby(AllocateByConsistentHash()),
    lambda: AllocateByMachineRoom(frozenset({"east", "west"})),
]


@pytest.mark.parametrize("build", SERVING_ALL)
@given(
    brokers=st.lists(st.sampled_from(["east@1", "east@2", "west@1"]), unique=True, min_size=1),
    per_broker=st.integers(1, 9),
    members=st.sets(
        st.sampled_from([f"{room}-{n}" for room in ("east", "west", "south") for n in range(4)]), min_size=1
    ),
    seed=st.randoms(use_true_random=False),
)
def test_the_shares_partition_the_queues(build, brokers, per_broker, members, seed):
    strategy = build()
    all_queues = [queue for broker in brokers for queue in queues(per_broker, broker)]
    found: list[MessageQueue] = []
    for member in members:
        mixed_queues, mixed_members = list(all_queues), list(members)
        seed.shuffle(mixed_queues)
        seed.shuffle(mixed_members)
        found += allocate(strategy, "g", member, mixed_queues, mixed_members)
    assert sorted(found) == sorted(all_queues)


@pytest.mark.parametrize("build", SERVING_ALL)
def test_a_client_the_broker_does_not_list_gets_nothing(build):
    assert allocate(build(), "g", "east-stranger", queues(4, "east@1"), ["east-a"]) == []
    for others in (["east-a"], ["west-a"]):
        assert build()("g", "east-stranger", queues(4, "east@1"), others) == []
    assert allocate(build(), "g", "east-a", [], ["east-a"]) == []


def test_a_function_is_not_asked_for_a_client_that_the_broker_does_not_list():
    def all_for_everybody(
        group: str, client_id: str, all_queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return all_queues

    assert allocate(all_for_everybody, "g", "stranger", queues(4), ["a"]) == []
    assert allocate(all_for_everybody, "g", "a", queues(4), ["a"]) == queues(4)


def test_queues_are_sorted_by_topic_then_broker_then_number():
    expected = [MessageQueue(topic, broker, number) for topic in "TU" for broker in "ab" for number in (0, 2, 10)]
    mixed = list(reversed(expected))
    assert allocate(lambda group, client_id, all_queues, client_ids: all_queues, "g", "c", mixed, ["c"]) == expected


def test_names_are_sorted_by_utf16_units_as_java_does():
    emoji, private = "\U0001f680", "\uffee"  # by code point the emoji is the greater one, by UTF-16 the smaller
    assert sorted([private, emoji], key=java_order) == [emoji, private]
    assert sorted([private, emoji]) == [private, emoji]
    assert shares(AVG, queues(3), [emoji, private])[0] == [0, 1]


def test_all_six_strategies_are_found_by_javas_names():
    assert set(STRATEGIES) == {"AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"}
    assert strategy_by_name("AVG") is AVG
    assert strategy_by_name("AVG_BY_CIRCLE") == AllocateAveragelyByCircle()
    assert AllocateByConsistentHash() == AllocateByConsistentHash(10), "Java's default"
    assert strategy_by_name("CONSISTENT_HASH") == AllocateByConsistentHash(10)
    assert strategy_by_name("CONSISTENT_HASH", virtual_node_count=3) == AllocateByConsistentHash(3)
    assert strategy_by_name("CONFIG", queues=queues(2)) == AllocateByConfig(tuple(queues(2)))
    assert strategy_by_name("MACHINE_ROOM", rooms=["east"]) == AllocateByMachineRoom(frozenset({"east"}))
    all_queues, members = queues(4, "east@1") + queues(3, "west@1"), ["east-a", "east-b", "north-a"]
    for name, within in (
        ("MACHINE_ROOM_NEARBY", AVG),
        ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", AllocateAveragelyByCircle()),
        ("MACHINE_ROOM_NEARBY-CONSISTENT_HASH", AllocateByConsistentHash()),
    ):
        found = strategy_by_name(name, resolver=Rooms())
        assert strategy_name(found) == nearby(within).name
        assert shares(found, all_queues, members) == shares(nearby(within), all_queues, members)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NEAREST", "'NEAREST'.*AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, CONFIG, MACHINE_ROOM, MACHINE_ROOM_NEARBY"),
        ("MACHINE_ROOM_NEARBY-CONFIG", "'MACHINE_ROOM_NEARBY-CONFIG'"),
        ("CONFIG", "CONFIG needs.*allocate_queues"),
        ("MACHINE_ROOM", "MACHINE_ROOM needs.*allocate_rooms"),
        ("MACHINE_ROOM_NEARBY", "MACHINE_ROOM_NEARBY needs.*machine_room_resolver"),
    ],
)
def test_a_strategy_that_cannot_be_had_by_its_name_says_what_is_missing(name, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        strategy_by_name(name)


def test_a_function_is_a_strategy_and_what_it_gives_is_checked():
    def first_takes_all(
        group: str, client_id: str, all_queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return all_queues if client_id == client_ids[0] else ()

    assert shares(first_takes_all, queues(3), ids(2)) == [[0, 1, 2], []]
    assert strategy_name(first_takes_all) == "first_takes_all"
    for nonsense in (None, 7, "all", [1], ["b"]):
        with pytest.raises(ConfigurationError, match="strategy <lambda> gave"):
            allocate(lambda *given, nonsense=nonsense: nonsense, "g", "a", queues(1), ["a"])
