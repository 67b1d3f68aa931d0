"""Whatever goes a short way is stored and answered, byte for byte, as on the long way: the same frames go to two brokers."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from written_to import WrittenTo

from sprocketmq.broker import Broker, lazy_imports
from sprocketmq.broker.plain_batches import PlainBatches
from sprocketmq.broker.plain_sends import PlainSends
from sprocketmq.broker.short_ways import ShortWays
from sprocketmq.broker.tables.consumers import Member
from sprocketmq.broker.tables.stamps import Stamps
from sprocketmq.core.group.subscription import parse_tag_expression
from sprocketmq.net.address import packed_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.bodies import ConsumerData
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.uniform_batch import UniformBatch

NOW_MS = 1_795_276_800_000
TOPICS = ("plain", "wide", "locked")


@pytest.fixture(scope="module", autouse=True)
def nothing_is_loaded_late() -> Iterator[None]:
    """Else the first filter of a run may find its parser at one side, and wait for it at the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_imports, "_loaded", set(lazy_imports.Library))
        yield


class Side:
    """One of the two brokers, with what its client sees and its store holds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, short: bool) -> None:
        self.loop, self.broker = loop, Broker(clock=ManualClock(NOW_MS))
        self.broker.store.load()
        stamps = Stamps(self.broker.config, "127.0.0.1", 10911)
        stamps._unique_key_prefix = "7F0000010000"
        self.broker.stamps = stamps
        for topic, queues in zip(TOPICS, (4, 20, 1), strict=True):
            self.broker.topics.create_if_absent(topic, queues, NOW_MS)
        self.short_ways = ShortWays(self.broker)
        self.short = short

    def feed(self, data: bytes, host: str = "127.0.0.1") -> tuple[bytes, bool]:
        async def take() -> tuple[bytes, bool]:
            peer = WrittenTo(host)
            connection = Connection(self.broker._handle, short_ways=self.short_ways if self.short else dict)
            connection.connection_made(peer)  # type: ignore[arg-type]
            self.broker._connection_opened(connection)
            connection.data_received(data)
            await asyncio.sleep(0)
            self.broker.parked.connection_closed(connection)
            return peer.written, peer.closed

        return self.loop.run_until_complete(take())

    def stored(self) -> list[Any]:
        store = self.broker.store
        found: list[Any] = [store.max_physical_offset]
        for topic, queue_id in store.queues():
            found += [
                (topic, queue_id, unit, bytes(store.record_at(unit.physical_offset) or b""))
                for unit in store.units(topic, queue_id, 0, 1 << 20)
            ]
        counters = self.broker.counters
        tallies = {**counters.puts, **counters.gets}
        return [*found, {key: (tally.messages, tally.bytes, tally.requests) for key, tally in tallies.items()}]

    def traces(self) -> tuple[Any, ...]:
        """What pulls leave behind."""
        offsets, counters = self.broker.offsets, self.broker.counters
        return (
            offsets._committed,
            offsets._pulled,
            offsets.resets,
            counters.pulled,
            self.broker.consumers._compensated_subscriptions,
        )


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    loop = asyncio.new_event_loop()
    yield Side(loop, short=True), Side(loop, short=False)
    loop.close()


def frame(header: dict[str, Any], body: bytes = b"", text: bytes | None = None) -> bytes:
    head = text if text is not None else json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


def send_fields(**changed: Any) -> dict[str, Any]:
    fields = dict(
        zip(
            "abcdefghijkm",
            ("producers", "plain", "TBW102", "4", "1", "0", "1795276800000", "0", PROPERTIES, "0", "false", "false"),
            strict=True,
        )
    )
    fields.update(changed)
    return {name: value for name, value in fields.items() if value is not None}


def send_frame(body: bytes = b"body", /, code: int = 310, flag: int = 0, **changed: Any) -> bytes:
    header = {"code": code, "extFields": send_fields(**changed), "flag": flag, "language": "JAVA", "opaque": 7}
    return frame({**header, "serializeTypeCurrentRPC": "JSON", "version": 409}, body)


PROPERTIES = "UNIQ_KEY\x01AC1F00010001\x02WAIT\x01true\x02TAGS\x01A\x02"
NAMES = (
    "UNIQ_KEY",
    "KEYS",
    "TAGS",
    "WAIT",
    "CLUSTER",
    "TRACE_ON",
    "MSG_REGION",
    "X_UNIQ_KEY",
    "MYTAGS",
    "own",
    "POP_CK",
    "DELAY",
)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00\x01\x02", exclude_categories=("Cs",)), max_size=12
)
PAIRS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(st.sampled_from(("A", "true", "false", "0")), TEXTS)), max_size=6
)


@st.composite
def properties(draw: st.DrawFn) -> str | None:
    pairs = [(name, "" if name == "DELAY" and value != "0" else value) for name, value in draw(PAIRS)]
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return draw(st.sampled_from((text, text[:-1], text + PROPERTIES, PROPERTIES + text, PROPERTIES, None)))


ODD_NUMBERS = st.sampled_from(
    ("0", "1", "3", "007", " 1", "1_0", "+1", "٣", "", "x", "19", "99999999999", "4095", "4096")
)
ODD_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "b": st.sampled_from((*TOPICS, "unknown", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "")),
        "d": ODD_NUMBERS,
        "e": ODD_NUMBERS,
        "f": st.sampled_from(("0", "1", "2", "257", "4", "16", "-1", "x", "2048")),
        "g": st.one_of(ODD_NUMBERS, st.just("1795276800001"), st.just("9" * 19), st.just("٣" * 13)),
        "h": ODD_NUMBERS,
        "i": properties(),
        "j": st.sampled_from(("0", "3", None, "x")),
        "k": st.sampled_from(("false", "true", None, "x")),
        "l": st.sampled_from(("0", "16", None, "x", "-1")),
        "m": st.sampled_from(("false", None, "x")),
        "n": st.sampled_from(("broker-a", None)),
        "a": st.sampled_from(("producers", None)),
        "z": st.just("nobody knows this field"),
    },
)


# Mostly with one odd thing: where everything is odd, the first check hides the others.
SENDS = (
    ODD_FIELDS | st.fixed_dictionaries({"i": properties()}) | ODD_FIELDS.map(lambda odd: dict(list(odd.items())[:1]))
)
ODD_SENDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one-way": {"flag": 2},
    "retried": {"j": "3"},
    "delayed": {"i": PROPERTIES + "DELAY\x011\x02"},
    "delayed at level 0": {"i": PROPERTIES + "DELAY\x010\x02"},
    "timed": {"i": PROPERTIES + "TIMER_DELAY_SEC\x015\x02"},
    "half": {"i": PROPERTIES + "TRAN_MSG\x01true\x02", "f": "4"},
    "prepared": {"f": "4"},
    "popped": {"i": PROPERTIES + "POP_CK\x01x\x02"},
    "quote in the key": {"i": PROPERTIES.replace("AC1F", 'A"1F')},
    "backslash in the key": {"i": PROPERTIES.replace("AC1F", "A\\1F")},
    "letters of another script in the key": {"i": PROPERTIES.replace("AC1F", "ключ")},
    "a name in the key": {"i": PROPERTIES.replace("AC1F", "DELAY\x01")},
    "no key": {"i": "TAGS\x01A\x02"},
    "an empty key": {"i": "UNIQ_KEY\x01\x02TAGS\x01A\x02"},
    "two keys": {"i": PROPERTIES + "UNIQ_KEY\x01second\x02"},
    "a second key that is the probe": {"i": PROPERTIES + "UNIQ_KEY\x010\x02"},
    "another name that ends alike, and the probe": {"i": "X_UNIQ_KEY\x01A\x02UNIQ_KEY\x010\x02"},
    "key last without its end": {"i": "TAGS\x01A\x02UNIQ_KEY\x01AC1F"},
    "another name that ends alike": {"i": "X_UNIQ_KEY\x01other\x02" + PROPERTIES},
    "other tags": {"i": PROPERTIES.replace("TAGS\x01A", "TAGS\x01B")},
    "no properties": {"i": None},
    "marks of another broker": {"i": PROPERTIES + "CLUSTER\x01far\x02TRACE_ON\x01false\x02"},
    "long properties": {"i": PROPERTIES + "own\x01" + "x" * 32_700 + "\x02"},
    "unknown topic": {"b": "unknown"},
    "retry topic": {"b": "%RETRY%g"},
    "the broker's own topic": {"b": "SCHEDULE_TOPIC_XXXX"},
    "a queue too many": {"e": "4"},
    "a batch of one by the flag": {"m": "true"},
    "IPv6 bit": {"f": "16"},
    "compressed": {"f": "257"},
    "a header field missing": {"a": None},
    "a number with an underscore": {"h": "1_0"},
}


@pytest.mark.parametrize("name", ODD_SENDS)
def test_one_odd_thing_about_a_send_leaves_it_as_it_is_on_the_long_way(sides: tuple[Side, Side], name: str) -> None:
    short, long = sides
    # A plain one first, so that what is remembered of it is there; the odd one twice, as it may be remembered too.
    data = send_frame() + send_frame(**ODD_SENDS[name]) + send_frame(**ODD_SENDS[name]) + send_frame()
    assert short.feed(data) == long.feed(data)
    assert short.stored() == long.stored()


@settings(max_examples=150, deadline=None)
@example([({"i": "UNIQ_KEY\x01A\x02UNIQ_KEY\x010\x02"}, b"x", 0)])
@given(
    st.lists(
        st.tuples(SENDS, st.sampled_from((b"", b"x", b"body" * 300)), st.sampled_from((0, 2))), min_size=1, max_size=5
    )
)
def test_a_send_is_stored_and_answered_as_on_the_long_way(requests: list[tuple[dict[str, Any], bytes, int]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        short, long = Side(loop, short=True), Side(loop, short=False)
        data = b"".join(send_frame(body, flag=flag, **fields) for fields, body, flag in requests)
        assert short.feed(data) == long.feed(data)
        assert short.stored() == long.stored()
    finally:
        loop.close()


@pytest.mark.parametrize(
    "text",
    [
        b'{"code":310,"extFields":null,"opaque":1}',
        b'{"code":310,"extFields":{"a":"p"},"opaque":1}',
        b'{"code":310,"opaque":1',
        b'{"code":310,"code":11,"extFields":{},"opaque":1}',
        b'{"code":310,"extFields":{"b":"\xff\xfe"},"opaque":1}',
        b'{"code":11,"extFields":{"topic":"plain"},"opaque":1}',
        b'{"code":11,"extFields":' + b"[" * 5000 + b"}",
        b"",
    ],
)
def test_a_header_that_cannot_be_read_is_refused_as_on_the_long_way(sides: tuple[Side, Side], text: bytes) -> None:
    short, long = sides
    data = frame({}, b"body", text) + send_frame()
    assert short.feed(data) == long.feed(data)
    assert short.stored() == long.stored()


def test_the_short_way_is_taken_at_all(sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = sides
    taken: list[bytes | None] = []
    way = PlainSends.send
    monkeypatch.setattr(PlainSends, "send", lambda *args: taken.append(way(*args)) or taken[-1])
    side = Side(short.loop, short=True)
    side.feed(send_frame() + send_frame(e="2") + send_frame(i=PROPERTIES.replace("0001", "7777")))
    assert len(taken) == 3
    assert all(taken)


@pytest.mark.parametrize("close", ["intercept", "handler", "permission", "durable"])
def test_nothing_takes_the_short_way_past_what_stands_in_front(
    sides: tuple[Side, Side], close: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, _ = sides
    broker = short.broker
    assert {b"310,", b"320,"} <= short.short_ways().keys()
    if close == "intercept":
        broker.intercept = lambda connection, command, handler: None
    elif close == "handler":
        broker.before_request(310, lambda connection, command: None)
        assert b"320," in short.short_ways()
        broker.before_request(320, lambda connection, command: None)
    elif close == "permission":
        broker.config = msgspec.structs.replace(broker.config, broker_permission=4)
    else:
        monkeypatch.setattr(type(broker), "sends_wait", True)
    assert not {b"310,", b"320,"} & short.short_ways().keys()


async def woken(peer: WrittenTo) -> None:
    while b"wakes" not in peer.written:
        await asyncio.sleep(0.001)


def test_a_parked_pull_is_woken_by_a_send_on_the_short_way(sides: tuple[Side, Side]) -> None:
    short, _ = sides

    async def both() -> bytes:
        peer = WrittenTo()
        connection = Connection(short.broker._handle, short_ways=short.short_ways)
        connection.connection_made(peer)  # type: ignore[arg-type]
        short.broker._connection_opened(connection)
        connection.data_received(pull_frame(sysFlag="6"))
        assert peer.written == b""
        connection.data_received(send_frame(b"wakes", e="0"))
        await asyncio.wait_for(woken(peer), 60)
        return peer.written

    assert short.loop.run_until_complete(both()).count(b"wakes") == 1


def pull_frame(**changed: Any) -> bytes:
    fields = {
        "commitOffset": "0",
        "consumerGroup": "g",
        "expressionType": "TAG",
        "maxMsgNums": "32",
        "queueId": "0",
        "queueOffset": "0",
        "subVersion": "0",
        "subscription": "*",
        "suspendTimeoutMillis": "15000",
        "sysFlag": "4",
        "topic": "plain",
        **changed,
    }
    ext = {name: value for name, value in fields.items() if value is not None}
    return frame({"code": 11, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 9, "version": 409})


PULLS = st.fixed_dictionaries(
    {},
    optional={
        "queueId": ODD_NUMBERS,
        "queueOffset": st.one_of(ODD_NUMBERS, st.just("-1")),
        "maxMsgNums": st.sampled_from(("32", "1", "0", "-5", "100000")),
        "commitOffset": st.sampled_from(("1", "x")),
        "sysFlag": st.sampled_from(("4", "0", "0", "1", "5", "6", "7", "x")),
        "subscription": st.sampled_from(("*", "A", "A || B", "||", None, "")),
        "expressionType": st.sampled_from(("TAG", None, "SQL92", "odd")),
        "maxMsgBytes": st.sampled_from(("1", "300", "-1", "x", None)),
        "topic": st.sampled_from((*TOPICS, "unknown", "")),
        "consumerGroup": st.sampled_from(("g", "all", "all", "some", "crowd", "gone", "silent", None, "")),
        "subVersion": st.sampled_from(("0", "5", "6")),
        "suspendTimeoutMillis": st.sampled_from(("0", "-1", "20000")),
        "bname": st.just("broker-a"),
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PULLS, min_size=1, max_size=4))
def test_a_pull_is_answered_as_on_the_long_way(requests: list[dict[str, Any]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        short, long = Side(loop, short=True), Side(loop, short=False)
        sends = b"".join(send_frame(b"%d" % number * size, e=str(number % 2)) for number, size in enumerate(SIZES))
        assert short.feed(sends) == long.feed(sends)
        for side in (short, long):
            join(side)
        for fields in requests:  # twice: what the first one noted lets the second go the short way
            data = pull_frame(**fields) * 2
            assert short.feed(data) == long.feed(data)
            assert short.traces() == long.traces()
        assert short.stored() == long.stored()
    finally:
        loop.close()


SIZES = (1, 1, 1, 1, 300, 1, 30_000, 5_000, 70_000, 1, 40_000, 2, 1, 30_000)


def join(side: Side) -> None:
    """Groups whose members said in a heartbeat what they want of topic ``plain``."""
    broker = side.broker
    for group, tags, model in (
        ("all", "*", "CLUSTERING"),
        ("some", "B", "CLUSTERING"),
        ("crowd", "*", "BROADCASTING"),
        ("silent", "*", "CLUSTERING"),
    ):
        found = broker.groups.find(group, NOW_MS)
        assert found is not None
        found.consume_enable, found.consume_broadcast_enable = group != "silent", False
        wanted = parse_tag_expression("plain", tags, 5)
        member = Member(Connection(), group, "JAVA", 409, NOW_MS)
        broker.consumers.register(
            member, ConsumerData(group_name=group, message_model=model, subscription_data_set=[wanted]), notify=False
        )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"consumerGroup": "all", "sysFlag": "1", "commitOffset": "2"},
        {"queueId": "1", "maxMsgNums": "2"},
        {"queueId": "1", "maxMsgBytes": "1"},
    ],
)
def test_the_short_way_of_pulls_is_taken_at_all_and_leaves_the_same_traces(
    sides: tuple[Side, Side], fields: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = sides
    for side in sides:
        join(side)
        side.feed(send_frame(e="0") * 3 + send_frame(e="1") * 3 + pull_frame())
    expected = long.feed(pull_frame(**fields))
    monkeypatch.setattr("sprocketmq.broker.plain_pulls.answer_pull", lambda *_, **__: pytest.fail("the long way"))
    assert short.feed(pull_frame(**fields)) == expected
    assert short.traces() == long.traces()


CLOSED: dict[str, Callable[[Broker], object]] = {
    "the broker": lambda broker: setattr(broker, "config", msgspec.structs.replace(broker.config, broker_permission=2)),
    "pull consumers": lambda broker: setattr(
        broker, "config", msgspec.structs.replace(broker.config, reject_pull_consumer_enable=True)
    ),
    "slaves": lambda broker: setattr(broker, "config", msgspec.structs.replace(broker.config, slave_read_enable=True)),
    "the topic": lambda broker: setattr(broker.topics.get("plain"), "perm", 2),
    "the queue": lambda broker: setattr(broker.topics.get("plain"), "read_queue_nums", 0),
    "the group": lambda broker: setattr(broker.groups.table["all"], "consume_enable", False),
    "the group's topic": lambda broker: broker.groups.set_readable("all", "plain", False, NOW_MS),
    "a reset": lambda broker: broker.offsets.reset("all", "plain", 0, 1),
    "the minute that is over": lambda broker: broker.clock.advance(60_001),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("sys_flag", ["0", "4"])
def test_one_odd_thing_about_a_pull_leaves_it_as_it_is_on_the_long_way(
    sides: tuple[Side, Side], name: str, sys_flag: str
) -> None:
    for side in sides:
        join(side)
    short, long = sides
    pull = pull_frame(consumerGroup="all", sysFlag=sys_flag)
    data = send_frame(e="0") * 3 + pull
    assert short.feed(data) == long.feed(data)
    for side in sides:
        CLOSED[name](side.broker)
    assert short.feed(pull) == long.feed(pull)
    assert short.traces() == long.traces()


# -- batches -------------------------------------------------------------------------------------------------------------------


def element(body: bytes, raw: bytes, flag: int = 0, magic: int = 0) -> bytes:
    size = 22 + len(body) + len(raw)
    return struct.pack(">iiiii", size, magic, 0, flag, len(body)) + body + struct.pack(">H", len(raw)) + raw


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Mostly elements that look alike, and every way in which one may not."""
    count = draw(st.integers(2, 12))
    body_bytes = draw(st.sampled_from((0, 1, 60, 200)))
    names = draw(st.lists(st.sampled_from(("KEYS", "TAGS", "WAIT", "own", "CLUSTER", "DELAY", "UNIQ_KEY")), max_size=4))
    values = st.binary(min_size=4, max_size=4).filter(lambda value: draw(st.integers(0, 9)) == 0 or min(value) > 2)
    fixed = {name: draw(st.sampled_from((b"same", b"true", b"\x01\x01aa"))) for name in names}
    varying = draw(st.sets(st.sampled_from(("UNIQ_KEY", "KEYS", "TAGS", "own")), max_size=3)) | {"UNIQ_KEY"}
    parts = []
    for _ in range(count):
        raw = b"".join(
            name.encode() + b"\x01" + (draw(values) if name in varying else fixed[name]) + b"\x02"
            for name in ("UNIQ_KEY", *names)
        )
        parts.append(
            element(
                draw(st.binary(min_size=body_bytes, max_size=body_bytes)), raw, draw(st.sampled_from((0, 0, 5, -1)))
            )
        )
    odd = draw(st.sampled_from(("", "", "", "longer", "cut", "no key")))
    if odd == "longer":
        parts.append(element(b"a body of another length", b"UNIQ_KEY\x01k\x02"))
    elif odd == "no key":
        parts = [element(b"b" * body_bytes, b"TAGS\x01A\x02")] * count
    data = b"".join(parts)
    return data[:-1] if odd == "cut" else data


