# SPDX-License-Identifier: Apache-2.0
"""Transactions: half messages, END_TRANSACTION, check rounds on a manual clock, progress over restarts and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import config_files
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import decode_record
from sprocketmq.wire.text import fastjson

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
INTERVAL_MS = 30_000


class Half:
    """A half message as its producer knows it."""

    def __init__(self, answer):
        assert answer.code == 0, answer.remark
        self.queue_offset = int(answer.ext_fields["queueOffset"])
        self.commit_log_offset = decode_offset_message_id(answer.ext_fields["msgId"])[1]
        self.transaction_id = answer.ext_fields["transactionId"]
        self.queue_id = int(answer.ext_fields["queueId"])


def ask_half(cluster, client, body=b"x", *, topic="flights", queue_id=2, age_ms=0, sys_flag=4, **named):
    properties = {props.TRAN_MSG: "true", props.PGROUP: "producers", props.TAGS: "UA", **named}
    born_ms = cluster.clock.now_ms() - age_ms
    asked = {"queue_id": queue_id, "properties": properties, "sys_flag": sys_flag, "born_timestamp": born_ms, "flag": 5}
    return client.send(topic, body, **asked)


def send_half(cluster, client, body=b"x", **options) -> Half:
    return Half(ask_half(cluster, client, body, **options))


def end(client, half, outcome, *, from_check=False, group="producers", **changes):
    place = {"queue_offset": half.queue_offset, "commit_log_offset": half.commit_log_offset, **changes}
    return client.end_transaction(**place, outcome=outcome, from_check=from_check, group=group)


class Asked(Half):
    """The half message that a check names."""

    def __init__(self, command):
        header = command.header(CheckTransactionStateRequestHeader)
        self.header, self.message = header, decode_record(bytes(command.body))
        self.queue_offset, self.commit_log_offset = header.tran_state_table_offset, header.commit_log_offset
        self.transaction_id, self.command = header.transaction_id, command


def checks(client) -> list[Asked]:
    return [Asked(command) for command in client.pushed if command.code == RequestCode.CHECK_TRANSACTION_STATE]


def producer(cluster, client, client_id="p1"):
    client.heartbeat(client_id, producer="producers")
    return client


def a_round(cluster):
    cluster.clock.advance(INTERVAL_MS)


def bodies(client, queue_id=2):
    return client.bodies("flights", queue_id)


def progress(cluster):
    offsets = cluster.broker.offsets
    return cluster.on_loop(
        lambda: (offsets.query("CID_RMQ_SYS_TRANS", HALF, 0), offsets.query("CID_RMQ_SYS_TRANS", OP, 0))
    )


def test_a_half_message_is_stored_as_apache_stores_it_and_nobody_sees_it(cluster, client):
    client.send("flights", b"first", queue_id=2)
    half = send_half(cluster, client, **{props.DELAY: "3"})
    assert (half.queue_offset, half.queue_id, half.transaction_id) == (0, 2, "key-x")
    assert bodies(client) == [b"first"]
    (stored,) = client.messages(HALF)
    assert stored.commit_log_offset == half.commit_log_offset
    assert (stored.sys_flag & 0xC, stored.flag, stored.tags) == (0, 5, "UA")
    expected = {props.REAL_TOPIC: "flights", props.REAL_QID: "2", props.TRANSACTION_ID: "key-x", props.TRAN_MSG: "true"}
    assert expected.items() <= stored.properties.items()
    assert props.DELAY not in stored.properties, "a transaction is not delayed"


def test_a_commit_stores_the_message_and_marks_the_half(cluster, client):
    half = send_half(cluster, client)
    assert end(client, half, COMMIT).code == 0
    (message,) = client.messages("flights", 2)
    assert (message.body, message.tags, message.flag, message.message_id) == (b"x", "UA", 5, "key-x")
    assert message.sys_flag & 0xC == 8
    assert message.prepared_transaction_offset == half.commit_log_offset
    assert {props.TRAN_MSG: "true", props.PGROUP: "producers"}.items() <= message.properties.items()
    assert not {props.REAL_TOPIC, props.REAL_QID} & message.properties.keys(), "5.4.0 takes them out"
    (op,) = client.messages(OP)
    assert (op.body, op.tags, op.queue_offset) == (b"0", "d", 0), "without a comma: the form that 4.9 reads"
    assert client.pull("g", "flights", 2, expression="UA").code == 0, "the tag is in the queue entry"


def test_the_first_end_counts(cluster, client):
    first, second = send_half(cluster, client, b"a"), send_half(cluster, client, b"b")
    for _ in range(2):
        assert end(client, first, COMMIT).code == 0
        assert end(client, second, ROLLBACK).code == 0
        a_round(cluster)
    refused = end(client, second, COMMIT)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "the transaction ended with rollback already, commit comes too late"
    assert end(client, first, ROLLBACK).code == ResponseCode.SYSTEM_ERROR
    assert bodies(client) == [b"a"]
    assert len(client.messages(OP)) == 2


def test_an_end_that_does_not_fit_its_half_is_refused(cluster, client):
    client.send("flights", b"plain", queue_id=2, properties={props.PGROUP: "producers"})
    plain = client.messages("flights", 2)[0]
    half = send_half(cluster, client)
    for answer, words in (
        (end(client, half, COMMIT, group="others"), "not of producer group others"),
        (end(client, half, COMMIT, queue_offset=7), "at half queue offset 0, not 7"),
        (end(client, half, COMMIT, commit_log_offset=1 << 40), "no half message begins"),
        (end(client, half, COMMIT, commit_log_offset=-1), "no half message begins"),
        (end(client, half, COMMIT, commit_log_offset=half.commit_log_offset + 1), "no half message begins"),
        (end(client, half, ROLLBACK, commit_log_offset=plain.commit_log_offset), "no half message begins"),
    ):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert words in answer.remark
    assert bodies(client) == [b"plain"]
    assert client.messages(OP) == []


def test_an_unknown_state_changes_nothing_and_is_not_answered_and_one_that_is_none_is_refused(cluster, client):
    half = send_half(cluster, client)
    header = EndTransactionRequestHeader("producers", half.queue_offset, half.commit_log_offset, UNKNOWN, msg_id="id")
    waiting = client.begin(RequestCode.END_TRANSACTION, header)
    assert client.heartbeat("p1").code == 0  # the same connection: answers come in order
    assert not waiting.done()
    header.commit_or_rollback = 99
    refused = client.ask(RequestCode.END_TRANSACTION, header)
    assert (refused.code, "0 (unknown), 8 (commit) and 12 (rollback)" in refused.remark) == (1, True)
    assert client.messages(OP) == []


@pytest.mark.parametrize("cluster", [{"reject_transaction_message": True}], indirect=True)
def test_a_broker_may_refuse_transactions(cluster, client):
    answer = ask_half(cluster, client)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "rejectTransactionMessage" in answer.remark
    assert client.messages(HALF) == []


def test_a_half_without_its_mark_or_with_a_delivery_time_is_refused(cluster, client):
    assert ask_half(cluster, client, **{props.TRAN_MSG: "false"}).code == ResponseCode.MESSAGE_ILLEGAL
    assert ask_half(cluster, client, **{props.TIMER_DELAY_SEC: "5"}).code == ResponseCode.MESSAGE_ILLEGAL
    assert client.messages(HALF) == []


# -- check rounds ----------------------------------------------------------------------------------------------------------------


def test_an_open_half_is_asked_for_after_its_time_with_its_real_topic(cluster, client):
    producer(cluster, client)
    cluster.clock.advance(INTERVAL_MS - 5_999)
    half = send_half(cluster, client)
    cluster.clock.advance(5_999)
    assert checks(client) == [], "younger than transactionTimeOut"
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 1)
    (asked,) = checks(client)
    copy = client.messages(HALF)[1]
    assert asked.command.is_oneway
    assert (asked.queue_offset, asked.commit_log_offset) == (1, copy.commit_log_offset)
    assert asked.commit_log_offset != half.commit_log_offset
    header = asked.header
    assert (header.msg_id, header.transaction_id, header.offset_msg_id) == ("key-x", "key-x", copy.offset_message_id)
    assert (header.topic, header.bname) == (HALF, "broker-a")
    message = asked.message
    assert (message.topic, message.queue_id, message.body, message.flag) == ("flights", 2, b"x", 5)
    assert (message.queue_offset, message.commit_log_offset) == (1, copy.commit_log_offset)
    assert message.properties[props.TRANSACTION_CHECK_TIMES] == copy.properties[props.TRANSACTION_CHECK_TIMES] == "1"
    assert copy.born_timestamp_ms == client.messages(HALF)[0].born_timestamp_ms


def test_after_the_last_check_the_half_is_given_up_and_can_be_resumed(cluster, client):
    producer(cluster, client)
    half = send_half(cluster, client)
    for times in range(1, 16):
        producer(cluster, client)  # else its connection is closed after 120 s
        a_round(cluster)
        cluster.eventually(lambda times=times: len(checks(client)) == times)
        assert checks(client)[-1].message.properties[props.TRANSACTION_CHECK_TIMES] == str(times)
    a_round(cluster)
    a_round(cluster)
    assert len(checks(client)) == 15
    (letter,) = client.messages(GIVEN_UP)
    assert (letter.body, letter.properties[props.REAL_TOPIC]) == (b"x", "flights")
    assert progress(cluster)[0] == 16

    assert client.do(requests.messages.RESUME_CHECK_HALF_MESSAGE, msg_id=letter.offset_message_id).code == 0
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 16)
    assert checks(client)[-1].message.properties[props.TRANSACTION_CHECK_TIMES] == "1"
    assert end(client, half, COMMIT).code == 0, "late, by the name of the very first half"
    a_round(cluster)
    a_round(cluster)
    assert bodies(client) == [b"x"]
    assert len(checks(client)) == 16


def test_a_commit_that_comes_after_the_half_was_given_up_still_counts(cluster, client):
    half = send_half(cluster, client, age_ms=73 * 3_600_000)
    a_round(cluster)
    assert len(client.messages(GIVEN_UP)) == 1, "older than fileReservedTime"
    assert end(client, half, COMMIT).code == 0
    assert end(client, half, COMMIT).code == 0
    assert bodies(client) == [b"x"]


@pytest.mark.parametrize(
    "message_id", ["", "nonsense", "7F00000100002A9F0000000000000000", "7F00000100002A9FFFFFFFFFFFFFFFFF"]
)
def test_only_a_half_that_was_given_up_is_resumed(cluster, client, message_id):
    client.send("flights", b"plain")
    answer = client.do(requests.messages.RESUME_CHECK_HALF_MESSAGE, msg_id=message_id)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE).code == ResponseCode.SYSTEM_ERROR
    assert client.messages(HALF) == []


def test_a_half_that_asked_for_time_is_asked_for_after_it_and_may_be_ended_by_its_producer_only_before(cluster, client):
    producer(cluster, client)
    immune = {props.CHECK_IMMUNITY_TIME_IN_SECONDS: "100"}
    early, late = send_half(cluster, client, b"early", **immune), send_half(cluster, client, b"late", **immune)
    for _ in range(3):
        a_round(cluster)
    assert checks(client) == []
    copies = client.messages(HALF)[2:]
    assert {copy.properties[props.TRAN_PREPARED_QUEUE_OFFSET] for copy in copies} == {"0", "1"}
    assert all(props.TRANSACTION_CHECK_TIMES not in copy.properties for copy in copies), "no check, no count"
    assert end(client, early, COMMIT).code == 0, "named by the offset that its producer knows"
    cluster.clock.advance(10_001)
    refused = end(client, late, COMMIT)
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 1)
    assert checks(client)[0].message.body == b"late"
    assert end(client, checks(client)[0], COMMIT, from_check=True).code == 0
    a_round(cluster)
    assert bodies(client) == [b"early", b"late"]
    assert len(checks(client)) == 1


def test_the_members_of_a_producer_group_are_asked_in_turn(cluster):
    members = [producer(cluster, cluster.client(), f"p{number}") for number in range(2)]
    for number in range(4):
        send_half(cluster, members[0], b"%d" % number)
    a_round(cluster)
    cluster.eventually(lambda: [len(checks(member)) for member in members] == [2, 2])


def test_without_a_producer_a_round_still_counts_as_a_check(cluster, client):
    send_half(cluster, client)
    a_round(cluster)
    a_round(cluster)
    assert client.messages(HALF)[-1].properties[props.TRANSACTION_CHECK_TIMES] == "2"


def test_many_open_halves_are_judged_in_turns_and_each_once(cluster, client):
    producer(cluster, client)
    for number in range(200):
        send_half(cluster, client, b"%d" % number)
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 200)
    assert len({asked.message.body for asked in checks(client)}) == 200
    assert progress(cluster)[0] == 200


# -- over a restart --------------------------------------------------------------------------------------------------------------


def test_open_transactions_survive_a_restart_and_settled_ones_stay_settled(disk_cluster):
    cluster = disk_cluster
    client = cluster.client()
    halves = [send_half(cluster, client, b"%d" % number) for number in range(4)]
    end(client, halves[0], COMMIT)
    end(client, halves[2], ROLLBACK)
    a_round(cluster)  # copies 1 and 3
    cluster.restart_broker()
    client = producer(cluster, cluster.client())
    assert end(client, halves[1], COMMIT).code == 0, "named by its first half"
    assert end(client, halves[0], COMMIT).code == 0
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 1)
    assert checks(client)[0].message.body == b"3"
    assert end(client, checks(client)[0], COMMIT, from_check=True).code == 0
    a_round(cluster)
    assert bodies(client) == [b"0", b"1", b"3"]


def forget_progress(cluster) -> None:
    """As a kill leaves it that came before the first flush of consumerOffset.json."""
    for name in ("config/consumerOffset.json", "config/consumerOffset.json.bak", "tables"):
        (Path(cluster.store_dir) / name).unlink(missing_ok=True)


def restart_without_progress(cluster):
    cluster.broker.stop()
    forget_progress(cluster)
    cluster.start_again(cluster.broker.port)
    return producer(cluster, cluster.client())


def test_progress_lost_by_a_kill_causes_no_second_check(disk_cluster):
    cluster = disk_cluster
    client = cluster.client()
    halves = [send_half(cluster, client, b"%d" % number) for number in range(3)]
    a_round(cluster)
    a_round(cluster)  # each half has two copies now
    end(client, halves[0], COMMIT)
    client = restart_without_progress(cluster)
    marked = {int(op.body) for op in client.messages(OP)}
    assert marked == set(range(7)), "the older copies, so that Apache would not ask for them either"
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 2)
    assert sorted(asked.message.body for asked in checks(client)) == [b"1", b"2"]
    assert {asked.message.properties[props.TRANSACTION_CHECK_TIMES] for asked in checks(client)} == {"3"}
    assert end(client, halves[0], COMMIT).code == 0
    assert bodies(client) == [b"0"]


def test_two_kills_between_copies_and_progress_end_no_transaction(disk_cluster):
    cluster = disk_cluster
    client = producer(cluster, cluster.client())
    halves = [send_half(cluster, client, b"%d" % number) for number in range(2)]
    a_round(cluster)
    a_round(cluster)  # each half has two copies now; the start marks the half and the older copy
    restart_without_progress(cluster)
    client = restart_without_progress(cluster)  # and this start finds those marks
    assert end(client, halves[0], COMMIT).code == 0  # names a half that was set aside
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 1)  # the other one is still open
    assert end(client, checks(client)[0], COMMIT, from_check=True).code == 0
    assert sorted(bodies(client)) == [b"0", b"1"]
    assert end(client, halves[0], COMMIT).code == 0
    assert len(bodies(client)) == 2


def test_a_commit_whose_mark_a_kill_cut_off_is_not_committed_again(disk_cluster):
    cluster = disk_cluster
    client = cluster.client()
    half = send_half(cluster, client)
    a_round(cluster)
    mark = cluster.broker.transactions._mark
    cluster.broker.transactions._mark = lambda *args, **set_aside: None
    end(client, half, COMMIT)
    cluster.broker.transactions._mark = mark
    assert client.messages(OP) == []
    client = restart_without_progress(cluster)
    assert {op.body for op in client.messages(OP)} == {b"0", b"1"}, "the newest copy is marked, and the older one"
    for _ in range(3):
        a_round(cluster)
    assert checks(client) == []
    assert end(client, half, COMMIT).code == 0
    assert bodies(client) == [b"x"]


def test_a_commit_whose_mark_was_cut_off_is_found_before_the_start_delivers_anything(disk_cluster):
    cluster = disk_cluster
    client = cluster.client()
    half = send_half(cluster, client)
    cluster.broker.timers.stored = lambda: None  # the kill comes before the timer's queue is read
    client.send("flights", b"due", properties={"TIMER_DELAY_MS": "1000"})
    cluster.broker.transactions._mark = lambda *args, **set_aside: None
    end(client, half, COMMIT)
    killed = Path(f"{cluster.store_dir}-killed")
    cluster.copy_as_killed(killed)
    cluster.broker.stop()
    cluster.clock.jump(5_000)
    cluster.restart_on(killed)
    client = cluster.client()
    assert client.bodies(OP) == [b"0"]
    cluster.clock.advance(1)
    assert bodies(client, queue_id=0) == [b"due"]
    assert end(client, half, COMMIT).code == 0
    assert bodies(client) == [b"x"]


@pytest.mark.parametrize(
    "disk_cluster",
    [{"flush_interval_commit_log_ms": 1 << 30, "flush_consumer_offset_interval_ms": 1 << 30}],
    indirect=True,
)
def test_progress_is_written_at_once_after_a_round_but_not_before_the_disk_has_the_copies(disk_cluster, monkeypatch):
    cluster = disk_cluster
    client = producer(cluster, cluster.client())
    send_half(cluster, client)
    cluster.clock.advance(4_000)
    store, written = cluster.broker.store, []
    save = config_files.save_config

    def watch(path, raw, **options):
        if path.endswith("consumerOffset.json"):
            written.append((fastjson.loads(raw)["offsetTable"][f"{HALF}@CID_RMQ_SYS_TRANS"], store.flushed_offset))
        save(path, raw, **options)

    monkeypatch.setattr(config_files, "save_config", watch)
    cluster.clock.advance(INTERVAL_MS - 4_000)  # the end of a round; offsets are never written for another reason
    cluster.eventually(lambda: written)
    copy = client.messages(HALF)[1]
    assert [progress for progress, _ in written] == [{0: 1}]
    assert written[0][1] > copy.commit_log_offset


def test_a_full_disk_keeps_a_commit_from_being_half_done(cluster, client):
    producer(cluster, client)
    half = send_half(cluster, client)
    cluster.on_loop(lambda: cluster.broker.store.refuse_appends(StoreNotWritable("the disk is full")))
    assert end(client, half, COMMIT).code == ResponseCode.SERVICE_NOT_AVAILABLE
    a_round(cluster)
    assert checks(client) == []
    cluster.on_loop(lambda: cluster.broker.store.refuse_appends(None))
    a_round(cluster)
    cluster.eventually(lambda: len(checks(client)) == 1)
    assert end(client, half, COMMIT).code == 0
    assert bodies(client) == [b"x"]


def test_nothing_is_committed_while_its_mark_has_no_room(disk_cluster):
    """After a kill it would be committed again."""
    cluster = disk_cluster
    client = cluster.client()
    half = send_half(cluster, client)
    marks = Path(cluster.store_dir) / "consumequeue" / OP
    marks.touch()  # so that its queue cannot be made
    assert end(client, half, COMMIT).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bodies(client) == []
    marks.unlink()
    assert end(client, half, COMMIT).code == 0
    assert bodies(client) == [b"x"]


@pytest.mark.parametrize("days", [-400, 5, 400])
def test_setting_the_clock_discards_no_half_message(cluster, client, days):
    """Forward it would make all open halves too old at once, for whatever their producers answer."""
    producer(cluster, client)
    half = send_half(cluster, client)
    cluster.clock.jump(days * 24 * 3_600_000)
    for _ in range(3):
        a_round(cluster)
    assert client.messages(GIVEN_UP) == []
    assert end(client, half, COMMIT, from_check=True).code == 0
    assert bodies(client) == [b"x"]
    assert client.send("flights", b"later", queue_id=2).code == 0
    assert bodies(client) == [b"x", b"later"]
