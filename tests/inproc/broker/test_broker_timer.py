# SPDX-License-Identifier: Apache-2.0
"""Timer messages: any moment, to the second and never early; taken back; the answers about them."""

from __future__ import annotations

import os
import shutil
import struct

import pytest

from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.store import StoredMessage
from sprocketmq.store.files import mapped_progress
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.recall_handle import RecallHandle
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.text import fastjson

DAY_MS = 24 * 3_600_000
RECALL = pytest.mark.parametrize("cluster", [{"recall_message_enable": True}], indirect=True)


def send(client, body: bytes = b"x", *, queue_id: int = 0, **asked: object):
    return client.send(
        "flights", body, queue_id=queue_id, properties={name: str(value) for name, value in asked.items()}
    )


def leap(cluster, delay_ms: int) -> None:
    """``advance`` for days: the clock is set forward for all but the last 20 s, for which everything runs."""
    if delay_ms > 40_000:
        cluster.clock.jump(delay_ms - 20_000)
        delay_ms = 20_000
    cluster.clock.advance(delay_ms)


def align(cluster, into_ms: int) -> int:
    """Move the clock to ``into_ms`` behind a full second."""
    cluster.clock.advance((into_ms - cluster.clock.now_ms()) % 1000)
    return cluster.clock.now_ms()


@pytest.mark.parametrize("into_ms", [0, 1, 500, 999])
@pytest.mark.parametrize("delay_ms", [1, 999, 1_000, 1_001, 2_500, 60_000, DAY_MS])
def test_a_timer_message_comes_within_its_second_and_never_early(cluster, client, into_ms, delay_ms):
    due = align(cluster, into_ms) + delay_ms
    answer = send(client, b"later", queue_id=3, TIMER_DELAY_MS=delay_ms)
    assert (answer.code, answer.ext_fields["queueId"]) == (0, "3")
    assert client.bodies(queue_id=3) == []
    leap(cluster, delay_ms + 1_000)
    (message,) = client.messages("flights", 3)
    assert 0 <= message.store_timestamp_ms - due < 1_000
    assert message.store_timestamp_ms % 1000 == 0


def test_a_delay_level_has_priority_over_the_timer(cluster, client):
    send(client, b"x", DELAY=1, TIMER_DELAY_SEC=500)
    cluster.clock.advance(1_000)
    (message,) = client.messages("flights")
    assert props.TIMER_DELAY_SEC not in message.properties
    assert message.properties[props.DELAY] == "1"


def test_a_delivery_time_in_the_past_delivers_at_once(cluster, client):
    send(client, b"past", TIMER_DELIVER_MS=cluster.clock.now_ms())
    send(client, b"negative", TIMER_DELAY_SEC=-5)
    send(client, b"zero", TIMER_DELAY_MS=0)
    assert client.bodies() == [b"past", b"negative", b"zero"]
    assert client.messages(TIMER_TOPIC) == []


@pytest.mark.parametrize(
    "asked",
    [
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELIVER_MS": "9" * 18},
        {"TIMER_DELAY_MS": 3 * DAY_MS + 1},
    ],
)
def test_a_delivery_time_that_is_invalid_or_beyond_three_days_is_refused(cluster, client, asked):
    answer = send(client, **asked)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark
    leap(cluster, 4 * DAY_MS)
    assert client.bodies() == []
    assert client.messages(TIMER_TOPIC) == []


def test_three_days_are_allowed_and_roll_on_the_way(cluster, client):
    align(cluster, 250)
    assert send(client, b"far", TIMER_DELAY_SEC=3 * 24 * 3600).code == 0
    leap(cluster, DAY_MS)
    leap(cluster, 2 * DAY_MS - 1)
    assert client.bodies() == []
    assert len(client.messages(TIMER_TOPIC)) == 2, "it was stored again once, to wait on"
    cluster.clock.advance(1_001)
    (message,) = client.messages("flights")
    assert message.properties[props.TIMER_ROLL_TIMES] == "1"


