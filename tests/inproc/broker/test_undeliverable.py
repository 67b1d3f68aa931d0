# SPDX-License-Identifier: Apache-2.0
"""Messages that wait and can never be delivered: each kind of waiting with each reason. The next is delivered, the bad one is found."""

from __future__ import annotations

import errno

import msgspec
import pytest

from inproc.broker.test_broker_transactions import producer
from sprocketmq.broker.observe.metrics import collect_samples
from sprocketmq.core.resource_names import HALF_TOPIC, SCHEDULE_TOPIC, UNDELIVERABLE_TOPIC
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import StoredMessage
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import TRANSACTION_COMMIT_TYPE

MAX = props.MAX_PROPERTIES_BYTES
KINDS = (
    "delay level",
    "timer",
    "timer over",
    "timer far away",
    "half asked for",
    "half put back",
    "half given up",
    "half committed",
)
REASONS = {
    "a path": {"topic": "../../x"},
    "a folder in a folder": {"topic": "a/b"},
    "no text": {"topic": "\x00"},
    "a long topic": {"topic": "t" * 300},
    "no topic": {"topic": ""},
    "the delay levels": {"topic": SCHEDULE_TOPIC},
    "the timer": {"topic": TIMER_TOPIC},
    "the half messages": {"topic": HALF_TOPIC},
    "itself set aside": {"topic": UNDELIVERABLE_TOPIC},
    "many properties": {"filled": MAX},
    "bytes that are no text": {"extra": b"A\x01\xff\xfe\x02"},
    "numbers that are none": {
        "extra": "TRANSACTION_CHECK_TIMES\x01²\x02TIMER_ROLL_TIMES\x01²\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01²\x02".encode()
    },
    "numbers without end": {"extra": b"TRANSACTION_CHECK_TIMES\x01" + b"9" * 5000 + b"\x02TIMER_ROLL_TIMES\x01" + b"9" * 5000 + b"\x02"},
}  # fmt: skip


