"""core.namesrv_table: register, silence, leaving; and random brokers that come and go."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sprocketmq.core.namesrv_table import BROKER_EXPIRE_MS, NamesrvTable, Registered
from sprocketmq.wire.bodies import DataVersion, TopicConfig


def topics(*names: str, queues: int = 4) -> dict[str, TopicConfig]:
    """The topics ``names``, and one more, as no broker registers first with a single one."""
    names = (*names, "more")
    return {name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in names}


def version(counter: int = 1) -> DataVersion:
    return DataVersion(counter=counter, timestamp=7)


def register(
    table: NamesrvTable, name: str = "a", broker_id: int = 0, *, address: str = "", counter: int = 1, now_ms: int = 0
) -> Registered:
    address = address or f"{name}{broker_id}:1"
    return table.register(
        "c", name, broker_id, address, topics("t"), version(counter), now_ms, ha_address=f"ha-{address}"
    )


def addresses(table: NamesrvTable, topic: str = "t") -> dict[str, dict[int, str]]:
    route = table.route(topic)
    return {} if route is None else {data.broker_name: data.broker_addrs for data in route.broker_datas}


def test_a_registered_master_brings_its_topics() -> None:
    table = NamesrvTable()
    assert table.route("t") is None
    assert register(table) == Registered(changed=True)
    route = table.route("t", order_topic_conf="a:1")
    assert route is not None
    assert (route.queue_datas[0].broker_name, route.queue_datas[0].write_queue_nums) == ("a", 4)
    assert route.order_topic_conf == "a:1"
    assert addresses(table) == {"a": {0: "a0:1"}}


def test_an_unchanged_version_changes_no_topic_and_a_new_one_does() -> None:
    table = NamesrvTable()
    register(table)
    assert not register(table).changed
    table.register("c", "a", 0, "a0:1", topics("t", queues=9), version(1), 0)
    assert table.route("t").queue_datas[0].read_queue_nums == 4  # type: ignore[union-attr]
    assert table.register("c", "a", 0, "a0:1", topics("t", queues=9), version(2), 0).changed
    assert table.route("t").queue_datas[0].read_queue_nums == 9  # type: ignore[union-attr]


def test_a_slave_learns_its_master_and_brings_no_topics() -> None:
    table = NamesrvTable()
    register(table, "a", 1)
    assert table.topics() == []
    register(table, "a", 0)
    assert register(table, "a", 1) == Registered("a0:1", "ha-a0:1", changed=False)
    assert addresses(table) == {"a": {0: "a0:1", 1: "a1:1"}}


def test_a_slave_that_becomes_master_keeps_one_id() -> None:
    table = NamesrvTable()
    register(table, "a", 1, address="x:1")
    register(table, "a", 0, address="x:1")
    assert addresses(table) == {"a": {0: "x:1"}}
    table.check_invariants()


def test_a_broker_that_moves_leaves_no_trace_at_its_old_address() -> None:
    table = NamesrvTable()
    register(table, address="old:1")
    register(table, address="new:1")
    assert [live.address for live in table.live_brokers()] == ["new:1"]
    table.check_invariants()


def test_an_address_taken_over_by_another_broker_name_belongs_to_it_alone() -> None:
    table = NamesrvTable()
    register(table, "a", address="x:1")
    register(table, "b", address="x:1")
    assert addresses(table) == {"b": {0: "x:1"}}
    table.check_invariants()


def test_a_silent_broker_is_gone_after_its_timeout() -> None:
    table = NamesrvTable()
    register(table, "a", now_ms=0)
    register(table, "b", now_ms=5)
    assert table.expire(BROKER_EXPIRE_MS) == []
    assert [live.address for live in table.expire(BROKER_EXPIRE_MS + 1)] == ["a0:1"]
    assert addresses(table).keys() == {"b"}


def test_asking_for_the_version_is_a_sign_of_life() -> None:
    table = NamesrvTable()
    register(table, now_ms=0)
    assert table.touch("c", "a0:1", 100) == version()
    assert table.touch("c", "stranger:1", 100) is None
    assert table.expire(BROKER_EXPIRE_MS + 100) == []


def test_a_broker_that_leaves_takes_its_topics_along() -> None:
    table = NamesrvTable()
    register(table, "a")
    register(table, "b")
    assert not table.unregister("c", "b", "a0:1")
    assert table.unregister("c", "a", "a0:1")
    assert addresses(table).keys() == {"b"}
    assert table.unregister("c", "b", "b0:1")
    assert (table.topics(), table.cluster_info().broker_addr_table, table.cluster_info().cluster_addr_table) == (
        [],
        {},
        {},
    )


def test_topics_stay_while_a_slave_is_left() -> None:
    table = NamesrvTable()
    register(table, "a", 0)
    register(table, "a", 1)
    table.unregister("c", "a", "a0:1")
    assert addresses(table) == {"a": {1: "a1:1"}}


def test_a_closed_connection_removes_what_was_registered_over_it() -> None:
    table, connection = NamesrvTable(), object()
    table.register("c", "a", 0, "a0:1", topics("t"), version(), 0, owner=connection)
    register(table, "b")
    assert [live.broker_name for live in table.connection_closed(connection)] == ["a"]
    assert table.connection_closed(connection) == []
    assert addresses(table).keys() == {"b"}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    table = NamesrvTable()
    register(table, "a")
    table.register("other", "b", 0, "b0:1", topics("t"), version(), 0)
    assert table.topics_of_cluster("other") == ["t", "more"]
    assert table.delete_topic("t", "other")
    assert addresses(table).keys() == {"a"}
    assert table.delete_topic("t")
    assert not table.delete_topic("t")


def test_a_broker_may_move_to_another_cluster() -> None:
    table = NamesrvTable()
    register(table, "a")
    table.register("d", "a", 0, "a0:1", topics("t"), version(), 0)
    assert table.cluster_info().cluster_addr_table == {"d": ["a"]}
    table.check_invariants()


def test_a_route_is_a_copy() -> None:
    table = NamesrvTable()
    register(table)
    addresses(table)["a"][0] = "changed"
    table.cluster_info().broker_addr_table["a"].broker_addrs.clear()
    assert addresses(table) == {"a": {0: "a0:1"}}


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
        self.table.register(cluster, name, broker_id, spot, topics("t", f"only-{name}"), version(counter), self.now_ms)
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
        assert self.table.unregister(known[0] if known else "c", name, spot) == ok
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
        found = {(live.address, live.cluster, live.broker_name, live.broker_id) for live in self.table.live_brokers()}
        assert found == {(spot, *known[:3]) for spot, known in self.spot_of.items()}


TestNamesrvModel = NamesrvModel.TestCase
TestNamesrvModel.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
