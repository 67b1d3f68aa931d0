"""What tools ask of a broker, as data: the same requests go to an Apache broker and to ours, and their answers are compared.

`CONVERSATION` is in order, because each request sees what those before it did. Its texts hold `{topic}`, `{group}`, `{client}` and
`{message}` (an offset message id), which `fill` writes out. A request whose answer is meant to differ from Apache 5.4.0's says why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interop.raw_member import RawMember
from interop.remoting import Answer, ask
from sprocketmq.wire import fastjson

__all__ = ["CONVERSATION", "Asked", "World", "comparable", "hold_conversation"]


@dataclass(frozen=True)
class Asked:
    """One request. `only_5`: 4.9 answers code 3. `differs`: why ours answers otherwise than 5.4.0, empty when it does not."""

    name: str
    code: int
    ext: dict[str, str] = field(default_factory=dict)
    body: Any = None
    only_5: bool = False
    differs: str = ""


class World(NamedTuple):
    """The names that a conversation is about."""

    topic: str
    group: str
    client: str
    message: str

    def fill(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, text in self._asdict().items():
                value = value.replace("{" + name + "}", text)
            return value
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value


MISSING = "a field that the request cannot do without is code 1 here; Apache goes on with null"
UNREADABLE = "a number that cannot be read is code 1 here; Apache takes it for null"
NEGATIVE = "Apache stores numbers that no queue can have; here they are refused with 29"
BETTER = "Apache's answer is a failure of its own; here the question is answered"
LEFT_ALONE = "a key that is unknown or cannot change is success and forgotten at Apache; here it is refused with 29"
NO_LATENCY = "latencies are not kept per topic and group here"
OWN_TOPICS = "each broker has its own system topics"

Q = {"topic": "{topic}", "queueId": "0"}
G = {"consumerGroup": "{group}"}
T = {"topic": "{topic}"}
MADE = {
    "topic": "{topic}-new",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
WITH_ATTRIBUTES = {**MADE, "topic": "{topic}-attributes"}
GROUP = {"groupName": "{group}-new", "retryQueueNums": 2, "retryMaxTimes": 3, "consumeEnable": True}
RESET = {"topic": "{topic}", "group": "{group}", "timestamp": "-1", "isForce": "true"}
ASSIGN = {
    "topic": "{topic}",
    "consumerGroup": "{group}",
    "clientId": "{client}",
    "strategyName": "AVG",
    "messageModel": "CLUSTERING",
}


def _queue(number: int) -> dict[str, Any]:
    return {"brokerName": "broker-a", "queueId": number, "topic": "{topic}"}


def _without(fields: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in fields.items() if key != name}


def _topic(name: str, attributes: dict[str, str] | None = None) -> dict[str, Any]:
    row = {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    return {**row, "topicSysFlag": 0, "order": False, "attributes": attributes or {}}


OFFSETS = [
    Asked("stored", 14, {**G, **Q}),
    Asked("of a young queue", 14, {**G, **Q, "queueId": "1"}),
    Asked("of an empty queue", 14, {**G, **Q, "queueId": "3"}),
    Asked("no zero wanted", 14, {**G, **Q, "queueId": "1", "setZeroIfNotFound": "false"}),
    Asked("of an unknown topic", 14, {**G, **Q, "topic": "nowhere"}),
    Asked("without group", 14, Q, differs=MISSING),
    Asked("without queue", 14, {**G, **T}),
    Asked("of queue abc", 14, {**G, **Q, "queueId": "abc"}),
    Asked("of queue -1", 14, {**G, **Q, "queueId": "-1"}),
    Asked("commit", 15, {**G, **Q, "commitOffset": "3"}),
    Asked("commit, unknown topic", 15, {**G, **Q, "topic": "nowhere", "commitOffset": "3"}),
    Asked("commit, unknown group", 15, {**Q, "consumerGroup": "nobody", "commitOffset": "3"}),
    Asked("commit nothing", 15, {**G, **Q}),
    Asked("commit abc", 15, {**G, **Q, "commitOffset": "abc"}),
    Asked("commit -7", 15, {**G, **Q, "queueId": "2", "commitOffset": "-7"}, differs=NEGATIVE),
    Asked("by time 0", 29, {**Q, "timestamp": "0"}),
    Asked("by time -1", 29, {**Q, "timestamp": "-1"}),
    Asked("by a time to come", 29, {**Q, "timestamp": "99999999999999"}),
    Asked("by time abc", 29, {**Q, "timestamp": "abc"}),
    Asked("the last before a time", 29, {**Q, "timestamp": "99999999999999", "boundaryType": "upper"}),
    Asked("by an unknown boundary", 29, {**Q, "timestamp": "0", "boundaryType": "x"}),
    Asked("by time in an unknown topic", 29, {**Q, "topic": "nowhere", "timestamp": "0"}),
    *(
        Asked(f"{what} of {where}", code, ext)
        for code, what in ((30, "end"), (31, "begin"), (32, "first time"))
        for where, ext in (
            ("a queue", Q),
            ("an empty queue", {**Q, "queueId": "3"}),
            ("an unknown topic", {**Q, "topic": "nowhere"}),
            ("queue -1", {**Q, "queueId": "-1"}),
            ("no topic", _without(Q, "topic")),
            ("queue abc", {**Q, "queueId": "abc"}),
        )
    ),
    Asked("all offsets", 43),
    Asked("all delay offsets", 45),
]

MEMBERS = [
    Asked("members", 38, G),
    Asked("members of nobody", 38, {"consumerGroup": "nobody"}),
    Asked("members without group", 38),
    Asked("connections", 203, G),
    Asked("connections of nobody", 203, {"consumerGroup": "nobody"}),
    Asked("producers", 204, {"producerGroup": "P-{group}"}),
    Asked("producers of nobody", 204, {"producerGroup": "nobody"}),
    Asked("all producers", 328),
    Asked("readers of a topic", 300, T),
    Asked("readers of an unknown topic", 300, {"topic": "nowhere"}),
    Asked("topics of a group", 343, {"group": "{group}"}, only_5=True),
    Asked("subscription", 345, {"group": "{group}", **T}, only_5=True),
    Asked("subscription of nobody", 345, {"group": "nobody", **T}, only_5=True),
    Asked("lock", 41, {}, {"consumerGroup": "{group}", "clientId": "{client}", "mqSet": [_queue(0), _queue(1)]}),
    Asked("lock by another", 41, {}, {"consumerGroup": "{group}", "clientId": "x", "mqSet": [_queue(0), _queue(2)]}),
    Asked("lock without queues", 41, {}, {"consumerGroup": "{group}", "clientId": "x"}),
    Asked("lock without group", 41, {}, {"clientId": "x", "mqSet": [_queue(3)]}),
    Asked("lock without body", 41),
    Asked("unlock", 42, {}, {"consumerGroup": "{group}", "clientId": "{client}", "mqSet": [_queue(0), _queue(1)]}),
    Asked("unlock without body", 42),
]

TOPICS = [
    Asked("create", 17, MADE),
    Asked("create again", 17, MADE),
    Asked("change", 17, {**MADE, "readQueueNums": "8"}),
    Asked("create, bad name", 17, {**MADE, "topic": "no blanks"}),
    Asked("create, long name", 17, {**MADE, "topic": "t" * 128}),
    Asked("create a system topic", 17, {**MADE, "topic": "TBW102"}),
    Asked("create, -1 queues", 17, {**MADE, "topic": "{topic}-n", "readQueueNums": "-1"}, differs=NEGATIVE),
    Asked("create, perm 99", 17, {**MADE, "topic": "{topic}-n", "perm": "99"}, differs=NEGATIVE),
    Asked("create, perm abc", 17, {**MADE, "perm": "abc"}),
    Asked("create without topic", 17, _without(MADE, "topic")),
    Asked("create without perm", 17, _without(MADE, "perm")),
    Asked("create without default topic", 17, _without(MADE, "defaultTopic"), differs=MISSING),
    Asked("create, filter type X", 17, {**MADE, "topicFilterType": "X"}),
    *(
        Asked(f"create with {changes}", 17, {**WITH_ATTRIBUTES, "attributes": changes})
        for changes in (
            "+message.type=FIFO",
            "+message.type=NORMAL",
            "+colour=red",
            "+message.type=BLUE",
            "+queue.type=SimpleCQ",
            "-message.type",
            "+message.type=FIFO,+message.type=NORMAL",
            "message.type",
            "+message.type",
            "+message.type=MIXED",
            "+cleanup.policy=DELETE",
            "+message.type=FIFO,-message.type",
        )
    ),
    Asked("one topic", 351, {"topic": "{topic}-attributes"}, only_5=True),
    Asked("an unknown topic", 351, {"topic": "nowhere"}, only_5=True),
    Asked("no topic", 351, only_5=True),
    Asked("create a list", 18, {}, {"topicConfigList": [_topic("{topic}-1"), _topic("{topic}-2")]}, only_5=True),
    Asked("create a bad list", 18, {}, {"topicConfigList": [_topic("{topic}-3"), _topic("a b")]}, only_5=True),
    Asked("what the bad list made", 351, {"topic": "{topic}-3"}, only_5=True),
    Asked("create no list", 18, only_5=True),
    Asked("all topics", 21),
    Asked("a page of topics", 21, {"topicSeq": "0", "maxTopicNum": "2", "dataVersion": ""}, only_5=True),
    Asked("a page from nowhere", 21, {"maxTopicNum": "2"}, only_5=True),
    Asked("a page from -1", 21, {"topicSeq": "-1", "maxTopicNum": "-1"}, only_5=True),
    Asked("system topics", 305),
    Asked("delete", 215, {"topic": "{topic}-new"}),
    Asked("delete again", 215, {"topic": "{topic}-new"}),
    Asked("delete a system topic", 215, {"topic": "TBW102"}),
    Asked("delete nothing", 215),
]

GROUPS = [
    Asked("group", 200, {}, GROUP),
    Asked("group, bad name", 200, {}, {**GROUP, "groupName": "no blanks"}),
    Asked("group without name", 200, {}, {"retryMaxTimes": 3}),
    Asked("group, long name", 200, {}, {**GROUP, "groupName": "g" * 256}),
    Asked("group without body", 200),
    Asked("group with an attribute", 200, {}, {**GROUP, "attributes": {"+colour": "red"}}),
    Asked("one group", 352, {"group": "{group}-new"}, only_5=True),
    Asked("one group, made by asking", 352, {"group": "{group}-asked"}, only_5=True),
    Asked("one group, bad name", 352, {"group": "no blanks"}, only_5=True),
    Asked("groups", 225, {}, {"groupConfigList": [{**GROUP, "groupName": "{group}-2"}]}, only_5=True),
    Asked("groups, one bad", 225, {}, {"groupConfigList": [GROUP, {**GROUP, "groupName": "a b"}]}, only_5=True),
    Asked("all groups", 201),
    Asked("a page of groups", 201, {"groupSeq": "0", "maxGroupNum": "2", "dataVersion": ""}, only_5=True),
    Asked("may read?", 353, {"group": "{group}", **T}, only_5=True),
    Asked("may not read", 353, {"group": "{group}", **T, "readable": "false"}, only_5=True),
    Asked("all groups, one forbidden", 201),
    Asked("may read again", 353, {"group": "{group}", **T, "readable": "true"}, only_5=True),
    Asked("delete group", 207, {"groupName": "{group}-new", "cleanOffset": "true", "removeOffset": "true"}),
    Asked("delete an unknown group", 207, {"groupName": "nobody-at-all"}),
    Asked("delete no group", 207),
]

NUMBERS = [
    Asked("topic stats", 202, T),
    Asked("topic stats, unknown", 202, {"topic": "nowhere"}),
    Asked("topic stats of nothing", 202),
    Asked("consume stats", 208, G),
    Asked("consume stats of a topic", 208, {**G, **T}),
    Asked("consume stats of a list", 208, {**G, "topicList": "{topic};nowhere;"}),
    Asked("consume stats of what is not subscribed", 208, {**G, "topic": "{topic}-attributes"}),
    Asked("consume stats of nobody", 208, {"consumerGroup": "nobody"}),
    Asked("consume stats of nothing", 208),
    Asked("time span", 303, {"group": "{group}", **T}),
    Asked("time span, unknown topic", 303, {"group": "{group}", "topic": "nowhere"}),
    Asked("time span of nobody", 303, T, differs=MISSING),
    *(
        Asked(f"statistic {name}", 315, {"statsName": name, "statsKey": key}, differs=differs)
        for name, key, differs in (
            ("TOPIC_PUT_NUMS", "{topic}", ""),
            ("TOPIC_PUT_SIZE", "{topic}", ""),
            ("GROUP_GET_NUMS", "{topic}@{group}", ""),
            ("GROUP_GET_SIZE", "{topic}@{group}", ""),
            ("BROKER_PUT_NUMS", "DefaultCluster", ""),
            ("BROKER_GET_NUMS", "DefaultCluster", ""),
            ("QUEUE_PUT_NUMS", "{topic}@0", ""),
            ("NO_SUCH_THING", "{topic}", ""),
            ("GROUP_GET_LATENCY", "0@{topic}@{group}", NO_LATENCY),
        )
    ),
    Asked("consume stats of the broker", 317, {"isOrder": "false"}),
    Asked("consume stats of the broker, ordered", 317, {"isOrder": "true"}),
    Asked("consume queue", 321, {**Q, "index": "0", "count": "3"}),
    Asked("consume queue of a group", 321, {**Q, **G, "index": "1", "count": "1"}),
    Asked("consume queue of nobody", 321, {**Q, "consumerGroup": "nobody", "index": "0", "count": "1"}),
    Asked("consume queue beyond its end", 321, {**Q, "index": "100", "count": "3"}),
    Asked("consume queue, unknown topic", 321, {**Q, "topic": "nowhere", "index": "0", "count": "3"}),
    Asked("settings", 26),
    Asked("same setting", 25, {}, "longPollingEnable=true"),
    Asked("black listed setting", 25, {}, "brokerConfigPath=/tmp/x"),
    Asked("unknown setting", 25, {}, "noSuchKey=1", differs=LEFT_ALONE),
    Asked("setting abc", 25, {}, "defaultTopicQueueNums=abc", differs=LEFT_ALONE),
    Asked("no setting", 25),
    Asked("clean queues", 306),
    Asked("clean topics", 316),
    Asked("clean log", 329),
]

MOVES = [
    Asked("correction", 308, {**T, "compareGroup": "nobody"}),
    Asked("correction of a group", 308, {**T, "compareGroup": "{group}"}),
    Asked("correction of nothing", 308),
    Asked("clone", 314, {"srcGroup": "{group}", "destGroup": "{group}-clone", **T}),
    Asked("the clone", 14, {**Q, "consumerGroup": "{group}-clone"}),
    Asked("clone nobody", 314, {"srcGroup": "nobody", "destGroup": "x", **T}),
    Asked("set PULL", 401, {}, {**T, "consumerGroup": "{group}", "mode": "PULL"}, only_5=True),
    Asked("set PULL, unknown topic", 401, {}, {"topic": "nowhere", "consumerGroup": "g", "mode": "PULL"}, only_5=True),
    Asked("set PULL, retry", 401, {}, {"topic": "%RETRY%g", "consumerGroup": "g", "mode": "PULL"}, only_5=True),
    Asked("set nothing", 401, only_5=True),
    Asked("modes", 402, only_5=True),
    Asked("assignment", 400, {}, ASSIGN, only_5=True),
    Asked("assignment by circle", 400, {}, {**ASSIGN, "strategyName": "AVG_BY_CIRCLE"}, only_5=True),
    Asked("assignment by an unknown way", 400, {}, {**ASSIGN, "strategyName": "X"}, only_5=True),
    Asked("assignment, broadcasting", 400, {}, {**ASSIGN, "messageModel": "BROADCASTING"}, only_5=True),
    Asked("assignment of a stranger", 400, {}, {**ASSIGN, "clientId": "stranger"}, only_5=True),
    Asked("assignment to nobody", 400, {}, {**ASSIGN, "consumerGroup": "nobody"}, only_5=True),
    Asked("assignment of an unknown topic", 400, {}, {**ASSIGN, "topic": "nowhere"}, only_5=True),
    Asked("running info", 307, {**G, "clientId": "{client}", "jstackEnable": "true"}),
    Asked("running info of a stranger", 307, {**G, "clientId": "stranger"}),
    Asked("running info of nobody", 307, {"consumerGroup": "nobody", "clientId": "{client}"}),
    Asked("consume directly", 309, {**G, **T, "clientId": "{client}", "msgId": "{message}"}),
    Asked("consume directly, stranger", 309, {**G, **T, "clientId": "stranger", "msgId": "{message}"}),
    Asked("consume directly, bad id", 309, {**G, **T, "clientId": "{client}", "msgId": "junk"}),
    Asked("consume directly, no id", 309, {**G, **T, "clientId": "{client}"}),
    Asked("status", 223, {"group": "{group}", **T}),
    Asked("status of one", 223, {"group": "{group}", **T, "clientAddr": "{client}"}),
    Asked("status of a stranger", 223, {"group": "{group}", **T, "clientAddr": "stranger"}),
    Asked("status of nobody", 223, {"group": "nobody", **T}),
    Asked("reset to the end", 222, RESET),
    Asked("offset after the reset", 14, {**G, **Q}),
    Asked("commit while it is pending", 15, {**G, **Q, "commitOffset": "1"}),
    Asked("offset after that", 14, {**G, **Q}),
    Asked("reset one queue", 222, {**RESET, "queueId": "1", "offset": "1"}),
    Asked("reset beyond the end", 222, {**RESET, "queueId": "1", "offset": "1000"}),
    Asked("reset to time 0", 222, {**RESET, "queueId": "0", "timestamp": "0"}),
    Asked("reset queue 99", 222, {**RESET, "queueId": "99"}, differs=NEGATIVE),
    Asked("reset, unknown topic", 222, {**RESET, "topic": "nowhere"}),
    Asked("reset, unknown group", 222, {**RESET, "group": "nobody-at-all"}),
    Asked("reset nothing", 222),
    Asked("reset to time abc", 222, {**RESET, "timestamp": "abc"}, differs=UNREADABLE),
    Asked("leave", 35, {"clientID": "{client}", "consumerGroup": "{group}"}),
    Asked("leave, unknown", 35),
    *(Asked("a code that nobody serves", code) for code in (13, 22, 27, 209, 301, 999)),
]

CONVERSATION = [*OFFSETS, *MEMBERS, *TOPICS, *GROUPS, *NUMBERS, *MOVES]

# What differs between two runs of the same broker.
_VOLATILE = frozenset(
    [
        "timestamp",
        "counter",
        "stateVersion",
        "lastUpdateTimestamp",
        "clientAddr",
        "remoteIP",
        "brokerAddr",
        "lastTimestamp",
        "minTimeStamp",
        "maxTimeStamp",
        "consumeTimeStamp",
        "minTimeStampStr",
        "maxTimeStampStr",
        "consumeTimeStampStr",
        "delayTime",
        "consumeTps",
        "topicPutTps",
        "tps",
        "avgpt",
        "sum",
        "physicSize",
        "physicOffset",
        "msgId",
        "got",
        "totalDiff",
        "totalInflightDiff",
        "pullOffset",
    ]
)


def hold_conversation(broker_addr: str, topic: str, group: str) -> dict[str, Answer]:
    """All answers by name. The topic has four queues and nothing in it yet; nobody knows the group."""
    message = ""
    for queue_id, count in ((0, 6), (1, 2)):
        for number in range(count):
            ext = {
                "a": "producers",
                "b": topic,
                "c": "TBW102",
                "d": "4",
                "e": str(queue_id),
                "f": "0",
                "g": "1700000000000",
            }
            ext |= {"h": "0", "i": "TAGS\x01A\x02KEYS\x01k\x02", "j": "0", "k": "false", "m": "false"}
            sent = ask(broker_addr, 310, ext, b"body %d" % number)
            assert not sent.code, sent.header
            message = message or sent.header["extFields"]["msgId"]
    world = World(topic, group, f"c1@{group}", message)
    status = {"messageQueueTable": {fastjson.MessageQueue(topic, "broker-a", 0): 5}}
    replies = {
        307: lambda header, body: (0, json.dumps({"properties": {}, "got": sorted(header["extFields"])}).encode()),
        309: lambda header, body: (0, json.dumps({"consumeResult": "CR_SUCCESS", "record": len(body) > 100}).encode()),
        221: lambda header, body: (0, fastjson.dumps(status)),
    }
    with RawMember(broker_addr, replies) as member:
        member.heartbeat(world.client, group=group, topics=(topic, f"%RETRY%{group}"), producer=f"P-{group}")
        pull = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "3"}
        pull |= {"sysFlag": "3", "commitOffset": "3", "suspendTimeoutMillis": "0", "subVersion": "1"}
        assert member.ask(11, pull).code == 0
        ask(broker_addr, 15, world.fill({**G, **Q, "commitOffset": "3"}))
        answers = {}
        for asked in CONVERSATION:
            body = world.fill(asked.body)
            raw = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            answers[f"{asked.code} {asked.name}"] = ask(broker_addr, asked.code, world.fill(asked.ext), raw)
    return answers


def comparable(name: str, answer: Answer, topic: str, group: str) -> tuple[int, list[str], Any]:
    """Code, names of the header fields, and the body without what differs between two runs anyway."""
    code = int(name.split()[0])
    fields = sorted(answer.header.get("extFields") or {})
    if not answer.body or code == 26:
        return answer.code, fields, bool(answer.body)
    body = fastjson.loads(answer.body)
    # System topics and groups are each broker's own: of tables that hold them, the rows of this conversation count.
    if code == 305:
        return answer.code, fields, sorted({"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a"} & set(body["topicList"]))
    if code == 21:
        body["topicConfigTable"] = {topic: body["topicConfigTable"].get(topic)}
    if code == 201:
        body["subscriptionGroupTable"] = {group: body["subscriptionGroupTable"].get(group)}
        body["forbiddenTable"] = {group: body["forbiddenTable"].get(group)} if "forbiddenTable" in body else None
    if code == 317:
        body["consumeStatsList"] = [row for row in body["consumeStatsList"] if group in row]
    if code == 43:
        body = {**body, "offsetTable": body["offsetTable"].get(f"{topic}@{group}"), "groupTopicMap": None}
    if code == 45:
        body["offsetTable"] = None
    if code == 328:
        body["data"] = {f"P-{group}": body["data"].get(f"P-{group}")}
    return answer.code, fields, _steady(body)


def _steady(value: Any, name: Any = None) -> Any:
    if isinstance(value, dict):
        return {str(key): _steady(item, key) for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, list):
        return sorted((_steady(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return type(value).__name__ if name in _VOLATILE else value