def waiting(kind, now_ms, *, topic="flights", filled=0, extra=b"", body=b"bad", key="bad"):
    """What waits, as the broker's own parking writes it."""
    own = {props.UNIQ_KEY: key}
    where = {props.REAL_TOPIC: topic, props.REAL_QID: "0"} if topic else {}
    place, queue_id, code, flag = SCHEDULE_TOPIC, 0, now_ms + 1_000, 0
    if kind.startswith("timer"):
        place, code = TIMER_TOPIC, 0
        at = {"timer": now_ms + 5_000, "timer over": now_ms - 5_000, "timer far away": now_ms + 3 * 86_400_000}[kind]
        own[props.TIMER_OUT_MS] = str(at // 1_000 * 1_000)
    elif kind.startswith("half"):
        place, code = HALF_TOPIC, 0
        own |= {props.TRAN_MSG: "true", props.PGROUP: "producers"}
        if kind == "half put back":
            own[props.CHECK_IMMUNITY_TIME_IN_SECONDS] = "100000"
        if kind == "half given up":
            own[props.TRANSACTION_CHECK_TIMES] = "15"
    tail = props.encode_properties(where)
    raw = props.encode_properties(own) + extra
    room = filled - len(raw) - len(tail) - len("FILL\x01\x02")
    raw += f"FILL\x01{'f' * room}\x02".encode() * (room > 0) + tail
    host = (b"\x7f\x00\x00\x01", 1)
    return StoredMessage(place, queue_id, body, raw, 0, flag, now_ms, host, host, 0, 0, code)


def let_time_pass(cluster, kind):
    if kind.startswith("timer"):
        if kind == "timer far away":  # its slot is that of a roll, two days away
            cluster.clock.jump(2 * 86_400_000 + 3_600_000)
        cluster.clock.advance(20_000)
    elif kind.startswith("half"):
        cluster.clock.advance(150_000)
    else:
        cluster.clock.advance(5_000)


def end_halves(cluster, client):
    """COMMIT for all halves that are in the half queue."""
    for half in client.messages(HALF_TOPIC):
        client.end_transaction(half.queue_offset, half.commit_log_offset, TRANSACTION_COMMIT_TYPE)


def store(cluster, *messages):
    def put():
        for message in messages:
            cluster.broker.put(message, cluster.clock.now_ms())

    cluster.on_loop(put)


def arrived(client, topic):
    return [message.properties.get(props.UNIQ_KEY) for message in client.messages(topic)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_behind_those_that_can_never_be_delivered_is_delivered(disk_cluster, kind, caplog):
    """The broker finds all of them in its store at the start, one for each reason, and behind them a good one."""
    cluster = disk_cluster
    cluster.client().send("flights", b"first")
    now_ms = cluster.clock.now_ms()
    bad = [waiting(kind, now_ms, key=reason, **what) for reason, what in REASONS.items()]
    store(cluster, *bad, waiting(kind, now_ms, key="good", body=b"good"))
    cluster.restart_broker()
    client = producer(cluster, cluster.client())
    if kind != "half committed":
        let_time_pass(cluster, kind)
    if kind.startswith("half"):
        end_halves(cluster, client)
    elif kind == "timer far away":
        cluster.clock.jump(86_400_000)
        cluster.clock.advance(20_000)
    delivered, aside = arrived(client, "flights"), arrived(client, UNDELIVERABLE_TOPIC)
    given_up = arrived(client, "TRANS_CHECK_MAX_TIME_TOPIC")
    assert (given_up if kind == "half given up" else delivered).count("good") == 1, "the good one is held up"
    nowhere = {"no topic"} if kind.startswith("timer") else set()  # passed over with a line of log, as in Apache
    assert set(REASONS) - nowhere <= {*delivered, *aside, *given_up}, "none is lost without a word"
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    end = cluster.on_loop(lambda: cluster.broker.store.max_physical_offset)
    cluster.clock.advance(5_000)
    assert cluster.on_loop(lambda: cluster.broker.store.max_physical_offset) == end, "nothing goes round and round"


@pytest.mark.parametrize("made_again", [False, True])
@pytest.mark.parametrize("kind", ["delay level", "timer", "half asked for"])
def test_what_waits_for_a_topic_that_was_deleted_makes_no_topic(disk_cluster, tmp_path, kind, made_again):
    """A queue would be made for it, and the next start would take that for a topic whose configuration was lost."""
    cluster = disk_cluster
    client = producer(cluster, cluster.client())
    client.send("flights", b"first")
    store(cluster, waiting(kind, cluster.clock.now_ms(), key="late"))
    assert client.delete_topic("flights").code == 0
    if made_again:
        client.create_topic("flights", 1)
    let_time_pass(cluster, kind)
    end_halves(cluster, client)
    if made_again:
        assert arrived(client, "flights") == ["late"]
        return
    (aside,) = client.messages(UNDELIVERABLE_TOPIC)
    assert (aside.properties[props.UNIQ_KEY], aside.properties[props.REAL_TOPIC]) == ("late", "flights")
    cluster.kill()
    assert cluster.broker.topics.get("flights") is None
    assert ("flights", 0) not in cluster.broker.store.queues()


@pytest.mark.parametrize("kind", ["delay level", "timer", "half asked for", "half put back"])
def test_a_message_that_is_refused_temporarily_waits_and_is_not_set_aside(cluster, client, kind):
    client.send("flights", b"first")
    store(cluster, waiting(kind, cluster.clock.now_ms(), key="good"))
    refusal = StoreNotWritable("the disk is full")
    cluster.on_loop(lambda: cluster.broker.store.refuse_appends(refusal))
    let_time_pass(cluster, kind)
    cluster.on_loop(lambda: cluster.broker.store.refuse_appends(None))
    assert arrived(client, UNDELIVERABLE_TOPIC) == []
    let_time_pass(cluster, kind)
    end_halves(cluster, client)
    assert "good" in arrived(client, "flights")
    assert cluster.broker.undeliverable.counts == {}


@pytest.mark.parametrize("is_mended", [False, True])
@pytest.mark.parametrize("kind", ["delay level", "timer", "half committed"])
def test_a_topic_whose_own_folder_cannot_be_made_holds_up_the_others_for_a_minute_only(
    disk_cluster, tmp_path, kind, is_mended
):
    """What is in its way may be mended meanwhile; then nothing went aside."""
    cluster = disk_cluster
    client = producer(cluster, cluster.client())
    client.send("flights", b"first")
    in_the_way = tmp_path / "store" / "consumequeue" / "blocked"
    in_the_way.write_bytes(b"no folder")
    now_ms = cluster.clock.now_ms()
    store(cluster, waiting(kind, now_ms, topic="blocked", key="held"), waiting(kind, now_ms, key="good"))
    let_time_pass(cluster, kind)
    end_halves(cluster, client)
    assert arrived(client, UNDELIVERABLE_TOPIC) == []
    if is_mended:
        in_the_way.unlink()
    cluster.clock.advance(70_000)
    end_halves(cluster, client)
    aside = arrived(client, UNDELIVERABLE_TOPIC)
    if not is_mended:
        in_the_way.unlink()
    assert arrived(client, "flights").count("good") == 1
    assert aside == ([] if is_mended else ["held"])
    assert arrived(client, "blocked") == (["held"] if is_mended else [])


def refuse(cluster, monkeypatch, topic):
    """The files of one topic cannot be written, while the list that is returned is not empty."""
    put, blocked = cluster.broker.put, [topic]

    def refused(message, now_ms, **given):
        if message.topic in blocked:
            raise StoreNotWritable(f"no file for {topic}") from PermissionError(errno.EACCES, "not yours")
        return put(message, now_ms, **given)

    cluster.on_loop(lambda: monkeypatch.setattr(cluster.broker, "put", refused))
    return blocked


def test_a_half_whose_own_topic_cannot_be_written_waits_however_long(cluster, client, monkeypatch):
    """No other topic stands behind it, and what is set aside of a transaction is given up."""
    client.send("flights", b"first")
    store(cluster, waiting("half put back", cluster.clock.now_ms(), key="half"))
    blocked = refuse(cluster, monkeypatch, HALF_TOPIC)
    for _ in range(3):
        let_time_pass(cluster, "half put back")
        cluster.clock.advance(70_000)
    assert arrived(client, UNDELIVERABLE_TOPIC) == []
    blocked.clear()
    let_time_pass(cluster, "half put back")
    end_halves(cluster, client)
    assert "half" in arrived(client, "flights")


def test_a_queue_that_took_a_message_since_has_its_minute_again(cluster, client, monkeypatch):
    client.send("flights", b"first")
    blocked = refuse(cluster, monkeypatch, "flights")
    now_ms = cluster.clock.now_ms()
    store(cluster, waiting("delay level", now_ms, key="held"))
    cluster.clock.advance(50_000)
    blocked.clear()
    cluster.on_loop(lambda: cluster.broker.put(StoredMessage("flights", 0, b"sent", b""), cluster.clock.now_ms()))
    blocked.append("flights")
    cluster.clock.advance(30_000)
    assert arrived(client, UNDELIVERABLE_TOPIC) == [], "80 s after the first refusal, 30 s after the next one"
    cluster.clock.advance(60_000)
    assert arrived(client, UNDELIVERABLE_TOPIC) == ["held"]


def test_a_message_that_is_set_aside_has_its_reason_and_is_logged_and_counted(cluster, client, caplog):
    store(cluster, waiting("delay level", cluster.clock.now_ms(), topic="a/b"))
    cluster.clock.advance(5_000)
    (aside,) = client.messages(UNDELIVERABLE_TOPIC)
    assert aside.body == b"bad"
    assert aside.properties[props.REAL_TOPIC] == "a/b"
    assert "a/b" in aside.properties["UNDELIVERABLE_REASON"]
    assert cluster.broker.undeliverable.counts == {"a/b": 1}
    samples = cluster.on_loop(lambda: list(collect_samples(cluster.broker)))
    assert ("sprocketmq_undeliverable_messages_total", {"topic": "a/b"}, 1) in samples
    assert "set aside in rmq_sys_UNDELIVERABLE" in caplog.text
    assert client.send(UNDELIVERABLE_TOPIC).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_is_delivered_when_new_messages_must_be_smaller(disk_cluster, kind):
    """maxMessageSize was lowered meanwhile: it is a limit of what comes, and this is here."""
    cluster = disk_cluster
    cluster.client().send("flights", b"first")
    store(cluster, waiting(kind, cluster.clock.now_ms(), body=b"b" * 3_000, key="large"))
    cluster.config = msgspec.structs.replace(cluster.config, max_message_size=1_000)
    cluster.restart_broker()
    client = producer(cluster, cluster.client())
    let_time_pass(cluster, kind)
    end_halves(cluster, client)
    if kind == "timer far away":
        cluster.clock.jump(86_400_000)
        cluster.clock.advance(20_000)
    assert "large" in arrived(client, "flights")
    assert arrived(client, UNDELIVERABLE_TOPIC) == []
    assert client.send("flights", b"b" * 3_000).code == ResponseCode.MESSAGE_ILLEGAL


# -- the door --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cluster", [{"file_reserved_time": 1_000_000}], indirect=True
)  # halves of 1970 are not too old
@pytest.mark.parametrize(
    "properties",
    [
        {props.DELAY: "1"},
        {props.TIMER_DELAY_SEC: "2"},
        {props.TIMER_DELAY_SEC: str(3 * 86_400 - 60)},
        {props.TRAN_MSG: "true", props.PGROUP: "producers"},
    ],
    ids=["delay level", "timer", "far timer", "half"],
)
def test_an_accepted_message_is_delivered_whatever_the_size_of_its_properties(cluster, client, properties):
    """The largest that is taken, to the byte: its copies fit too, and one byte more is refused at the door."""
    producer(cluster, client)
    client.send("flights", b"first")

    def sent(size):
        return client.send(
            "flights", b"%d" % size, properties={**properties, props.UNIQ_KEY: "k", "FILL": "f" * size}
        ).code

    low, high = 30_000, MAX
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sent(middle) == 0 else (low, middle)
    assert sent(high) == ResponseCode.MESSAGE_ILLEGAL
    if props.TRAN_MSG in properties:
        for _ in range(3):
            cluster.clock.advance(60_000)
        end_halves(cluster, client)
    else:
        for _ in range(3):
            cluster.clock.jump(86_400_000)
            cluster.clock.advance(20_000)
    assert b"%d" % low in client.bodies()
    assert client.messages(UNDELIVERABLE_TOPIC) == []


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE_V2])
@pytest.mark.parametrize(
    "topic", ["a/b", "../..", "unknown", SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, UNDELIVERABLE_TOPIC, "flights"]
)
def test_a_timer_message_made_by_hand_goes_where_its_sender_may_send(cluster, client, topic, code):
    client.send("flights", b"first")
    queue_id = "99" if topic == "flights" else "0"
    named = {props.REAL_TOPIC: topic, props.REAL_QID: queue_id, props.TIMER_OUT_MS: str(cluster.clock.now_ms() + 1000)}
    answer = client.send(TIMER_TOPIC, b"x", properties=named, code=code)
    assert (answer.code, client.messages(TIMER_TOPIC)) == (ResponseCode.MESSAGE_ILLEGAL, [])
    named |= {props.REAL_TOPIC: "flights", props.REAL_QID: "1"}
    client.send(TIMER_TOPIC, b"fine", properties=named)
    cluster.clock.advance(5_000)
    assert client.bodies("flights", 1) == [b"fine"]


def test_a_group_whose_retry_topic_can_have_no_name_is_refused_before_anything_waits(cluster, client):
    client.send("flights", b"x")
    (message,) = client.messages("flights")
    assert client.send_back(message, "g" * 250).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    group = "h" * 250  # in the broker's table since an older version
    cluster.on_loop(
        lambda: cluster.broker.groups.table.update(
            {group: msgspec.structs.replace(cluster.broker.groups.table["reader"], group_name=group)}
        )
    )
    client.heartbeat("m", group=group, topics={"flights": "*"})
    assert client.send_back(message, group, delay_level=1).code == ResponseCode.INVALID_PARAMETER
    assert client.messages(SCHEDULE_TOPIC, 0) == []
    assert not [topic for topic in cluster.broker.topics.table if "hhh" in topic]
    assert client.send_back(message, "g" * 248, delay_level=1).code == 0
    cluster.clock.advance(5_000)
    assert len(client.messages("%RETRY%" + "g" * 248)) == 1