def test_the_delivered_copy_carries_apaches_properties(cluster, client):
    now = align(cluster, 1)
    send(client, b"x", queue_id=2, TIMER_DELAY_SEC=5, TAGS="UA", own="kept")
    (parked,) = client.messages(TIMER_TOPIC)
    assert (parked.queue_id, parked.properties[props.TIMER_OUT_MS]) == (0, str(now - 1 + 5_000))
    assert (parked.properties[props.REAL_TOPIC], parked.properties[props.REAL_QID]) == ("flights", "2")
    cluster.clock.advance(6_000)
    (message,) = client.messages("flights", 2)
    found = message.properties
    assert (found[props.TIMER_OUT_MS], found[props.TIMER_ENQUEUE_MS]) == (str(now - 1 + 5_000), str(now - 1))
    assert found[props.TIMER_DEQUEUE_MS] == str(message.store_timestamp_ms)
    assert (found[props.REAL_TOPIC], found[props.REAL_QID]) == ("flights", "2")
    assert (found["own"], found[props.TIMER_DELAY_SEC], message.tags) == ("kept", "5", "UA")
    assert message.message_id == "key-x"
    answer = client.pull("g", "flights", 2, expression="UA")
    assert answer.code == 0, "the tag is in the queue entry of the delivered copy"


def test_many_messages_of_one_second_come_in_their_order_and_those_of_another_after_them(cluster, client):
    align(cluster, 0)
    for n in range(300):
        send(client, b"late %d" % n, TIMER_DELAY_MS=6_000)
        send(client, b"soon %d" % n, TIMER_DELAY_MS=5_000)
    cluster.clock.advance(5_000)
    assert client.bodies() == [b"soon %d" % n for n in range(300)]
    cluster.clock.advance(1_000)
    assert client.bodies()[300:] == [b"late %d" % n for n in range(300)]
    cluster.on_loop(cluster.broker.timers.check_invariants)


def test_a_broker_without_timer_messages_has_no_timer_and_no_files(disk_cluster):
    disk_cluster.client().send("flights", b"x")
    assert disk_cluster.on_loop(lambda: disk_cluster.broker.timers._timer) is None
    disk_cluster.clock.advance(60_000)
    disk_cluster.restart_broker()
    assert not {"timerwheel", "timerlog"} & set(os.listdir(disk_cluster.store_dir))
    assert "timercheck" not in os.listdir(os.path.join(disk_cluster.store_dir, "config"))


def test_one_timer_for_the_nearest_slot_and_none_when_all_is_delivered(cluster, client):
    timers = cluster.broker.timers
    send(client, b"far", TIMER_DELAY_SEC=9)
    send(client, b"near", TIMER_DELAY_SEC=3)
    assert cluster.on_loop(lambda: timers._armed_for) < cluster.clock.now_ms() + 3_000
    cluster.clock.advance(11_000)
    assert client.bodies() == [b"near", b"far"]
    assert cluster.on_loop(lambda: timers._timer) is None
    cluster.on_loop(timers.check_invariants)


@pytest.mark.parametrize("cluster", [{"timer_wheel_enable": False}], indirect=True)
def test_timer_messages_are_refused_while_the_timer_is_off(cluster, client):
    answer = send(client, TIMER_DELAY_SEC=1)
    assert (answer.code, client.bodies()) == (ResponseCode.SYSTEM_ERROR, [])
    assert "timerWheelEnable" in answer.remark
    for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
        assert client.ask(code).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("cluster", [{"timer_congest_num_each_slot": 2}], indirect=True)
def test_a_slot_with_twice_the_limit_takes_no_more(cluster, client):
    align(cluster, 0)
    answers = [send(client, b"%d" % n, TIMER_DELAY_MS=5_000).code for n in range(40)]
    assert set(answers) == {0, ResponseCode.SYSTEM_ERROR}
    assert answers[:3] == [0, 0, 0]
    assert 3 <= answers.count(0) <= 4
    assert send(client, b"next", TIMER_DELAY_MS=6_000).code == 0


# -- taking back ---------------------------------------------------------------------------------------------------------------


def recall(client, handle: str, topic: str = "flights"):
    return client.do(requests.messages.RECALL_MESSAGE, topic, handle, "producers")


