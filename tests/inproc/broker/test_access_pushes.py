# SPDX-License-Identifier: Apache-2.0
"""Pushes past the gate of access control: each was seen to succeed once. And what stays allowed: all that official clients do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_access_table import KEYS, SECRET, Asking, accounts, both_generations, places, reached, send_fields
from test_broker_replication import Slave

from sprocketmq.core.cluster.handover import HandoverState
from sprocketmq.wire.bodies import HeartbeatData, PolicyEntryInfo, PolicyInfo, ProducerData, UserInfo
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.acl_signature import ACCESS_KEY
from sprocketmq.wire.hashing import index_hash, java_hash
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import encode_record

__all__ = ["accounts", "places", "reached"]  # fixtures

REFUSED = ResponseCode.NO_PERMISSION
HOST = (b"\x7f\x00\x00\x01", 10911)
ROUND = (21, 43, 45, 201)
USERS = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"Boss7777","password":"boss-secret"}',
}


def offset_of(answer: Any) -> int:
    return decode_offset_message_id(answer.ext_fields["msgId"])[1]


@both_generations
def test_bytes_inside_a_message_that_look_like_a_record_are_not_taken_for_one(accounts, reached, disk_cluster, places):
    other, store = Asking(disk_cluster, "other"), disk_cluster.broker.store
    first = offset_of(other.ask(310, send_fields("mine"), b"M" * 500))
    inside = disk_cluster.on_loop(lambda: bytes(store.record_at(first)).index(b"M" * 500))
    place = disk_cluster.on_loop(lambda: store.max_physical_offset) + inside
    forged = encode_record(b"mine", b"this could reach over what follows", b"", queue_id=0, queue_offset=0, physical_offset=place,
                           born_timestamp_ms=1, born_host=HOST, store_timestamp_ms=1, store_host=HOST)  # fmt: skip
    assert other.ask(310, send_fields("mine"), forged).code == 0
    assert disk_cluster.on_loop(lambda: store.record_at(place)) is not None
    refused = other.ask(33, {"offset": str(place)})
    assert (refused.code, bytes(refused.body)) == (REFUSED, b"")
    back = {"offset": str(place), "group": "my-group", "delayLevel": "0", "maxReconsumeTimes": "16"}
    assert other.ask(36, back).code == REFUSED


@both_generations
def test_a_key_with_the_hash_of_another_topic_s_key_finds_nothing_of_that_topic(
    accounts, reached, disk_cluster, places
):
    # Five characters more, each from "A" on, that bring the hash of "mine#" to that of the other text.
    left = (java_hash("compared#key-1") - java_hash("mine#AAAAA")) % 2**32
    key = ""
    for power in (4, 3, 2, 1, 0):
        digit, left = divmod(left, 31**power)
        key += chr(ord("A") + digit)
    assert index_hash(f"mine#{key}") == index_hash("compared#key-1")
    asked = {"topic": "mine", "key": key, "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    answer = Asking(disk_cluster, "other").ask(12, asked)
    assert (answer.code, bytes(answer.body)) == (ResponseCode.QUERY_NOT_FOUND, b"")
    asked = {**asked, "topic": "compared", "key": "key-1"}
    assert SECRET in bytes(Asking(disk_cluster, "boss").ask(12, asked).body)


@both_generations
def test_requests_that_an_accounts_rights_cover_are_served(accounts, reached, disk_cluster, places):
    other = Asking(disk_cluster, "other")
    sent = other.ask(310, send_fields("mine", i="UNIQ_KEY\x01own\x02"), b"own")
    half = {"f": "4", "i": "TRAN_MSG\x01true\x02PGROUP\x01writers\x02UNIQ_KEY\x01h\x02"}
    prepared = other.ask(310, send_fields("mine", **half), b"half")
    place, end = offset_of(sent), {"producerGroup": "writers", "commitOrRollback": "8"}
    end |= {"tranStateTableOffset": prepared.ext_fields["queueOffset"], "commitLogOffset": str(offset_of(prepared))}
    served = {
        33: {"offset": str(place)},
        11: {"consumerGroup": "my-group", "topic": "mine", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
             "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1", "expressionType": "TAG"},
        36: {"offset": str(place), "group": "my-group", "delayLevel": "0", "maxReconsumeTimes": "16"},
        37: end,
        12: {"topic": "mine", "key": "own", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(2**62)},
        15: {"consumerGroup": "my-group", "topic": "mine", "queueId": "0", "commitOffset": "1"},
        14: {"consumerGroup": "my-group", "topic": "mine", "queueId": "0"},
        30: {"topic": "mine", "queueId": "0"},
        222: {"topic": "mine", "group": "my-group", "timestamp": "-1", "isForce": "true", "queueId": "0"},
        26: {},
        35: {"clientID": "c", "producerGroup": "writers"},
        38: {"consumerGroup": "my-group"},
    }  # fmt: skip
    assert (sent.code, prepared.code) == (0, 0)
    body = HeartbeatData("c", producer_data_set=[ProducerData("writers")]).encode()
    assert other.ask(34, {}, body).code == 0
    for code, fields in served.items():
        answer = other.ask(code, fields)
        assert answer.code != REFUSED, (code, answer.remark)
    retry = send_fields("%RETRY%my-group", a="CLIENT_INNER_PRODUCER")  # as a consumer does whose send-back failed
    assert other.ask(310, retry, b"own").code == 0
    assert disk_cluster.broker.store.max_offset("mine", 0) == 3, "the committed half is there"


@both_generations
def test_only_a_consumer_may_send_a_reply(accounts, reached, disk_cluster, places):
    reply = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01c@1\x02"
    topic = "DefaultCluster_REPLY_TOPIC"
    v1 = {"producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
          "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": reply}  # fmt: skip
    for code, fields in ((325, send_fields(topic, i=reply)), (324, v1)):
        assert Asking(disk_cluster, "other").ask(code, fields, b"reply").code == ResponseCode.SYSTEM_ERROR, (
            "no requester"
        )
        for name in ("unsigned", "nobody", "denied"):
            assert Asking(disk_cluster, name).ask(code, fields, b"reply").code == REFUSED
    assert Asking(disk_cluster, "other").ask(325, send_fields("compared", i=reply), b"reply").code == REFUSED
    assert Asking(disk_cluster, "other").ask(325, send_fields("unknown", i=reply), b"reply").code == REFUSED
    assert disk_cluster.broker.topics.get("unknown") is None


@both_generations
def test_only_a_client_that_may_send_to_the_topic_is_asked_about_a_half_message(
    accounts, reached, disk_cluster, places
):
    clients = {name: Asking(disk_cluster, name) for name in ("other", "denied", "boss")}

    def send_half(name: str, topic: str, group: str) -> int:
        text = f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01{group}-1\x02"
        fields = send_fields(topic, f="4", g=str(disk_cluster.clock.now_ms()), i=text)
        return clients[name].ask(310, fields, SECRET).code

    assert send_half("boss", "compared", "writers") == 0
    body = HeartbeatData("c", producer_data_set=[ProducerData("writers")]).encode()
    for asking in clients.values():  # all of them say that they are of the group
        assert asking.ask(34, {}, body).code == 0
    for _ in range(8):  # rounds of questions, each to the next one of the group
        disk_cluster.clock.advance(30_000)
        for asking in clients.values():
            asking.ask(34, {}, body)

    def asked(name: str) -> list[bytes]:
        return [bytes(command.body) for command in clients[name].client.pushed if command.code == 39]

    disk_cluster.eventually(lambda: len(asked("boss")) >= 3)
    assert SECRET in asked("boss")[0]
    assert asked("other") == asked("denied") == []
    assert send_half("other", "mine", "others") == 0
    own = HeartbeatData("c", producer_data_set=[ProducerData("others")]).encode()
    clients["other"].ask(34, {}, own)
    disk_cluster.clock.advance(60_000)
    disk_cluster.eventually(lambda: asked("other"))


@pytest.mark.parametrize("disk_cluster", [{"acl_enable": True, "authorization_whitelist": "28,307"}], indirect=True)
def test_codes_on_the_authorization_white_list_need_an_account_and_no_right(accounts, disk_cluster):
    assert Asking(disk_cluster, "nobody").ask(28, {}).code == 0
    assert Asking(disk_cluster, "unsigned").ask(28, {}).code == REFUSED
    assert Asking(disk_cluster, "nobody").ask(21, {}).code == REFUSED


@pytest.mark.parametrize("disk_cluster", [{"acl_enable": True, "authorization_whitelist": "310"}], indirect=True)
def test_decisions_about_open_requests_are_not_cached(accounts, disk_cluster):
    """Nobody has looked at their names, which may be long and always new."""
    asking = Asking(disk_cluster, "other")
    for number in range(3):
        asking.ask(310, send_fields(f"{number}{'x' * 1_000}"), b"body")
    assert asking.ask(310, send_fields("mine"), b"body").code == 0
    accounts_now = disk_cluster.broker.plain_access._acl.accounts.values()
    assert [account.allowed for account in accounts_now] == [set()] * len(accounts_now)


# -- users of 5.x ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [USERS], indirect=True)
def test_passwords_are_shown_to_super_users_only(cluster):
    def make() -> None:
        table = cluster.broker.users.table
        table.create_user(UserInfo(*KEYS["other"]))
        looks = PolicyEntryInfo("Cluster:*", ["Get", "List"], None, "Allow")
        table.update_acl(KEYS["other"][0], [PolicyInfo("Custom", [looks])])

    cluster.on_loop(make)
    for name, sees in (("other", False), ("boss", True)):
        one = Asking(cluster, name).ask(3004, {"username": "Boss7777"})
        everybody = Asking(cluster, name).ask(3005, {})
        assert json.loads(bytes(one.body))["userType"] == "Super"
        for answer in (one, everybody):
            assert (answer.code, b"-secret" in bytes(answer.body)) == (0, sees)


@pytest.mark.parametrize("cluster", [{**USERS, "authentication_whitelist": "3001,3004,310,28"}], indirect=True)
def test_a_user_name_without_a_signature_has_no_rights(cluster):
    client, body = cluster.client(), UserInfo("king", "king-secret", "Super").encode()
    named = {ACCESS_KEY: "Boss7777", "username": "king"}
    assert client.ask(3001, body=body, ext_fields=named).code == REFUSED
    assert client.ask(28, ext_fields={ACCESS_KEY: "Boss7777"}).code == REFUSED
    assert client.send("orders").code == REFUSED
    assert cluster.broker.users.table.user("king") is None
    assert Asking(cluster, "boss").ask(28, {}).code == 0


@pytest.mark.parametrize(
    "cluster",
    [{**USERS, "authorization_enabled": False, "authentication_whitelist": "3001,3004"}],
    indirect=True,
)
def test_naming_a_super_user_without_his_signature_gives_no_rights(cluster):
    client, body = cluster.client(), UserInfo("king", "king-secret", "Super").encode()
    for fields in ({"username": "king"}, {"username": "king", ACCESS_KEY: "Boss7777"}):
        assert client.ask(3001, body=body, ext_fields=fields).code == ResponseCode.SYSTEM_ERROR
    shown = client.ask(3004, ext_fields={"username": "Boss7777", ACCESS_KEY: "Boss7777"})
    assert b"boss-secret" not in bytes(shown.body)


# -- handover and replication ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk_cluster", [{"acl_enable": True, "ha_allowed_addresses": "127.0.0.1"}], indirect=True)
def test_refused_requests_do_not_advance_a_handover(accounts, disk_cluster):
    boss, broker = Asking(disk_cluster, "boss"), disk_cluster.broker
    boss.ask(310, send_fields("mine"), b"x")
    slave = Slave(broker.replication.port)
    while len(slave.log) < broker.store.max_physical_offset:
        slave.read()
    slave.report(len(slave.log))
    disk_cluster.eventually(lambda: broker.replication.is_replicated(len(slave.log)))
    assert boss.ask(30001, {"step": "start", "timeoutMs": "60000"}).code == 0
    for name in ("unsigned", "nobody", "other"):
        for code in (*ROUND, *ROUND):
            assert Asking(disk_cluster, name).ask(code, {}).code == REFUSED
    assert broker.handover.status().state == HandoverState.WAITING.value
    assert boss.ask(310, send_fields("mine"), b"x").code == 0, "nothing is frozen"
    slave.close()


@pytest.mark.parametrize(
    ("disk_cluster", "comes"),
    [
        ({}, True),
        ({"ha_allowed_addresses": "10.0.0.1"}, False),
        ({"acl_enable": True}, False),
        ({"acl_enable": True, "ha_allowed_addresses": "10.0.0.1; 127.0.0.*"}, True),
        (USERS, False),
        ({**USERS, "ha_allowed_addresses": "*"}, True),
        ({"tls_server_mode": "enforcing", "tls_test_mode_enable": True}, False),
    ],
    indirect=["disk_cluster"],
)
def test_with_access_control_only_listed_addresses_may_copy_the_log(accounts, disk_cluster, comes, caplog):
    slave = Slave(disk_cluster.broker.replication.port, report=None)
    if comes:
        disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.slaves)
    else:
        assert slave.is_closed()
        assert "haAllowedAddresses" in caplog.text
    slave.close()


@pytest.mark.parametrize("disk_cluster", [{"acl_enable": True}], indirect=True)
def test_slaves_on_the_global_white_list_may_copy_the_log_as_apache_documents(accounts, disk_cluster):
    assert Asking(disk_cluster, "boss").ask(53, {"globalWhiteAddrs": "127.0.0.1"}).code == 0
    slave = Slave(disk_cluster.broker.replication.port)
    disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.slaves)
    slave.close()


# -- the start ---------------------------------------------------------------------------------------------------------------------