@settings(max_examples=150, deadline=None)
@given(
    batches(),
    st.sampled_from(("", "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02", "CLUSTER\x01mine")),
    st.sampled_from(("0", "1", "4")),
)
def test_a_batch_that_looks_alike_is_stored_and_answered_as_its_messages_one_by_one(
    data: bytes, common: str, flag: str
) -> None:
    loop = asyncio.new_event_loop()
    try:
        assert_batch_is_as_one_by_one(loop, data, i=common, f=flag)
    finally:
        loop.close()


def alike(number: int, *, key: bytes = b"", tags: bytes = b"A", flag: int = 0, keys: bytes = b"order") -> bytes:
    raw = b"UNIQ_KEY\x01" + (key or b"%08d" % number) + b"\x02KEYS\x01" + keys + b"\x02TAGS\x01" + tags + b"\x02"
    return element(b"%060d" % number, raw, flag)


@pytest.mark.parametrize(
    ("odd", "is_uniform"),
    [
        (alike(9), True),
        (alike(9, flag=7), True),
        (alike(9, keys=b"other"), True),
        (alike(9, tags=b"B"), False),
        (alike(9, key=b"a\x02TAGS\x01C"), False),
        (alike(9, key=b"k\x02\x01\x02\x01xy"), False),
        (alike(9, key=b"short"), False),
        (alike(9)[:-1], False),
        (element(b"%060d" % 9, b""), False),
    ],
)
def test_one_odd_message_of_a_batch_leaves_it_as_it_is_one_by_one(odd: bytes, is_uniform: bool) -> None:
    data = b"".join([alike(number) for number in range(20)]) + odd
    assert (UniformBatch.of(data) is not None) is is_uniform
    loop = asyncio.new_event_loop()
    try:
        assert_batch_is_as_one_by_one(loop, data)
    finally:
        loop.close()