@RECALL
@pytest.mark.parametrize("delay_ms", [1_000, 1_500, 5_000, 3 * DAY_MS - 5_000])
def test_a_recalled_message_is_not_delivered_and_its_neighbours_are(cluster, client, delay_ms):
    align(cluster, 0)
    handles = {}
    for name in (b"a", b"b", b"c"):
        handles[name] = send(client, name, TIMER_DELAY_MS=delay_ms).ext_fields["recallHandle"]
    answer = recall(client, handles[b"b"])
    assert (answer.code, answer.ext_fields["msgId"]) == (0, "key-b")
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    leap(cluster, delay_ms // 2)
    leap(cluster, delay_ms - delay_ms // 2 + 2_000)
    assert client.bodies() == [b"a", b"c"]
    assert cluster.on_loop(lambda: cluster.broker.timers.metrics["flights"].count) == 0


def test_the_handle_in_the_answer_names_the_message(cluster, client):
    now = align(cluster, 1)
    answer = send(client, b"x", TIMER_DELAY_SEC=5)
    handle = RecallHandle.decode(answer.ext_fields["recallHandle"])
    assert handle == RecallHandle("flights", "broker-a", str(now - 1 + 5_000 + 1), "key-x")
    assert "recallHandle" not in client.send("flights", b"plain").ext_fields
    assert "recallHandle" not in client.send("flights", b"level", delay_level=3).ext_fields


@RECALL
def test_a_message_can_recall_another_one_by_its_properties(cluster, client):
    align(cluster, 0)
    send(client, b"target", TIMER_DELAY_MS=5_000)
    send(client, b"delete", TIMER_DELAY_MS=5_000, TIMER_DEL_UNIQKEY="key-target")
    send(client, b"other", TIMER_DELAY_MS=6_000)
    send(client, b"with topic", TIMER_DELAY_MS=6_000, TIMER_DEL_UNIQKEY="flights+key-other")
    cluster.clock.advance(9_000)
    assert client.bodies() == []
    past = send(client, b"delete", TIMER_DELIVER_MS=1, TIMER_DEL_UNIQKEY="key-target")
    assert past.code == ResponseCode.MESSAGE_ILLEGAL


@RECALL
@pytest.mark.parametrize("named", ["key-precious", "flights+key-precious", "trains+key-precious"])
def test_a_message_of_another_topic_cannot_be_recalled(cluster, client, named):
    """Who may send to one topic has no right on what waits for others."""
    align(cluster, 0)
    send(client, b"precious", TIMER_DELAY_MS=5_000)
    client.send("trains", b"delete", properties={"TIMER_DELAY_MS": "5000", "TIMER_DEL_UNIQKEY": named})
    client.send("trains", b"own", properties={"TIMER_DELAY_MS": "5000", "UNIQ_KEY": "key-precious"})
    cluster.clock.advance(9_000)
    assert client.bodies() == [b"precious"]
    assert client.bodies("trains") == ([b"own"] if named == "flights+key-precious" else [])
    counts = cluster.on_loop(lambda: [cluster.broker.timers.metrics[name].count for name in ("flights", "trains")])
    assert counts == [0, 0]


def test_recall_is_refused_unless_it_is_switched_on(cluster, client):
    handle = send(client, b"x", TIMER_DELAY_SEC=5).ext_fields["recallHandle"]
    assert recall(client, handle).code == ResponseCode.NO_PERMISSION
    cluster.clock.advance(7_000)
    assert client.bodies() == [b"x"]


@RECALL
def test_an_invalid_handle_is_refused_with_604_and_changes_nothing(cluster, client):
    now = cluster.clock.now_ms()
    send(client, b"x", TIMER_DELAY_SEC=5)

    def handle(topic="flights", broker="broker-a", deliver=str(now + 5_000), key="key-x") -> str:
        return RecallHandle(topic, broker, deliver, key).encode()

    client.send("other", b"x")
    bad = ["", "x", "%%%", "djE", handle(topic="other"), handle(broker="broker-b"), handle(deliver="soon")]
    bad += [
        handle(deliver=str(now)),
        handle(deliver="-1"),
        handle(deliver=str(now + 3 * DAY_MS)),
        handle(deliver="9" * 25),
    ]
    for one in bad:
        answer = recall(client, one)
        assert (answer.code, bool(answer.remark)) == (ResponseCode.ILLEGAL_OPERATION, True), one
    assert recall(client, handle(), topic="nowhere").code == ResponseCode.TOPIC_NOT_EXIST
    without_handle = client.ask(RequestCode.RECALL_MESSAGE, None, ext_fields={"topic": "flights"})
    assert without_handle.code == ResponseCode.ILLEGAL_OPERATION, "Java's decoder bears a missing field"
    assert client.ask(RequestCode.RECALL_MESSAGE).code == ResponseCode.SYSTEM_ERROR
    cluster.clock.advance(7_000)
    assert client.bodies() == [b"x"]


@pytest.mark.parametrize(
    "cluster",
    [{"recall_message_enable": True, "broker_permission": 4, "allow_recall_when_broker_not_writeable": False}],
    indirect=True,
)
def test_a_broker_that_is_read_only_can_refuse_to_recall(cluster, client):
    assert recall(client, "x").code == ResponseCode.SERVICE_NOT_AVAILABLE


# -- asking about them ---------------------------------------------------------------------------------------------------------


def test_the_checkpoint_is_apaches_56_bytes(cluster, client):
    now = align(cluster, 0)
    empty = struct.unpack(">7q", client.ask(RequestCode.GET_TIMER_CHECK_POINT).body)
    assert empty[0] == now
    send(client, b"x", TIMER_DELAY_MS=5_000)
    cluster.clock.advance(2_000)
    read_ms, log_position, queue_offset, master_offset, *_ = struct.unpack(
        ">7q", client.ask(RequestCode.GET_TIMER_CHECK_POINT).body
    )
    assert (read_ms, log_position, queue_offset, master_offset) == (now + 2_000, 52, 1, 1)
    cluster.clock.advance(10_000)
    assert struct.unpack(">7q", client.ask(RequestCode.GET_TIMER_CHECK_POINT).body)[0] == now + 12_000


def test_metrics_count_what_waits_for_each_topic(cluster, client):
    for n in range(3):
        send(client, b"%d" % n, TIMER_DELAY_SEC=5 + n)
    body = fastjson.loads(client.ask(RequestCode.GET_TIMER_METRICS).body)
    assert body["timingCount"]["flights"]["count"] == 3
    assert body["timingCount"]["flights"]["timeStamp"] == cluster.clock.now_ms()
    cluster.clock.advance(7_000)
    assert fastjson.loads(client.ask(RequestCode.GET_TIMER_METRICS).body)["timingCount"]["flights"]["count"] == 1


def fill_timers(cluster, count: int, delay_ms: int) -> None:
    """Timer messages that are stored in one turn of the loop."""
    broker = cluster.broker

    def fill() -> None:
        now_ms = cluster.clock.now_ms()
        for n in range(count):
            message = StoredMessage(
                "flights", 0, b"%d" % n, props.encode_properties({props.TIMER_DELAY_MS: str(delay_ms)})
            )
            assert broker.timers.let_wait(message, now_ms) is None
            broker.put(message, now_ms)

    cluster.on_loop(fill)


def test_the_queue_is_read_once_for_all_that_came_in_one_turn_of_the_loop(cluster, client, monkeypatch):
    client.send("flights", b"before", queue_id=1)
    timers, reads = cluster.broker.timers, []
    real = timers._link_new
    monkeypatch.setattr(timers, "_link_new", lambda now_ms: reads.append(now_ms) or real(now_ms))
    fill_timers(cluster, 60, 2_000)
    assert cluster.on_loop(lambda: timers.waiting) == 60
    assert len(reads) == 1


def test_a_second_with_thousands_of_messages_is_read_and_delivered_in_parts(cluster, client, monkeypatch):
    client.send("flights", b"before", queue_id=1)
    timers, parts = cluster.broker.timers, {"_link_new": [], "_deliver": []}

    def watch(name: str) -> None:
        real = getattr(timers, name)

        def step(argument):
            before = (timers.files.queue_offset, cluster.broker.store.max_offset("flights", 0))
            try:
                return real(argument)
            finally:
                after = (timers.files.queue_offset, cluster.broker.store.max_offset("flights", 0))
                parts[name].append(sum(after) - sum(before))

        monkeypatch.setattr(timers, name, step)

    for name in parts:
        watch(name)
    fill_timers(cluster, 1_000, 2_000)
    cluster.clock.advance(4_000)
    assert client.bodies() == [b"%d" % n for n in range(1_000)]
    for counts in parts.values():
        assert sum(counts) == 1_000
        assert max(counts) <= 100
    assert timers.metrics["flights"].count == 0


# -- what goes wrong -----------------------------------------------------------------------------------------------------------


def test_a_message_without_a_time_in_the_timer_topic_stops_no_other(cluster, client):
    assert client.send(TIMER_TOPIC, b"nonsense").code == 0
    assert client.send(TIMER_TOPIC, b"nonsense", properties={props.TIMER_OUT_MS: "soon"}).code == 0
    send(client, b"x", TIMER_DELAY_SEC=2)
    cluster.clock.advance(4_000)
    assert client.bodies() == [b"x"]


# -- restarts ------------------------------------------------------------------------------------------------------------------


def test_what_fell_due_while_the_broker_was_down_comes_at_its_start(disk_cluster):
    client = disk_cluster.client()
    send(client, b"a", TIMER_DELAY_SEC=2)
    disk_cluster.broker.stop()
    disk_cluster.clock.jump(20 * DAY_MS)
    disk_cluster.start_again(disk_cluster.broker.port)
    disk_cluster.clock.advance(1)
    assert disk_cluster.client().bodies() == [b"a"]


# -- a clock that is set back ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["kill", "power cut", "stop"])
def ends(request, disk_cluster, monkeypatch):
    """How a broker ends, and a new one begins."""

    def end() -> None:
        if request.param == "stop":
            disk_cluster.restart_broker()
        else:
            disk_cluster.kill()

    if request.param == "kill":  # else a copy is another file, as after a power cut
        monkeypatch.setattr(mapped_progress, "_identity", lambda file: b"")
    return end


@pytest.mark.parametrize("saves", [True, False])
def test_what_was_sent_after_the_clock_was_set_back_is_not_lost(disk_cluster, ends, saves):
    client = disk_cluster.client()
    send(client, b"before", TIMER_DELAY_SEC=5)
    disk_cluster.clock.advance(8_000)
    assert client.bodies() == [b"before"]
    disk_cluster.clock.jump(-20_000)
    send(client, b"after", TIMER_DELAY_SEC=5)
    disk_cluster.clock.advance(3_000 if saves else 1)
    ends()
    disk_cluster.clock.advance(20_000)
    assert disk_cluster.client().bodies() == [b"before", b"after"]


@pytest.mark.parametrize("until_end_ms", [0, 3_000])
@pytest.mark.parametrize("after_ms", [0, 3_000])
def test_what_was_delivered_before_the_clock_was_set_back_comes_once(disk_cluster, ends, until_end_ms, after_ms):
    client = disk_cluster.client()
    send(client, b"x", TIMER_DELAY_SEC=10)
    disk_cluster.clock.advance(11_000)
    assert client.bodies() == [b"x"]
    disk_cluster.clock.advance(until_end_ms)
    ends()
    disk_cluster.clock.jump(-9_000)
    disk_cluster.clock.advance(after_ms)
    send(disk_cluster.client(), b"y", TIMER_DELAY_SEC=1)
    disk_cluster.clock.advance(3_000)
    ends()
    disk_cluster.clock.advance(20_000)
    assert disk_cluster.client().bodies() == [b"x", b"y"]


@pytest.mark.parametrize("disk_cluster", [{"recall_message_enable": True}], indirect=True)
def test_a_start_after_the_time_of_a_message_knows_that_it_was_recalled(disk_cluster, tmp_path):
    """The recall stands behind many others in the queue, which is read in steps."""
    client = disk_cluster.client()
    send(client, b"before", TIMER_DELAY_SEC=1)
    disk_cluster.clock.advance(4_000)
    handles = [send(client, b"%d" % number, TIMER_DELAY_SEC=30).ext_fields["recallHandle"] for number in range(250)]
    assert recall(client, handles[7]).code == 0
    disk_cluster.copy_as_killed(tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "timerlog")  # as a power cut may leave it
    (tmp_path / "cut" / "timerwheel").unlink()
    disk_cluster.clock.jump(60_000)
    disk_cluster.restart_on(tmp_path / "cut")
    disk_cluster.clock.advance(5_000)
    expected = [b"before", *(b"%d" % number for number in range(250) if number != 7)]
    assert disk_cluster.client().bodies() == expected
