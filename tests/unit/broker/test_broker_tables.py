# SPDX-License-Identifier: Apache-2.0
"""Topics, groups, offsets, members and counters: the broker's tables without a broker."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from examples import examples
from sprocketmq.broker.broker import Broker
from sprocketmq.broker.observe.counters import Rate
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.broker.tables.consumers import Member, ProducerTable
from sprocketmq.broker.tables.offsets import OffsetTable
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.address import announced_host, packed_address
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.bodies import (
    ConsumerData,
    ConsumerOffsetSerializeWrapper,
    SubscriptionData,
)
from sprocketmq.wire.hashing import tags_code


class _Connection:
    is_congested = False

    def __init__(self, name: str) -> None:
        self.remote_address, self.is_closed = name, False


def member(name: str, now_ms: int = 0) -> Member:
    connection: Any = _Connection(name)
    return Member(connection, name, "PYTHON", 409, now_ms)


def new_broker(**settings: Any) -> Broker:
    settings.setdefault("notify_consumer_ids_changed_enable", False)  # which needs a loop
    return Broker(clock=ManualClock(1), config=BrokerConfig(**settings))


# -- topics ----------------------------------------------------------------------------------------------------------------------


def test_each_change_of_topics_calls_back_and_makes_a_new_version():
    broker, changes = new_broker(), []
    table = broker.topics
    broker.topics_changed = lambda: changes.append(table.data_version.counter)
    table.create_in_send("a", "TBW102", 4, 5)
    table.create_if_absent("%RETRY%g", 1, 6)
    table.create_if_absent("%RETRY%g", 1, 7)  # nothing new
    table.delete("a", 8)
    assert changes == [1, 2, 3]
    assert table.data_version.timestamp == 8


def test_a_topic_inherits_only_from_one_that_may_be_inherited():
    table = new_broker().topics
    assert table.create_in_send("a", "BenchmarkTest", 4, 1) is None
    assert table.create_in_send("a", "nowhere", 4, 1) is None
    assert table.create_in_send("%RETRY%g", "nowhere", 4, 1).write_queue_nums == 1
    assert table.create_in_send("b", "TBW102", 100, 1).write_queue_nums == 8
    assert table.create_in_send("c", "TBW102", 100, 1).perm == 6
    for number in (0, -1, -(1 << 31)):
        assert table.create_in_send("d", "TBW102", number, 1) is None
        assert table.create_in_send(f"%RETRY%g{number}", "TBW102", number, 1).write_queue_nums == 1
    assert table.get("d") is None


# -- groups ----------------------------------------------------------------------------------------------------------------------


def test_groups_are_made_on_demand_where_that_is_allowed():
    open_table, closed = (new_broker(auto_create_subscription_group=allowed).groups for allowed in (True, False))
    assert open_table.find("g", 2).retry_max_times == 16
    assert open_table.find("no blanks", 2) is None
    assert closed.find("g", 2) is None
    assert closed.find("CID_RMQ_SYS_x", 2) is not None
    assert "TOOLS_CONSUMER" in closed


# -- offsets ---------------------------------------------------------------------------------------------------------------------


def test_offsets_survive_their_file_and_an_unchanged_table_is_clean():
    table = OffsetTable()
    assert not table.is_dirty
    table.commit("g", "t", 3, 0)
    assert table.is_dirty
    content = table.content(5)
    assert not table.is_dirty
    table.commit("g", "t", 3, 0)
    assert not table.is_dirty
    again = OffsetTable()
    again.load(ConsumerOffsetSerializeWrapper.decode(content.encode()))
    assert (again.query("g", "t", 3), again.query("g", "t", 4), again.query("h", "t", 3)) == (0, -1, -1)


def test_a_file_of_4_9_without_a_data_version_is_read():
    table = OffsetTable()
    table.load(ConsumerOffsetSerializeWrapper.decode(b'{"offsetTable":{"t@g":{0:12,1:7}}}'))
    assert [table.query("g", "t", queue_id) for queue_id in (0, 1, 2)] == [12, 7, -1]


def test_topics_and_groups_can_be_forgotten():
    table = OffsetTable()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            table.commit(group, topic, 0, 1)
            table.note_pull(group, topic, 0, 9, 9)
            table.note_no_progress(group, topic, 1)
            table.note_pull(group, topic, 1, 9, 9)
    table.forget_topic("t")
    assert table.topics_of("g") == ["u"]
    assert (table.pull_offset("g", "t", 0), table.begun_at("g", "t", 1), table.begun_at("g", "u", 1)) == (-1, -1, 9)
    table.forget_group("g")
    assert (table.begun_at("g", "u", 1), table.begun_at("h", "u", 1)) == (-1, 9)
    assert (table.query("g", "u", 0), table.query("h", "u", 0)) == (-1, 1)


def test_a_group_began_where_a_member_pulls_that_was_told_of_no_progress():
    """A pull that nobody asked before it is of a member that began before the broker did."""
    table = OffsetTable(max_offsets=2)
    assert table.begun_at("g", "t", 0) == -1
    table.note_no_progress("g", "t", 0)
    assert table.begun_at("g", "t", 0) == -1
    table.note_pull("g", "t", 0, 5, 8)
    table.note_no_progress("g", "t", 0)  # the member after it
    table.note_pull("g", "t", 0, 8, 9)
    assert table.begun_at("g", "t", 0) == 5
    table.note_pull("g", "t", 1, 8, 9)
    table.note_no_progress("g", "t", 1)
    table.note_pull("g", "t", 1, 9, 9)
    assert table.begun_at("g", "t", 1) == -1
    for queue_id in range(2, 9):
        table.note_no_progress("g", "t", queue_id)
        table.note_pull("g", "t", queue_id, 7, 7)
    assert [table.begun_at("g", "t", queue_id) for queue_id in range(9)] == [5, *[-1] * 8]


# -- members ---------------------------------------------------------------------------------------------------------------------


def data(group: str, *topics: str, version: int = 1, tags: str = "*") -> ConsumerData:
    codes = set() if tags == "*" else {tags_code(tags)}
    subscriptions = [
        SubscriptionData(topic=topic, sub_string=tags, code_set=codes, sub_version=version) for topic in topics
    ]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


def test_the_tag_test_follows_the_newest_subscription():
    table, one = new_broker().consumers, member("c1")
    table.register(one, data("g", "t", version=1))
    group = table.get("g")
    assert group.match("t") is None
    table.register(one, data("g", "t", version=2, tags="A"))
    assert group.match("t")(tags_code("A"))
    assert not group.match("t")(tags_code("B"))
    assert group.match("t") is group.match("t")


@pytest.mark.parametrize("version", [2, 5, 3_600_000], ids=["older", "same", "future"])
def test_when_the_last_member_with_a_subscription_leaves_that_of_the_others_counts_again(version):
    restored: list[tuple[str, str]] = []
    broker = new_broker()
    table = broker.consumers
    broker.filters.restore = lambda group, subscription, _: restored.append((group, subscription.sub_string))
    stays, leaves = member("c1"), member("c2")
    table.register(stays, data("g", "t", "u", version=1))
    table.register(leaves, data("g", "t", "u", version=version, tags="A"))
    table.register(stays, data("g", "t", "u", version=5, tags="*"))
    table.check_invariants()
    table.register(leaves, data("g", "t", "u", version=version, tags="A"))
    table.unregister(leaves.connection, "g")
    table.check_invariants()
    assert {one.sub_string for one in table.get("g").subscriptions.values()} == {"*"}
    assert restored == ([("g", "*"), ("g", "*")] if version >= 5 else [])


def test_of_several_subscriptions_that_stay_the_newest_counts():
    table = new_broker().consumers
    members = [member(f"c{number}") for number in range(4)]
    for number, one in enumerate(members):
        table.register(one, data("g", "t", version=number, tags=f"T{number}"))
    for expected in ("T2", "T1", "T0"):
        table.unregister(members.pop().connection, "g")
        table.check_invariants()
        assert table.get("g").subscriptions["t"].sub_string == expected


def test_a_heartbeat_without_subscriptions_keeps_them():
    table, one = new_broker().consumers, member("c1")
    table.register(one, data("g", "t"))
    assert not table.register(one, data("g"), without_sub=True)
    assert set(table.get("g").subscriptions) == {"t"}


def test_producers_are_found_by_client_id_while_connected():
    table, one = ProducerTable(), member("c1")
    table.register(one, "p")
    assert table.find("c1") is one.connection
    assert table.find("c2") is None
    assert table.expired(120_001, 120_000) == [one.connection]
    table.connection_closed(one.connection)
    assert table.groups == {}


def test_silent_members_are_closed_in_the_order_in_which_they_came():
    """Not by their places in memory: a seed of the simulator would be another run in each process."""
    broker, members = new_broker(), [member(f"c{number}") for number in range(40)]
    for one in members:
        broker.consumers.register(one, data("g", "t"))
        broker.producers.register(one, "p")
    for table in (broker.consumers, broker.producers):
        assert table.expired(120_001, 120_000) == [one.connection for one in members]


@pytest.mark.parametrize("order", list(permutations(("arrives", "leaves", "closes"))), ids="-".join)
@pytest.mark.parametrize("is_told_closed", [True, False], ids=["told", "half-open"])
def test_the_old_connection_of_a_client_takes_nothing_from_its_new_one(order, is_told_closed):
    """A client that lost its connection comes back on a new one. What the old one has sent, and its end, may be seen before or after that;
    half-open: its end is not seen at all. Apache 5.4.0 forgets the client id then (ProducerManager.doChannelCloseEvent)."""
    consumers, producers = new_broker().consumers, ProducerTable()
    old, new = member("c1", 10), member("c1", 20)

    def heartbeat(one: Member) -> None:
        consumers.register(one, data("g", "t"))
        for group in ("p", "q"):
            producers.register(one, group)

    heartbeat(old)
    arrived = False
    for event in order:
        if event == "arrives":
            heartbeat(new)
            arrived = True
        elif event == "leaves":
            producers.unregister(old.connection, "q")
        elif is_told_closed:
            consumers.connection_closed(old.connection)
            producers.connection_closed(old.connection)
        if arrived:
            assert producers.find("c1") is new.connection, "not the old one, which nobody reads any more"
            assert consumers.get("g").client_ids == ["c1"]
            assert list(consumers.get("g").members)[-1] is new.connection
    assert new.connection in producers.groups["p"]
    assert new.connection in producers.groups["q"]
    consumers.check_invariants()
    if is_told_closed:
        assert list(consumers.get("g").members) == [new.connection]
        assert producers.available("p", lambda _: True) is new.connection


class Members(RuleBasedStateMachine):
    """Joining, leaving, closing and expiring in any order, against plain sets."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        broker = new_broker(notify_consumer_ids_changed_enable=True)
        broker.member_notices.notify = lambda group: self.told.append(group.name)
        self.table = broker.consumers
        self.members = {name: member(name) for name in "abc"}
        self.model: dict[str, dict[str, int]] = {}
        self.now_ms = 0

    @rule(name=st.sampled_from("abc"), group=st.sampled_from("gh"), topics=st.sets(st.sampled_from("tu"), min_size=1))
    def heartbeat(self, name: str, group: str, topics: set[str]) -> None:
        self.now_ms += 10
        before = self.model.get(group, {})
        one = self.members[name]
        one.last_update_ms = self.now_ms
        fresh = Member(one.connection, name, "PYTHON", 409, self.now_ms)
        old_topics = set(self.table.get(group).subscriptions) if self.table.get(group) else set()
        self.told.clear()
        changed = self.table.register(fresh, data(group, *sorted(topics), version=self.now_ms))
        assert changed == (name not in before or topics != old_topics)
        assert self.told == ([group] if changed else [])
        self.model.setdefault(group, {})[name] = self.now_ms

    @rule(name=st.sampled_from("abc"), group=st.sampled_from("gh"))
    def leave(self, name: str, group: str) -> None:
        self.told.clear()
        self.table.unregister(self.members[name].connection, group)
        was_there = self.model.get(group, {}).pop(name, None) is not None
        assert self.told == ([group] if was_there and self.model[group] else [])

    @rule(name=st.sampled_from("abc"))
    def close(self, name: str) -> None:
        self.table.connection_closed(self.members[name].connection)
        for names in self.model.values():
            names.pop(name, None)

    @rule(limit_ms=st.sampled_from([5, 25, 100]))
    def expire(self, limit_ms: int) -> None:
        late = {name for names in self.model.values() for name, at in names.items() if self.now_ms - at > limit_ms}
        found = {connection.remote_address for connection in self.table.expired(self.now_ms, limit_ms)}
        assert found == late

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.table.check_invariants()
        self.model = {group: names for group, names in self.model.items() if names}
        assert {group: set(info.client_ids) for group, info in self.table.groups.items()} == {
            group: set(names) for group, names in self.model.items()
        }


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


