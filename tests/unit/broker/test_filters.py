# SPDX-License-Identifier: Apache-2.0
"""The table of filters and what it asks of records, without a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sprocketmq.broker.delivery.filters import ArrivalProbe, FilterTable, raw_properties, record_filter
from sprocketmq.core.sql92 import compile_sql92
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.store import MessageStore, StoreConfig, StoredMessage
from sprocketmq.wire.bodies import ConsumerFilterWrapper, SubscriptionData
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import RecordView, encode_record

V4, V6 = (b"\x7f\x00\x00\x01", 1), (b"\x00" * 15 + b"\x01", 1)


def record(
    properties: bytes, *, topic: bytes = b"flights", host: tuple[bytes, int] = V4, body: bytes = b"body"
) -> bytes:
    return encode_record(
        topic, body, properties, queue_id=0, queue_offset=0, physical_offset=0, born_timestamp_ms=1, born_host=host,
        store_timestamp_ms=1, store_host=V4,
        sys_flag=0x10 if host is V6 else 0,
    )  # fmt: skip


@given(
    st.binary(max_size=50),
    st.binary(max_size=50),
    st.sampled_from([b"t", b"t" * 200, b"t" * 300]),
    st.sampled_from([V4, V6]),
)
def test_properties_are_found_in_every_form_of_a_record(properties, body, topic, host):
    raw = memoryview(record(properties, topic=topic, host=host, body=body))
    assert raw_properties(raw) == RecordView(raw).raw_properties == properties


def test_a_record_that_cannot_be_read_is_not_withheld():
    wanted = record_filter(compile_sql92("a = 1"))
    assert wanted.match_record is not None
    assert wanted.match_record(memoryview(record(b"a\x011\x02"))) is True
    assert wanted.match_record(memoryview(record(b"a\x012\x02"))) is False
    assert wanted.match_record(memoryview(b"\x00" * 60)) is True
    assert wanted.match_record(memoryview(record(b"a\x012\x02"))[:90]) is True


def subscription(topic: str, sql: str, version: int, kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=sql, sub_version=version, expression_type=kind)


class FiltersOfOneGroup(RuleBasedStateMachine):
    """Against a plain model of Java's rules: topic to (expression, version, alive)."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.table = FilterTable(self.clock, None)
        self.model: dict[str, tuple[str, int, bool]] = {}

    @rule(
        topic=st.sampled_from("tu"),
        sql=st.sampled_from(["a > 1", "a > 2", "a >"]),
        version=st.integers(1, 4),
        kind=st.sampled_from(["SQL92", "SQL92", "TAG"]),
    )
    def heartbeat(self, topic: str, sql: str, version: int, kind: str) -> None:
        self.table.register("g", [subscription(topic, sql, version, kind)], self.clock.now_ms())
        known = self.model.get(topic)
        if kind == "SQL92":
            if known is None or (version > known[1] and sql != known[0]):
                self.model.pop(topic, None)
                if sql != "a >":
                    self.model[topic] = (sql, version, True)
            elif version >= known[1]:
                self.model[topic] = (known[0], version, True)
        for other, (expression, at, _) in list(self.model.items()):
            if other != topic:
                self.model[other] = (expression, at, False)

    @rule()
    def the_last_member_leaves(self) -> None:
        self.table.unregister("g", self.clock.now_ms())
        self.model = {topic: (sql, version, False) for topic, (sql, version, _) in self.model.items()}

    @rule()
    def a_restart(self) -> None:
        content = ConsumerFilterWrapper.decode(self.table.content().encode())
        self.table = FilterTable(self.clock, None)
        self.table.load(content)
        self.model = {topic: (sql, version, False) for topic, (sql, version, _) in self.model.items()}

    @rule()
    def a_day_passes(self) -> None:
        self.clock.advance(100)
        self.table.clean(self.clock.now_ms(), 100)
        self.model = {topic: known for topic, known in self.model.items() if known[2]}

    @invariant()
    def they_agree(self) -> None:
        for topic in "tu":
            found = self.table.get("g", topic)
            state = None if found is None else (found.data.expression, found.data.client_version, not found.is_dead)
            assert state == self.model.get(topic)
        self.table.check_invariants()


TestFiltersOfOneGroup = FiltersOfOneGroup.TestCase