def assert_batch_is_as_one_by_one(loop: asyncio.AbstractEventLoop, data: bytes, **fields: str) -> None:
    short, fast, slow = Side(loop, short=True), Side(loop, short=False), Side(loop, short=False)
    request = send_frame(data, code=320, **{"i": "", "m": "true", **fields})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sprocketmq.broker.handlers.messages.send._UNIFORM_FROM_BYTES", 1 << 30)
        answer = slow.feed(request + request)
        patch.setattr("sprocketmq.broker.handlers.messages.send._UNIFORM_FROM_BYTES", 0)
        patch.setattr("sprocketmq.broker.plain_batches._FROM_BYTES", 1)
        assert fast.feed(request + request) == answer
        assert short.feed(request + request) == answer
    assert fast.stored() == slow.stored()
    assert short.stored() == slow.stored()


@pytest.mark.parametrize("name", [name for name in ODD_SENDS if not {"i", "flag"} & ODD_SENDS[name].keys()])
def test_one_odd_thing_about_a_batch_leaves_it_as_it_is_on_the_long_way(sides: tuple[Side, Side], name: str) -> None:
    short, long = sides
    body = b"".join([alike(number) for number in range(20)])
    fields = {"i": "", "m": "true", **ODD_SENDS[name]}
    data = b"".join(send_frame(body, code=320, **odd) for odd in ({"i": "", "m": "true"}, fields, fields))
    assert short.feed(data) == long.feed(data)
    assert short.stored() == long.stored()


