# SPDX-License-Identifier: Apache-2.0
"""core.namesrv_table: register, silence, leaving; and random brokers that come and go."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from registrations import register
from sprocketmq.core.cluster.namesrv_table import (
    BROKER_EXPIRE_MS,
    UNIT_FLAG,
    UNIT_SUB_FLAG,
    NamesrvTable,
    RegistrationResult,
)
from sprocketmq.core.cluster.registration import TopicRegistration
from sprocketmq.wire.bodies import DataVersion, QueueData, TopicConfig


def topics(*names: str, queues: int = 4) -> dict[str, TopicConfig]:
    """The topics ``names``, and one more, as no broker registers first with a single one."""
    names = (*names, "more")
    return {name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in names}


def version(counter: int = 1) -> DataVersion:
    return DataVersion(counter=counter, timestamp=7)


def registered(
    table: NamesrvTable, name: str = "a", broker_id: int = 0, *, address: str = "", counter: int = 1, now_ms: int = 0
) -> RegistrationResult:
    address = address or f"{name}{broker_id}:1"
    result = register(
        table, "c", name, broker_id, address, topics("t"), version(counter), now_ms, ha_address=f"ha-{address}"
    )
    assert result is not None
    return result


def addresses(table: NamesrvTable, topic: str = "t") -> dict[str, dict[int, str]]:
    route = table.route(topic)
    return {} if route is None else {data.broker_name: data.broker_addrs for data in route.broker_datas}


@pytest.fixture
def table() -> NamesrvTable:
    return NamesrvTable()


def test_a_registered_master_brings_its_topics(table):
    assert table.route("t") is None
    assert registered(table) == RegistrationResult(changed=True)
    route = table.route("t", order_topic_conf="a:1")
    assert route is not None
    assert (route.queue_datas[0].broker_name, route.queue_datas[0].write_queue_nums) == ("a", 4)
    assert route.order_topic_conf == "a:1"
    assert addresses(table) == {"a": {0: "a0:1"}}


def test_an_unchanged_version_changes_no_topic_and_a_new_one_does(table):
    registered(table)
    assert not registered(table).changed
    register(table, "c", "a", 0, "a0:1", topics("t", queues=9), version(1), 0)
    assert table.route("t").queue_datas[0].read_queue_nums == 4  # type: ignore[union-attr]
    assert register(table, "c", "a", 0, "a0:1", topics("t", queues=9), version(2), 0).changed
    assert table.route("t").queue_datas[0].read_queue_nums == 9  # type: ignore[union-attr]


def test_a_slave_learns_its_master_and_brings_no_topics(table):
    registered(table, "a", 1)
    assert table.topics() == []
    registered(table, "a", 0)
    assert registered(table, "a", 1) == RegistrationResult("a0:1", "ha-a0:1", changed=False)
    assert addresses(table) == {"a": {0: "a0:1", 1: "a1:1"}}


def test_asking_for_the_version_is_a_sign_of_life(table):
    registered(table, now_ms=0)
    assert table.touch("c", "a0:1", 100) == version()
    assert table.touch("c", "stranger:1", 100) is None
    assert list(table.expire(BROKER_EXPIRE_MS + 100)) == []


def test_topics_of_a_broker_that_unregisters_are_removed(table):
    registered(table, "a")
    registered(table, "b")
    assert not table.unregister("c", "b", "a0:1", 0)
    assert table.unregister("c", "a", "a0:1", 0)
    assert addresses(table).keys() == {"b"}
    assert table.unregister("c", "b", "b0:1", 0)
    assert (table.topics(), table.cluster_info(0).broker_addr_table, table.cluster_info(0).cluster_addr_table) == (
        [],
        {},
        {},
    )


def test_a_closed_connection_removes_what_was_registered_over_it():
    table, connection = NamesrvTable(), object()
    register(table, "c", "a", 0, "a0:1", topics("t"), version(), 0, owner=connection)
    registered(table, "b")
    assert [live.broker_name for live in table.connection_closed(connection, 0)] == ["a"]
    assert list(table.connection_closed(connection, 0)) == []
    assert addresses(table).keys() == {"b"}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(table):
    registered(table, "a")
    register(table, "other", "b", 0, "b0:1", topics("t"), version(), 0)
    assert table.topics_of_cluster("other") == ["t", "more"]
    assert table.delete_topic("t", "other")
    assert addresses(table).keys() == {"a"}
    assert table.delete_topic("t")
    assert not table.delete_topic("t")


def test_a_route_is_a_copy(table):
    registered(table)
    addresses(table)["a"][0] = "changed"
    table.cluster_info(0).broker_addr_table["a"].broker_addrs.clear()
    assert addresses(table) == {"a": {0: "a0:1"}}


# -- 5.x's rules -----------------------------------------------------------------------------------------------------------------


def take(
    table: NamesrvTable,
    broker_id: int,
    *,
    acting: bool | None,
    state_version: int = 0,
    address: str = "",
    perm: int = 6,
) -> RegistrationResult | None:
    config = {name: TopicConfig(topic_name=name, perm=perm) for name in ("t", "u")}
    data_version = DataVersion(counter=1, timestamp=7, state_version=state_version)
    return register(
        table, "c", "a", broker_id, address or f"a{broker_id}:1", config, data_version, 0, acting_master=acting
    )


def perms(table: NamesrvTable, topic: str = "t") -> list[int]:
    route = table.route(topic)
    return [] if route is None else [data.perm for data in route.queue_datas]


def test_a_first_registration_with_one_topic_is_refused_and_leaves_nothing(table):
    one = {"t": TopicConfig(topic_name="t")}
    assert register(table, "c", "a", 0, "a0:1", one, version(), 0) is None
    assert table.cluster_info(0).broker_addr_table == {}
    assert table.cluster_info(0).cluster_addr_table == {}
    registered(table)
    assert register(table, "c", "a", 0, "a0:1", {"new": TopicConfig(topic_name="new")}, version(2), 0) is not None
    assert "new" in table.topics()


def test_of_two_brokers_with_one_id_the_higher_state_version_stays(table):
    take(table, 0, acting=False, state_version=2, address="strong:1")
    assert take(table, 0, acting=False, state_version=1, address="weak:1") == RegistrationResult()
    assert addresses(table) == {"a": {0: "strong:1"}}
    take(table, 0, acting=False, state_version=3, address="newer:1")
    assert addresses(table) == {"a": {0: "newer:1"}}
    table.check_invariants()


def test_a_deleted_topic_comes_back_with_the_next_registration(table):
    registered(table)
    table.delete_topic("t")
    registered(table)
    assert addresses(table) == {"a": {0: "a0:1"}}


def test_a_5x_slave_alone_brings_its_topics_and_a_4x_one_does_not(table):
    take(table, 1, acting=None)
    assert table.topics() == []
    table = NamesrvTable()
    take(table, 1, acting=False)
    assert perms(table) == [6]


def test_an_acting_master_reads_only_and_stands_in_the_routes_as_master(table):
    table.support_acting_master = True
    take(table, 0, acting=True)
    take(table, 2, acting=True)
    assert addresses(table) == {"a": {0: "a0:1", 2: "a2:1"}}
    table.unregister("c", "a", "a0:1", 0)
    assert perms(table) == [4]
    assert addresses(table) == {"a": {0: "a2:1"}}
    [change] = table.min_id_changes
    assert (change.min_id, change.min_address, change.offline_address, change.notified) == (2, "a2:1", "a0:1", ["a2:1"])
    lower = take(table, 1, acting=True)
    assert lower is not None
    assert lower.lower_id is not None
    assert (lower.lower_id.min_id, lower.lower_id.notified) == (1, ["a2:1"])


def test_without_acting_masters_a_group_without_master_shows_none(table):
    table.support_acting_master = True
    take(table, 0, acting=False)
    take(table, 1, acting=False)
    table.unregister("c", "a", "a0:1", 0)
    assert perms(table) == [6]
    assert addresses(table) == {"a": {1: "a1:1"}}
    assert table.min_id_changes == []


def test_the_write_permission_is_wiped_until_a_change_and_added(table):
    registered(table)
    registered(table, "b")
    assert table.wipe_write_perm("a") == 2
    assert table.wipe_write_perm("unknown") == 0
    assert sorted(perms(table)) == [4, 6]
    registered(table)
    assert sorted(perms(table)) == [4, 6]  # an unchanged registration does not give it back
    assert table.add_write_perm("a") == 2
    assert perms(table) == [6, 6]
    table.wipe_write_perm("a")
    registered(table, counter=2)
    assert perms(table) == [6, 6]


def test_a_registration_may_delete_what_it_does_not_name(table):
    register(table, "c", "a", 0, "a0:1", topics("t", "old"), version(1), 0)
    register(table, "c", "a", 0, "a0:1", topics("t"), version(2), 0)
    assert "old" in table.topics()
    table.delete_missing_topics = True
    register(table, "c", "a", 0, "a0:1", topics("t"), version(3), 0)
    assert "old" not in table.topics()
    table.check_invariants()


def test_topics_may_be_registered_by_hand_on_known_brokers_only(table):
    registered(table)
    assert not table.register_topic("x", [QueueData(broker_name="a"), QueueData(broker_name="stranger")])
    assert not table.register_topic("x", [])
    assert table.route("x") is None
    assert table.register_topic("x", [QueueData(broker_name="a", read_queue_nums=3, perm=6)])
    assert addresses(table, "x") == {"a": {0: "a0:1"}}


def test_lists_of_topics(table):
    config = {
        name: TopicConfig(topic_name=name, topic_sys_flag=flag)
        for name, flag in (("plain", 0), ("unit", 1), ("sub", 2), ("both", 3))
    }
    register(table, "c", "a", 0, "a0:1", config, version(), 0)
    assert table.topics_with_flag(UNIT_FLAG) == ["unit", "both"]
    assert table.topics_with_flag(UNIT_SUB_FLAG) == ["sub", "both"]
    assert table.topics_with_flag(UNIT_SUB_FLAG, UNIT_FLAG) == ["sub"]
    assert table.system_topics() == (["c", "a"], "a0:1")
    assert NamesrvTable().system_topics() == ([], None)
    assert table.members("a") == {0: "a0:1"}
    assert table.members("b") == {}
    assert table.topics_of_cluster("nowhere") == []


class NamesrvModel(RuleBasedStateMachine):
    names = st.sampled_from(["a", "b"])
    ids = st.integers(0, 2)
    spots = st.sampled_from(["x:1", "y:1", "z:1"])

    @initialize()
    def begin(self) -> None:
        self.table = NamesrvTable()
        self.now_ms = 0
        self.spot_of: dict[str, tuple[str, str, int, int]] = {}  # address -> cluster, name, id, last seen

    @rule(cluster=st.sampled_from("cd"), name=names, broker_id=ids, spot=spots, counter=st.integers(0, 3))
    def register(self, cluster: str, name: str, broker_id: int, spot: str, counter: int) -> None:
        register(self.table, cluster, name, broker_id, spot, topics("t", f"only-{name}"), version(counter), self.now_ms)
        for address, (_, other, number, seen_ms) in list(self.spot_of.items()):
            if other == name and number == broker_id:
                del self.spot_of[address]
            elif other == name:
                self.spot_of[address] = (cluster, other, number, seen_ms)
        self.spot_of[spot] = (cluster, name, broker_id, self.now_ms)

    @rule(spot=spots, name=names)
    def unregister(self, spot: str, name: str) -> None:
        known = self.spot_of.get(spot)
        ok = known is not None and known[1] == name
        assert self.table.unregister(known[0] if known else "c", name, spot, 0) == ok
        if ok:
            del self.spot_of[spot]

    @rule(ms=st.sampled_from([1, 60_000, 120_000, 120_001]))
    def silence(self, ms: int) -> None:
        self.now_ms += ms
        gone = {spot for spot, known in self.spot_of.items() if known[3] + BROKER_EXPIRE_MS < self.now_ms}
        assert {live.address for live in self.table.expire(self.now_ms)} == gone
        self.spot_of = {spot: known for spot, known in self.spot_of.items() if spot not in gone}

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()
        found = {(live.address, live.cluster, live.broker_name, live.broker_id) for live in self.table._live.values()}
        assert found == {(spot, *known[:3]) for spot, known in self.spot_of.items()}


TestNamesrvModel = NamesrvModel.TestCase
TestNamesrvModel.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)


def test_what_an_interrupted_registration_did_not_bring_comes_with_the_next_one_of_the_same_version(table):
    register(table, "c", "a", 0, "a0:1", topics("first", "last"), version(1), 0)
    begun = table.begin_registration("c", "a", 0, "a0:1", 3, version(2), 0)
    assert isinstance(begun, TopicRegistration)
    assert table.add_topics(begun, topics("first", queues=9))
    register(table, "c", "a", 0, "a0:1", topics("first", "last", queues=9), version(2), 0)
    route = table.route("last")
    assert route is not None
    assert route.queue_datas[0].read_queue_nums == 9
    assert not table.add_topics(begun, topics("late")), "the older one goes on no more"
    assert "late" not in table.topics()
    table.check_invariants()


def _turns(table: NamesrvTable, *turns: str, state_version: int = 0) -> list[str | None]:
    """Brokers of one name and id register every second; which rival each of them was told."""
    found = []
    for second, address in enumerate(turns):
        data_version = DataVersion(counter=1, timestamp=7, state_version=state_version * second)
        begun = table.begin_registration("c", "a", 0, address, 2, data_version, 1_000 * second)
        assert isinstance(begun, TopicRegistration)
        table.add_topics(begun, topics("t"))
        table.finish_registration(begun)
        found.append(begun.rival)
    return found


def test_two_brokers_of_one_name_and_id_are_rivals_when_the_first_comes_back(table):
    assert _turns(table, "x:1", "y:1", "x:1", "y:1") == [None, None, "y:1", None]
    assert table.cluster_info(0).rivals == {"a": {0: ["x:1"]}}
    table.forget_old(BROKER_EXPIRE_MS)
    assert table.cluster_info(0).rivals == {"a": {0: ["x:1"]}}
    table.forget_old(BROKER_EXPIRE_MS + 3_001)
    assert table.cluster_info(0).rivals is None
    table.check_invariants()


def test_a_rival_that_takes_turns_no_more_is_forgotten(table):
    _turns(table, "x:1", "y:1", "z:1", "x:1")
    assert table.cluster_info(0).rivals == {"a": {0: ["y:1", "z:1"]}}
    table.forget_old(BROKER_EXPIRE_MS + 2_001)
    assert table.cluster_info(0).rivals == {"a": {0: ["z:1"]}}


def test_a_broker_that_moves_and_one_that_is_elected_have_no_rivals(table):
    assert _turns(table, "x:1", "y:1", "y:1") == [None] * 3
    assert table.cluster_info(0).rivals is None
    table = NamesrvTable()
    assert _turns(table, "x:1", "y:1", "x:1", state_version=1) == [None] * 3
    assert table.cluster_info(0).rivals is None


def test_what_is_remembered_of_rivals_is_limited(table):
    _turns(table, *(f"x:{port}" for port in range(1, 100)), "x:1")
    assert len(table.cluster_info(0).rivals["a"][0]) <= 8  # type: ignore[index]


def _gone(table: NamesrvTable, now_ms: int) -> dict[str, dict[int, tuple[int, bool]]]:
    table.check_invariants()
    return {
        name: {number: (one.gone_for_ms, one.has_left) for number, one in by_id.items()}
        for name, by_id in (table.cluster_info(now_ms).gone or {}).items()
    }


def test_a_broker_that_is_gone_is_remembered_until_it_is_back(table):
    registered(table)
    assert _gone(table, 0) == {}
    assert table.unregister("c", "a", "a0:1", 1_000)
    assert _gone(table, 5_000) == {"a": {0: (4_000, True)}}
    registered(table)
    assert _gone(table, 6_000) == {}
    assert [live.address for live in table.expire(BROKER_EXPIRE_MS + 1)] == ["a0:1"]
    assert _gone(table, BROKER_EXPIRE_MS + 2) == {"a": {0: (1, False)}}


def test_a_lost_broker_is_remembered_for_a_day_and_one_that_left_for_an_hour(table):
    registered(table)
    table.unregister("c", "a", "a0:1", 0)
    table.forget_old(3_600_000)
    assert _gone(table, 0)
    table.forget_old(3_600_001)
    assert not _gone(table, 0)
    registered(table)
    list(table.expire(BROKER_EXPIRE_MS + 1))
    table.forget_old(BROKER_EXPIRE_MS + 1 + 86_400_000)
    assert _gone(table, 0)
    table.forget_old(BROKER_EXPIRE_MS + 2 + 86_400_000)
    assert not _gone(table, 0)


def test_a_broker_whose_address_another_took_is_not_missed(table):
    registered(table)
    table.unregister("c", "a", "a0:1", 0)
    assert register(
        table, "c", "b", 0, "a0:1", {"t": TopicConfig(topic_name="t"), "u": TopicConfig(topic_name="u")}, version(), 0
    )
    assert _gone(table, 0) == {}
