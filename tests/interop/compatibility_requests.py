# SPDX-License-Identifier: Apache-2.0
"""The requests that are sent alike to Apache's servers and to ours, as data: one line each, in the order in which they are sent.

`<word>` in a value is filled in while it runs: addresses, and what earlier answers brought (`keeps`). A request is well-formed, as a
Java client or mqadmin sends it; `strange_variants` makes the ill-formed ones of it: each field left out, and with values that cannot be.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from interop.java_peers import ALL_VERSIONS, APACHE_4, APACHE_5, APACHE_55

TOPIC: Final = "compared"
GROUP: Final = "readers"
PRODUCERS: Final = "writers"
MEMBER: Final = "member@compared"

_ONLY_4: Final = (APACHE_4,)
_ONLY_5: Final = (APACHE_5, APACHE_55)


class Asked(NamedTuple):
    """One request. `strange` describes what was done to a well-formed one; `keeps` names the words that its answer fills; `moves` are
    fields of the answer whose value depends on how long the requests before it took.
    """

    code: int
    fields: dict[str, str]
    body: bytes = b""
    what: str = ""
    to: str = "broker"
    versions: tuple[str, ...] = ALL_VERSIONS
    keeps: str = ""
    strange: str = ""
    moves: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names the request among all."""
        return " ".join(filter(None, (self.to, str(self.code), self.what, self.strange)))


def asked_in_order(version: str) -> list[Asked]:
    """All well-formed requests that a client of this version knows."""
    return [asked for asked in _ALL if version in asked.versions]


def strange_variants(asked: Asked) -> Iterator[Asked]:
    """The ill-formed relatives of a request: for each field missing, not a number, negative, huge, or a name that nobody knows."""
    if asked.what:
        return  # its first sibling stands for all of its code
    for field, value in asked.fields.items():
        for name, strange in _strange(value):
            fields = {other: kept for other, kept in asked.fields.items() if other != field}
            if strange is not None:
                fields[field] = strange
            yield asked._replace(fields=fields, keeps="", strange=f"{field} {name}")
    if asked.body:
        for name, body in (("missing", b""), ("broken", b"{"), ("null", b"null"), ("not text", b"\xff\xfe\xfd")):
            yield asked._replace(body=body, keeps="", strange=f"body {name}")


def _strange(value: str) -> list[tuple[str, str | None]]:
    if re.fullmatch(r"-?\d+|<\w+_number>", value):
        huge = "99999999999999999999"
        return [("missing", None), ("not a number", "abc"), ("negative", "-1"), ("huge", huge)]
    if value in ("true", "false"):
        return [("missing", None), ("not a truth value", "abc")]
    return [("missing", None), ("unknown", "nobody-knows")]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _properties(**given: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in given.items())


def _batched(*bodies: bytes) -> bytes:
    properties = b"TAGS\x01A\x02"
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, 0, len(body))
        + body + struct.pack(">h", len(properties)) + properties
        for body in bodies
    )  # fmt: skip