COMMON = (
    "",
    "WAIT\x01true\x02",
    "WAIT\x01false\x02",
    "CLUSTER\x01far\x02TRACE_ON\x01false",
    "UNIQ_KEY\x01x\x02",
    "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02",  # as 5.4.0's client
    "WAIT\x01true",  # as 4.9's
    "WAIT\x01true\x02WAIT\x01true",
    "WAIT\x01true\x02UNIQ_KEY\x01last",
    "UNIQ_KEY\x01first\x02UNIQ_KEY\x01second\x02",
    "UNIQ_KEY\x01first\x02UNIQ_KEY\x010\x02",
    "X_UNIQ_KEY\x01other\x02",
    "X_UNIQ_KEY\x01other\x02UNIQ_KEY\x010",
    "UNIQ_KEY\x01\x02",
    'UNIQ_KEY\x01"\x02',
    "UNIQ_KEY\x01é\x02",
    "UNIQ_KEY\x01x\x02DELAY\x011\x02",
    "UNIQ_KEY\x01x\x02TIMER_DELIVER_MS\x011\x02",
    "TAGS\x01Z\x02",
    None,
)
ELEMENTS = (
    b"UNIQ_KEY\x01%08d\x02TAGS\x01A\x02",
    b"UNIQ_KEY\x01%08d\x02TAGS\x01A",
    b"TAGS\x01A\x02KEYS\x01k\x02UNIQ_KEY\x01%08d",
    b"UNIQ_KEY\x01%08d\x02UNIQ_KEY\x010\x02",
    b"UNIQ_KEY\x01%08d\x02UNIQ_KEY\x01\x02WAIT\x01true\x02WAIT\x01true\x02",
    b"number\x010\x02KEYS\x01key-%08d\x02WAIT\x01true\x02TAGS\x01A",
    b"UNIQ_KEY\x01%08d\x02DELAY\x011\x02",
    b"UNIQ_KEY\x01%08d\x02DELAY\x010\x02",
    b"UNIQ_KEY\x01%08d\x02TIMER_DELAY_SEC\x011\x02",
    b'UNIQ_KEY\x01"%08d\x02',
    "UNIQ_KEY\x01é%08d\x02".encode(),
    b"KEYS\x01%08d\x02",
    b"X_UNIQ_KEY\x01%08d\x02",
    b"X_UNIQ_KEY\x01a\x02UNIQ_KEY\x01%08d\x02",
    b"UNIQ_KEY\x01%08d\x02own\x01" + b"x" * 32_700 + b"\x02",
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            ODD_FIELDS.filter(len) | st.just({}),
            st.sampled_from(ELEMENTS),
            st.sampled_from(COMMON),
            st.sampled_from((0, 0, 2)),
            st.sampled_from((b"", b"body" * 5)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_batch_is_stored_and_answered_as_on_the_long_way(
    requests: list[tuple[dict[str, Any], bytes, str | None, int, bytes]],
) -> None:
    loop = asyncio.new_event_loop()
    try:
        short, long = Side(loop, short=True), Side(loop, short=False)
        data = b""
        for fields, raw, common, flag, part in requests:
            body = b"".join([element(part, raw % number, number % 3) for number in range(3)])
            data += send_frame(body, code=320, flag=flag, **{"m": "true", **fields, "i": common})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sprocketmq.broker.plain_batches._FROM_BYTES", 1)
            assert short.feed(data) == long.feed(data)
        assert short.stored() == long.stored()
    finally:
        loop.close()


@pytest.mark.parametrize("common", COMMON)
def test_what_a_batch_says_of_itself_counts_as_on_the_long_way(sides: tuple[Side, Side], common: str | None) -> None:
    short, long = sides
    body = b"".join([alike(number) for number in range(20)])
    # Each twice, as it may be remembered; the plain ones between, so that there is something to mix it up with.
    data = b"".join(send_frame(body, code=320, i=i, m="true") for i in ("", common, "UNIQ_KEY\x01other\x02", common))
    assert short.feed(data) == long.feed(data)
    assert short.stored() == long.stored()


@pytest.mark.parametrize("host", ["::1", "fe80::1%eth0", "::ffff:10.0.0.7"])
def test_what_an_ipv6_client_sends_is_stored_and_answered_as_on_the_long_way(
    sides: tuple[Side, Side], host: str
) -> None:
    short, long = sides
    body = b"".join([alike(number) for number in range(20)])
    batch = send_frame(body, code=320, i="UNIQ_KEY\x01K\x02WAIT\x01true\x02", m="true")
    data = send_frame() + batch + send_frame(i=PROPERTIES.replace("0001", "7777")) + batch
    assert short.feed(data, host) == long.feed(data, host)
    assert short.stored() == long.stored()
    assert {RecordView(entry[3]).born_host[0] for entry in short.stored()[1:-1]} == {packed_address((host, 1))[0]}


def test_the_short_way_of_a_batch_is_taken_at_all(sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = sides
    taken: list[bytes | None] = []
    way = PlainBatches.send
    monkeypatch.setattr(PlainBatches, "send", lambda *args: taken.append(way(*args)) or taken[-1])
    side = Side(short.loop, short=True)
    side.feed(
        b"".join(
            send_frame(b"".join([alike(n) for n in range(20)]), code=320, i=i, m="true")
            for i in ("", "WAIT\x01true", "UNIQ_KEY\x01A1\x02WAIT\x01true\x02", "UNIQ_KEY\x01B2\x02WAIT\x01true\x02")
        )
    )
    assert len(taken) == 4
    assert all(taken)


def test_telemetry_is_a_batch_that_looks_alike() -> None:
    parts = [
        element(b"%060d" % n, b"UNIQ_KEY\x01%032X\x02KEYS\x01order-%06d\x02TAGS\x01A\x02" % (n, n)) for n in range(50)
    ]
    batch = UniformBatch.of(b"".join(parts))
    assert batch is not None
    assert batch.count == 50
    assert (
        UniformBatch.of(
            b"".join(
                [*parts, element(b"%060d" % 1, b"UNIQ_KEY\x01%032X\x02KEYS\x01order-%06d\x02TAGS\x01B\x02" % (1, 1))]
            )
        )
        is None
    )