def test_texts_are_compiled_once_and_forgotten_when_too_many(monkeypatch):
    table = FilterTable(ManualClock(), None)
    assert table.compiled("SQL92", "a > 1") is table.compiled("SQL92", "a > 1")
    calls = []
    monkeypatch.setattr(
        "sprocketmq.broker.delivery.filters.compile_sql92", lambda text: calls.append(text) or compile_sql92(text)
    )
    for _ in range(3):
        with pytest.raises(ConfigurationError, match="where the expression cannot end"):
            table.compiled("SQL92", "a >")
    assert calls == ["a >"]
    assert not any(isinstance(known, Exception) for known in table._compiled.values())  # they hold the parser's frames
    for number in range(1500):
        table.compiled("SQL92", f"a > {number}")
    assert len(table._compiled) <= 1024
    for number in range(40):
        table.compiled("SQL92", f"a = {number}" + " OR a = 1" * 400)
    assert sum(len(text) for _, text in table._compiled) <= 128 * 1024


def test_the_filters_of_all_groups_together_have_a_bound():
    table = FilterTable(ManualClock(), None)
    for number in range(100):
        table.register(f"g{number}", [subscription("t", f"a = {number}" + " " * 16_000, 1)], 1)
    lengths = [len(known.data.expression) for group in table._by_group.values() for known in group.values()]
    assert 30 <= len(lengths) <= 32
    table.register("g0", [subscription("t", "a = 1", 2)], 2)
    table.register("g99", [subscription("t", "a = 1" + " " * 15_000, 2)], 2)
    assert table.get("g99", "t") is not None


def test_a_topic_that_is_named_again_and_again_is_compiled_once(monkeypatch):
    table, calls = FilterTable(ManualClock(), None), []
    monkeypatch.setattr(
        "sprocketmq.broker.delivery.filters.compile_sql92", lambda text: calls.append(text) or compile_sql92(text)
    )
    table.register("g", [subscription("t", f"a > {number}", number) for number in (1, 3, 2)], 1)
    assert calls == ["a > 3"]


def test_a_stored_filter_that_cannot_be_compiled_is_left_out():
    table = FilterTable(ManualClock(), None)
    table.load(
        ConsumerFilterWrapper.decode(
            b'{"filterDataByTopic":{"t":{"groupFilterData":{'
            b'"good":{"bornTime":5,"clientVersion":1,"consumerGroup":"good","deadTime":0,"expression":"a>1","expressionType":"SQL92","topic":"t",'
            b'"bloomFilterData":{"bitNum":64,"bitPos":[1,2]}},'
            b'"bad":{"bornTime":5,"clientVersion":1,"consumerGroup":"bad","deadTime":0,"expression":"a>","expressionType":"SQL92","topic":"t"}},"topic":"t"}}}'
        )
    )
    assert table.get("bad", "t") is None
    good = table.get("good", "t")
    assert good is not None
    assert good.is_dead
    assert b'"bitPos":[1,2]' in table.content().encode().replace(b" ", b"")


def test_a_probe_judges_each_message_once_and_gives_up_at_the_scan_limit():
    store = MessageStore(StoreConfig(max_filter_units=10))
    store.load()
    judged: list[bytes] = []
    wanted = record_filter(lambda raw: judged.append(raw) or b"yes" in raw)

    def put(name: str, count: int = 1) -> None:
        properties = encode_properties({name: "1"})
        for _ in range(count):
            store.append(
                StoredMessage("flights", 0, b"body", properties, born_timestamp_ms=1, born_host=V4, store_host=V4), 1
            )

    put("first")
    header = PullMessageRequestHeader("g", "flights", 0, 1, 32, 2, 0, 15_000, 0)
    probe = ArrivalProbe(store, header, wanted)
    put("no", 3)
    assert not probe(0)
    assert not probe(7), "nothing new: the same turn of the loop brought another tag"
    put("no", 2)
    assert not probe(0)
    assert len(judged) == 5
    put("yes")
    assert probe(0)
    put("no", 20)
    assert ArrivalProbe(store, PullMessageRequestHeader("g", "flights", 0, 7, 32, 2, 0, 15_000, 0), wanted)(0), (
        "ten of twenty were looked at: the pull is run, its client sees how far it got"
    )
