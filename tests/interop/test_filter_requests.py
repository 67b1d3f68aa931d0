# SPDX-License-Identifier: Apache-2.0
"""Filters, heartbeats and the checks of a pull: one conversation, held with Apache's broker and with ours, gets the same answers."""

from __future__ import annotations

import json
import os
import struct

import pytest

from interop.peers import APACHE_5, JavaProgram, SprocketServer
from interop.remoting import Answer, Asking, ask, create_topic

UPDATE_TOPIC, UPDATE_GROUP = 17, 200
SEND, PULL, LITE_PULL, HEART_BEAT, UNREGISTER, CHECK = 10, 11, 361, 34, 35, 46
SUBSCRIPTION_FLAG = 4
# Of an answer's ext fields, those that say something about filters and permissions.
COMPARED = ("forbiddenType", "nextBeginOffset", "minOffset", "maxOffset", "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE")


def queue_offsets(records: bytes) -> list[int]:
    """Of the records of a pull's answer: total size is the first field, the queue offset stands at byte 20."""
    found, at = [], 0
    while at < len(records):
        found.append(struct.unpack_from(">q", records, at + 20)[0])
        at += struct.unpack_from(">i", records, at)[0]
    return found


class Conversation:
    """One connection, as one client has it. ``said`` holds, per request, its label and what of the answer is compared."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self.address, self.topic, self.group = address, topic, group
        self.said: list[tuple[str, int, dict[str, str]]] = []
        self.last: Answer
        self._line = Asking(address, 10)

    def close(self) -> None:
        self._line.close()

    def ask(self, label: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        answer = self._line.ask(code, ext, body)
        fields = answer.header.get("extFields") or {}
        compared = {name: fields[name] for name in COMPARED if name in fields}
        if code in (PULL, LITE_PULL) and answer.code == 0:
            compared["offsets"] = str(queue_offsets(answer.body))
        self.last = answer
        self.said.append((label, answer.code, compared))
        return answer

    def check(self, sql: str | None, kind: str | None = "SQL92") -> None:
        data = {"topic": self.topic, "subString": sql, "expressionType": kind, "subVersion": 1}
        data = {name: value for name, value in data.items() if value is not None}
        body = {"clientId": "c", "group": self.group, "subscriptionData": data}
        self.ask(f"check {kind} {sql!r}", CHECK, body=json.dumps(body).encode())

    def beat(self, sql: str, version: int, kind: str = "SQL92", *, model: str = "CLUSTERING", fingerprint: int = 0,
             without_sub: bool = False, consume_type: str = "CONSUME_PASSIVELY") -> None:  # fmt: skip
        data = {
            "topic": self.topic,
            "subString": sql,
            "expressionType": kind,
            "subVersion": version,
            "classFilterMode": False,
        }
        consumer = {"groupName": self.group, "consumeType": consume_type, "messageModel": model, "unitMode": False,
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [] if without_sub else [data]}  # fmt: skip
        body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": [], "heartbeatFingerprint": fingerprint,
                "withoutSub": without_sub}  # fmt: skip
        self.ask(
            f"beat {kind} {sql!r} {version} {fingerprint} {without_sub}", HEART_BEAT, body=json.dumps(body).encode()
        )

    def pull(self, sql: str | None = None, kind: str | None = None, code: int = PULL, **fields: object) -> None:
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
               "sysFlag": "0" if kind is None else str(SUBSCRIPTION_FLAG), "commitOffset": "0", "suspendTimeoutMillis": "0",
               "subVersion": "0", "subscription": sql, "expressionType": kind, **fields}  # fmt: skip
        given = {name: str(value) for name, value in ext.items() if value is not None}
        self.ask(f"pull {code} {sql!r} {kind} {fields}", code, given)

    def configure_group(self, **settings: object) -> None:
        body = {
            "groupName": self.group,
            "consumeEnable": True,
            "consumeBroadcastEnable": True,
            "retryQueueNums": 1,
            **settings,
        }
        assert ask(self.address, UPDATE_GROUP, {}, json.dumps(body).encode()).code == 0


def send(address: str, topic: str, count: int) -> None:
    for number in range(count):
        ext = {"producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
               "bornTimestamp": "1", "flag": "0", "properties": f"number\x01{number}\x02name\x01n{number}\x02TAGS\x01T\x02",
               "reconsumeTimes": "0", "unitMode": "false", "batch": "false"}  # fmt: skip
        assert ask(address, SEND, ext, b"body").code == 0


def converse(address: str, topic: str) -> list[tuple[str, int, dict[str, str]]]:
    """Everything a client can say about filters, in an order in which each answer depends on what was said before."""
    create_topic(address, topic, 1)
    send(address, topic, 10)
    talk = Conversation(address, topic, f"of-{topic}")
    for sql, kind in (
        ("number > 5", "SQL92"),
        ("number > 'x'", "SQL92"),
        ("", "SQL92"),
        ("||", "TAG"),
        ("T", None),
        ("a", "XPATH"),
    ):
        talk.check(sql, kind)
    talk.pull()  # nobody said what the group wants
    talk.beat("number > 5", 5)
    talk.pull()
    talk.pull(subVersion=5)
    talk.pull(subVersion=6)
    talk.pull(topic="%RETRY%" + talk.group)
    talk.beat("number > 'x'", 7)
    talk.pull(subVersion=7)
    talk.beat("number < 5", 6)
    talk.pull(subVersion=7)
    talk.beat("number < 5", 8)
    talk.pull(subVersion=8, maxMsgNums=2)
    talk.pull(queueOffset=5, subVersion=8)
    talk.beat("T", 9, "TAG")
    talk.pull(subVersion=9)
    talk.beat("number < 5", 10, fingerprint=77)
    talk.beat("", 10, fingerprint=77, without_sub=True)
    talk.beat("", 10, fingerprint=78, without_sub=True)
    talk.beat("number < 4", 11, fingerprint=78)
    talk.pull(subVersion=11)
    for sql, kind in (
        ("number = 3", "SQL92"),
        ("", "SQL92"),
        (None, "SQL92"),
        ("||", "TAG"),
        ("U", "TAG"),
        (None, "TAG"),
        ("a", "XPATH"),
    ):
        if (sql, kind) != ("a", "XPATH"):  # see pull_checks: an assertion there, code 23 here
            talk.pull(sql, kind)
            talk.pull(sql, kind, LITE_PULL)
    for place in ({"queueId": -1}, {"queueId": 99}, {"topic": "nosuchtopic"}, {"queueOffset": 99}, {"queueOffset": -1}, {"maxMsgNums": -5},
                  {"queueOffset": 2**63 - 1}, {"subVersion": -1}):  # fmt: skip
        talk.pull("*", "TAG", **place)
    for broken in ({"queueId": "x"}, {"queueId": None}, {"queueId": 2**40}, {"queueOffset": ""}, {"queueOffset": 2**70}, {"sysFlag": None},
                   {"subVersion": "1.5"}, {"consumerGroup": None}, {"topic": None}):  # fmt: skip
        talk.pull("*", "TAG", **broken)
    talk.configure_group(consumeEnable=False)
    talk.pull("*", "TAG")
    talk.configure_group(consumeBroadcastEnable=False)
    talk.beat("number < 4", 12, model="BROADCASTING")
    talk.pull()
    talk.pull("*", "TAG")
    closed = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "2",
              "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
    talk.ask("the topic may not be read any more", UPDATE_TOPIC, closed)
    talk.pull()
    for body in (b"", b"{", b"[]", b"null", b"{}"):
        talk.ask(f"check {body!r}", CHECK, body=body)
    talk.ask("unregister", UNREGISTER, {"clientID": "c", "consumerGroup": talk.group})
    talk.pull()
    talk.close()
    return talk.said


@pytest.mark.parametrize("enabled", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_every_answer_about_filters_is_that_of_apache_5(servers, enabled):
    topic = f"filters-{os.getpid()}-{enabled}"
    theirs = converse(servers.apache(APACHE_5, enablePropertyFilter=enabled).broker_addr, topic)
    with SprocketServer(enablePropertyFilter=enabled) as server:
        ours = converse(server.broker_addr, topic)
    assert {label for label, _, _ in theirs} == {label for label, _, _ in ours}
    different = [f"{label}: Apache {code} {ext}, ours {mine} {my_ext}"
                 for (label, code, ext), (_, mine, my_ext) in zip(theirs, ours, strict=True) if (code, ext) != (mine, my_ext)]  # fmt: skip
    assert different == []


def test_java_is_told_at_its_start_that_an_expression_is_wrong(server, topic, java_version, start):
    program = start("PushConsumer", topic=topic, group=f"of-{topic}", count=1, sql="number > 'five'")
    assert program.wait(60) == 1
    assert any("CODE: 23" in str(line) for line in program.read_rest("failed", 10)), program.last_words()


def test_java_waits_for_what_its_expression_wants(server, topic, java_version, start):
    """The consumer is there first: its pulls wait, and only matching messages end them. 5.4.0 beats by version 2."""
    flags = ("-Dcom.rocketmq.heartbeat.v2=true",)
    options = {"namesrv": server.namesrv_addr, "topic": topic, "group": f"of-{topic}", "count": 3}
    sql = "number IN ('1', '5', '7') AND TAGS <> 'B' OR number NOT BETWEEN 0 AND 98 AND number IS NOT NULL"
    with JavaProgram(java_version, "PushConsumer", jvm_flags=flags, sql=sql, **options) as consumer:
        consumer.ready()
        start("Producer", topic=topic, count=12, tags="A").read_rest("sent", 60)
        deliveries = consumer.read_rest("message", 90)
    assert sorted(d["properties"]["number"] for d in deliveries) == ["1", "5", "7"]