# -- the rest --------------------------------------------------------------------------------------------------------------------


def test_a_rate_is_over_its_span_only():
    rate = Rate()
    assert rate.text(0) == "0.00 0.00 0.00"
    for second in range(0, 61, 10):
        rate.sample(second * 2 if second < 60 else 1_000, second * 1_000)
    assert rate.per_second(10_000, 60_000) == 90.0
    assert rate.per_second(60_000, 60_000) == pytest.approx(1000 / 60)
    assert rate.per_second(10_000, 65_000) == 90.0, "only one of the samples is from the last 10 s"


@pytest.mark.parametrize(
    ("peer", "packed"),
    [
        (("10.0.0.2", 5), (b"\x0a\0\0\x02", 5)),
        (("::ffff:10.0.0.2", 5), (b"\x0a\0\0\x02", 5)),
        (("::1", 5), (b"\0" * 15 + b"\x01", 5)),
        (("fe80::1%eth0", 5), (bytes.fromhex("fe80" + "00" * 13 + "01"), 5)),
        (("", 0), (b"\0\0\0\0", 0)),
    ],
)
def test_hosts_are_packed_as_records_hold_them(peer, packed):
    assert packed_address(peer) == packed


def test_the_announced_host_is_the_configured_the_bound_or_one_of_this_machine():
    assert announced_host("127.0.0.1", "10.0.0.7") == "10.0.0.7"
    assert announced_host("127.0.0.1", "localhost") == "localhost"
    assert announced_host("127.0.0.1", "") == "127.0.0.1"
    assert announced_host("localhost", "") in ("127.0.0.1", "::1")
    assert announced_host("0.0.0.0", "") not in ("0.0.0.0", "")
    with pytest.raises(ConfigurationError, match="brokerIP1"):
        announced_host("no such host", "")


def test_a_broker_bound_to_all_ipv6_addresses_needs_an_address_to_announce():
    with pytest.raises(ConfigurationError, match="bindAddress is '::', which accepts connections over IPv6 only"):
        announced_host("::", "")
    assert announced_host("::", "::1") == "::1"
    with pytest.raises(ConfigurationError, match="bindAddress is '::'"):
        Broker(namesrv_addr="127.0.0.1:9876", host="::", port=0)