_QUEUE: Final = {"topic": TOPIC, "queueId": "0"}
_OF_GROUP: Final = {"consumerGroup": GROUP}
_SEND: Final = {
    "producerGroup": PRODUCERS, "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "2", "sysFlag": "0",
    "bornTimestamp": "1700000000000", "flag": "0", "properties": _properties(TAGS="A", UNIQ_KEY="7F0000010001000000000000000000AA"),
    "reconsumeTimes": "0", "unitMode": "false", "maxReconsumeTimes": "16", "batch": "false",
}  # fmt: skip
_SEND_2: Final = dict(zip("abcdefghijklm", _SEND.values(), strict=True))
_PULL: Final = {
    **_OF_GROUP, **_QUEUE, "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
    "subscription": "*", "subVersion": "1", "expressionType": "TAG",
}  # fmt: skip
_CREATE: Final = {
    "topic": "compared-made", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip
_GROUP_CONFIG: Final = {
    "groupName": "made", "consumeEnable": True, "consumeFromMinEnable": False, "consumeBroadcastEnable": True, "retryQueueNums": 1,
    "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True,
}  # fmt: skip
_RESET: Final = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
_MQ: Final = {"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}
_SUBSCRIPTION: Final = {
    "topic": TOPIC,
    "subString": "*",
    "subVersion": 1,
    "expressionType": "TAG",
    "tagsSet": [],
    "codeSet": [],
}
_HEARTBEAT: Final = {
    "clientID": "second@compared", "producerDataSet": [{"groupName": "others"}],
    "consumerDataSet": [{
        "groupName": "second-readers", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [_SUBSCRIPTION],
    }],
}  # fmt: skip
_REPLY: Final = _properties(MSG_TYPE="reply", CORRELATION_ID="c-1", REPLY_TO_CLIENT=MEMBER, TTL="3000")
_REPLY_TO: Final = {"topic": "DefaultCluster_REPLY_TOPIC", "properties": _REPLY}
_REPLY_FIELDS: Final = {**_SEND, **_REPLY_TO, "queueId": "0"}
_HALF: Final = _properties(TRAN_MSG="true", PGROUP=PRODUCERS, UNIQ_KEY="7F0000010001000000000000000000BB")
_HALF_2: Final = _properties(TRAN_MSG="true", PGROUP=PRODUCERS, UNIQ_KEY="7F0000010001000000000000000000CC")
_END: Final = {
    "producerGroup": PRODUCERS, "tranStateTableOffset": "<half_at_number>", "commitLogOffset": "<half_log_number>",
    "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "7F0000010001000000000000000000BB",
    "transactionId": "7F0000010001000000000000000000BB", "topic": TOPIC,
}  # fmt: skip
_ACCOUNT: Final = {
    "accessKey": "compared",
    "secretKey": "compared-secret",
    "admin": "false",
    "defaultTopicPerm": "DENY",
}
_BROKER: Final = {"brokerName": "fake", "brokerAddr": "127.0.0.1:1", "clusterName": "fake-cluster", "brokerId": "0"}
_DATA_VERSION: Final = {"timestamp": 1700000000000, "counter": 1, "stateVersion": 0}
_FAKE_TOPIC: Final = {
    "topicName": "of-fake", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
    "order": False,
}  # fmt: skip
_REGISTRATION: Final = {
    "topicConfigSerializeWrapper": {
        "topicConfigTable": {"of-fake": _FAKE_TOPIC, "of-fake-2": {**_FAKE_TOPIC, "topicName": "of-fake-2"}},
        "dataVersion": _DATA_VERSION,
    },
    "filterServerList": [],
}  # fmt: skip
_USER: Final = {"username": "compared", "password": "compared-password", "userType": "Normal"}
_SUBJECT: Final = "User:compared"
_ACL: Final = {
    "subject": _SUBJECT,
    "policies": [
        {"policyType": "Custom", "entries": [
            {"resource": f"Topic:{TOPIC}", "actions": ["Pub"], "sourceIps": ["127.0.0.1"], "decision": "Allow"}
        ]}
    ],
}  # fmt: skip


def _namesrv(code: int, fields: dict[str, str], body: bytes = b"", what: str = "", **more: tuple[str, ...]) -> Asked:
    return Asked(code, fields, body, what, "namesrv", **more)  # type: ignore[arg-type]


_ALL: Final = (
    # -- reading ------------------------------------------------------------------------------------------------------------------
    Asked(11, _PULL),
    Asked(11, {**_PULL, "queueOffset": "1", "subscription": "B"}, what="of another tag"),
    Asked(11, {**_PULL, "queueOffset": "3"}, what="at the end"),
    Asked(11, {**_PULL, "queueOffset": "900"}, what="far behind the end"),
    Asked(11, {**_PULL, "queueId": "3"}, what="of an empty queue"),
    Asked(11, {**_PULL, "queueId": "77"}, what="of a queue that is not there"),
    Asked(11, {**_PULL, "sysFlag": "0"}, what="by the subscription of the heartbeat"),
    Asked(11, {**_PULL, "consumerGroup": "strangers", "sysFlag": "0"}, what="without a subscription"),
    Asked(11, {**_PULL, "topic": "compared-nowhere"}, what="of an unknown topic"),
    Asked(11, {**_PULL, "expressionType": "SQL92", "subscription": "a > 1"}, what="with a condition"),
    Asked(11, {**_PULL, "expressionType": "SQL92", "subscription": "a >"}, what="with a broken condition"),
    Asked(361, _PULL, versions=_ONLY_5),
    Asked(12, {"topic": TOPIC, "key": "key-1", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(2**62)}),
    Asked(12, {"topic": TOPIC, "key": "key-none", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(2**62)}, what="nobody has"),
    Asked(33, {"offset": "<message_log_number>"}),
    Asked(33, {"offset": "<message_log_number>", "topic": TOPIC}, what="with its topic", versions=_ONLY_5),
    Asked(33, {"offset": "3"}, what="where no message begins"),
    Asked(14, {**_OF_GROUP, **_QUEUE}),
    Asked(14, {**_OF_GROUP, "topic": TOPIC, "queueId": "2"}, what="without progress"),
    Asked(14, {"consumerGroup": "strangers", **_QUEUE, "setZeroIfNotFound": "false"}, what="of a stranger", versions=_ONLY_5),
    Asked(29, {**_QUEUE, "timestamp": "0"}),
    Asked(29, {**_QUEUE, "timestamp": str(2**42)}, what="in the future"),
    Asked(29, {**_QUEUE, "timestamp": "0", "boundaryType": "UPPER"}, what="upper", versions=_ONLY_5),
    Asked(30, _QUEUE),
    Asked(30, {**_QUEUE, "committed": "true"}, what="committed", versions=_ONLY_5),
    Asked(31, _QUEUE),
    Asked(32, _QUEUE),
    Asked(32, {"topic": TOPIC, "queueId": "3"}, what="of an empty queue"),
    Asked(321, {**_QUEUE, "index": "0", "count": "3", "consumerGroup": GROUP}),
    Asked(21, {}),
    Asked(21, {"topicSeq": "0", "maxTopicNum": "3"}, what="one page", versions=_ONLY_5),
    Asked(201, {}),
    Asked(201, {"groupSeq": "0", "maxGroupNum": "3"}, what="one page", versions=_ONLY_5),
    Asked(43, {}),
    Asked(45, {}),
    Asked(26, {}),
    Asked(28, {}),
    Asked(202, {"topic": TOPIC}),
    Asked(203, {"consumerGroup": GROUP}),
    Asked(203, {"consumerGroup": "strangers"}, what="of a stranger"),
    Asked(204, {"producerGroup": PRODUCERS}),
    Asked(328, {}),
    Asked(38, {"consumerGroup": GROUP}),
    Asked(38, {"consumerGroup": "strangers"}, what="of a stranger"),
    Asked(208, {"consumerGroup": GROUP, "topic": TOPIC}),
    Asked(208, {"consumerGroup": GROUP}, what="of all topics"),
    Asked(300, {"topic": TOPIC}),
    Asked(343, {"group": GROUP}, versions=_ONLY_5),
    Asked(345, {"group": GROUP, "topic": TOPIC}, versions=_ONLY_5),
    Asked(351, {"topic": TOPIC}, versions=_ONLY_5),
    Asked(352, {"group": GROUP}, versions=_ONLY_5),
    Asked(303, {"topic": TOPIC, "group": GROUP}),
    Asked(305, {}),
    Asked(307, {**_OF_GROUP, "clientId": MEMBER, "jstackEnable": "false"}),
    Asked(307, {**_OF_GROUP, "clientId": "nobody", "jstackEnable": "false"}, what="of a stranger"),
    Asked(309, {**_OF_GROUP, "clientId": MEMBER, "msgId": "<message_id>", "topic": TOPIC, "brokerName": "broker-a"}),
    Asked(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}),
    Asked(317, {"isOrder": "false"}),
    Asked(308, {"topic": TOPIC, "compareGroup": GROUP, "filterGroups": ""}),
    Asked(400, {}, _json({
        "topic": TOPIC, "consumerGroup": GROUP, "clientId": MEMBER, "strategyName": "AVG", "messageModel": "CLUSTERING"
    }), versions=_ONLY_5),
    Asked(402, {}, versions=_ONLY_5),
    Asked(60, {}, versions=_ONLY_5),
    Asked(61, {}, versions=_ONLY_5),
    Asked(906, {}, versions=_ONLY_5),
    Asked(907, {}, versions=_ONLY_5),
    # -- clients ------------------------------------------------------------------------------------------------------------------
    Asked(34, {}, _json(_HEARTBEAT)),
    Asked(46, {}, _json({
        "clientId": MEMBER, "group": GROUP,
        "subscriptionData": {**_SUBSCRIPTION, "subString": "a > 1", "expressionType": "SQL92"},
    })),
    Asked(41, {}, _json({"consumerGroup": GROUP, "clientId": MEMBER, "mqSet": [_MQ]})),
    Asked(42, {}, _json({"consumerGroup": GROUP, "clientId": MEMBER, "mqSet": [_MQ]})),
    Asked(15, {**_OF_GROUP, **_QUEUE, "commitOffset": "2"}),
    Asked(35, {"clientID": "second@compared", "producerGroup": "others", "consumerGroup": "second-readers"}),
    # -- sending ------------------------------------------------------------------------------------------------------------------
    Asked(10, _SEND, b"as a 3.x client sends"),
    Asked(310, _SEND_2, b"as clients send"),
    Asked(310, {**_SEND_2, "b": "compared-read-only"}, b"x", what="to a read-only topic"),
    Asked(310, {**_SEND_2, "b": "compared-grown"}, b"x", what="to a topic that is to be made"),
    Asked(310, {**_SEND_2, "b": "bad topic!"}, b"x", what="to a bad name"),
    Asked(310, {**_SEND_2, "i": _properties(DELAY="3")}, b"x", what="with a delay level"),
    Asked(310, {**_SEND_2, "i": _properties(TIMER_DELAY_SEC="600")}, b"x", what="with a delivery time", versions=_ONLY_5, keeps="timer"),
    Asked(320, {**_SEND_2, "m": "true"}, _batched(b"one", b"two")),
    Asked(36, {
        "offset": "<message_log_number>", "group": GROUP, "delayLevel": "0", "originMsgId": "<message_id>", "originTopic": TOPIC,
        "unitMode": "false", "maxReconsumeTimes": "16",
    }),
    Asked(324, {**_REPLY_FIELDS, "bornHost": "127.0.0.1:1", "storeHost": "127.0.0.1:1", "storeTimestamp": "1700000000000"}, b"reply"),
    Asked(325, {**_SEND_2, "b": _REPLY_TO["topic"], "e": "0", "i": _REPLY}, b"reply"),
    Asked(310, {**_SEND_2, "f": "4", "g": "<now_number>", "i": _HALF}, b"half", what="half a transaction", keeps="half"),
    Asked(37, _END),
    Asked(37, _END, what="once more"),
    Asked(310, {**_SEND_2, "f": "4", "g": "<now_number>", "i": _HALF_2}, b"half", what="half a transaction that stays open",
          moves=("queueOffset",)),  # the half before it has a second record by then if the broker asked about it
    Asked(323, {"msgId": "<message_id>"}),
    Asked(370, {"producerGroup": PRODUCERS, "topic": TOPIC, "recallHandle": "<timer_handle>"}, versions=_ONLY_5),
    # -- changing -----------------------------------------------------------------------------------------------------------------
    Asked(17, _CREATE),
    Asked(17, {**_CREATE, "topic": "bad topic!"}, what="with a bad name"),
    Asked(17, {**_CREATE, "topic": "TBW102"}, what="of the system"),
    Asked(17, {**_CREATE, "attributes": "+message.type=FIFO"}, what="with attributes", versions=_ONLY_5),
    Asked(17, {**_CREATE, "topic": "compared-attributes", "attributes": "+nonsense=1"}, what="with unknown attributes", versions=_ONLY_5),
    Asked(18, {}, _json({"topicConfigList": [{**_FAKE_TOPIC, "topicName": "compared-listed"}]}), versions=_ONLY_5),
    Asked(200, {}, _json(_GROUP_CONFIG)),
    Asked(225, {}, _json({"groupConfigList": [{**_GROUP_CONFIG, "groupName": "made-listed"}]}), versions=_ONLY_5),
    Asked(353, {"group": GROUP, "topic": TOPIC, "readable": "true"}, versions=_ONLY_5),
    Asked(401, {}, _json({"topic": TOPIC, "consumerGroup": GROUP, "mode": "PULL", "popShareQueueNum": 0}), versions=_ONLY_5),
    Asked(25, {}, b"maxMessageSize=4194303\n"),
    Asked(25, {}, b"noSuchKey=1\n", what="of an unknown key"),
    Asked(15, {**_OF_GROUP, "topic": TOPIC, "queueId": "2", "commitOffset": "0"}, what="of the third queue"),
    Asked(15, {**_OF_GROUP, "topic": TOPIC, "queueId": "3", "commitOffset": "0"}, what="of the fourth queue"),
    Asked(222, _RESET),
    Asked(222, {**_RESET, "timestamp": "-1", "queueId": "0", "offset": "1"}, what="of one queue", versions=_ONLY_5),
    Asked(11, _PULL, what="after a reset", versions=_ONLY_5),
    Asked(11, {**_PULL, "queueId": "1"}, what="after a reset, of another queue", versions=_ONLY_5),
    Asked(223, {"topic": TOPIC, "group": GROUP, "clientAddr": MEMBER}),
    Asked(314, {"srcGroup": GROUP, "destGroup": "made", "topic": TOPIC, "offline": "true"}),
    Asked(306, {}),
    Asked(316, {}),
    Asked(329, {}),
    Asked(50, _ACCOUNT, versions=_ONLY_4),
    Asked(53, {"globalWhiteAddrs": "127.0.0.9"}, versions=_ONLY_4),
    Asked(52, {}, versions=_ONLY_4),
    Asked(54, {}, versions=_ONLY_4),
    Asked(51, {"accessKey": "compared"}, versions=_ONLY_4),
    Asked(3001, {"username": "compared"}, _json(_USER), versions=_ONLY_5),
    Asked(3002, {"username": "compared"}, _json({**_USER, "password": "another"}), versions=_ONLY_5),
    Asked(3004, {"username": "compared"}, versions=_ONLY_5),
    Asked(3005, {"filter": "comp"}, versions=_ONLY_5),
    Asked(3006, {"subject": _SUBJECT}, _json(_ACL), versions=_ONLY_5),
    Asked(3007, {"subject": _SUBJECT}, _json(_ACL), versions=_ONLY_5),
    Asked(3009, {"subject": _SUBJECT}, versions=_ONLY_5),
    Asked(3010, {"subjectFilter": "comp", "resourceFilter": "comp"}, versions=_ONLY_5),
    Asked(3008, {"subject": _SUBJECT, "policyType": "Custom", "resource": f"Topic:{TOPIC}"}, versions=_ONLY_5),
    Asked(3003, {"username": "compared"}, versions=_ONLY_5),
    Asked(207, {"groupName": "made", "cleanOffset": "true", "removeOffset": "true"}),
    Asked(207, {"groupName": "strangers"}, what="of a stranger"),
    Asked(215, {"topic": "compared-made"}),
    Asked(215, {"topic": "compared-nowhere"}, what="of an unknown topic"),
    Asked(215, {"topic": "TBW102"}, what="of the system"),
    # -- codes that nobody serves ---------------------------------------------------------------------------------------------------
    *(Asked(code, {}) for code in (13, 22, 23, 27, 47, 209, 210, 211, 212, 213, 214, 301, 302)),
    # -- name server --------------------------------------------------------------------------------------------------------------
    _namesrv(100, {"namespace": "compared", "key": "k", "value": "v"}),
    _namesrv(101, {"namespace": "compared", "key": "k"}),
    _namesrv(101, {"namespace": "compared", "key": "none"}, what="of an unknown key"),
    _namesrv(219, {"namespace": "compared"}),
    _namesrv(102, {"namespace": "compared", "key": "k"}),
    _namesrv(103, {**_BROKER, "haServerAddr": "127.0.0.1:2", "compressed": "false", "bodyCrc32": "0"}, _json(_REGISTRATION)),
    _namesrv(322, _BROKER, _json(_DATA_VERSION)),
    _namesrv(904, {"clusterName": "fake-cluster", "brokerAddr": "127.0.0.1:1", "brokerName": "fake"}, versions=_ONLY_5),
    _namesrv(901, {"clusterName": "fake-cluster", "brokerName": "fake"}, versions=_ONLY_5),
    _namesrv(105, {"topic": TOPIC}),
    _namesrv(105, {"topic": "of-fake"}, what="of two"),
    _namesrv(105, {"topic": "compared-nowhere"}, what="of an unknown topic"),
    _namesrv(106, {}),
    _namesrv(205, {"brokerName": "fake"}),
    _namesrv(327, {"brokerName": "fake"}),
    _namesrv(206, {}),
    _namesrv(224, {"cluster": "DefaultCluster"}),
    _namesrv(304, {}),
    _namesrv(311, {}),
    _namesrv(312, {}),
    _namesrv(313, {}),
    _namesrv(319, {}),
    _namesrv(318, {}, b"serverChannelMaxIdleTimeSeconds=121\n"),
    _namesrv(217, {"topic": "of-nobody"}, _json({
        "queueDatas": [{"brokerName": "fake", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}],
        "brokerDatas": [],
    }), versions=_ONLY_5),
    _namesrv(216, {"topic": "of-fake"}),
    _namesrv(104, _BROKER),
)  # fmt: skip
