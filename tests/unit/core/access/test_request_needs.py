# SPDX-License-Identifier: Apache-2.0
"""What each request needs: names in header fields, bodies and records; nothing is skipped, and both generations go by one table."""

from __future__ import annotations

import pytest

from decoded_frames import read_by_code
from golden.pipeline.scenes import request, send_fields
from sprocketmq.core.access.need_readers import REDIRECTED_TOPICS, Place
from sprocketmq.core.access.request_needs import needs_key, needs_of
from sprocketmq.core.access.rights import Need
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import headers
from sprocketmq.wire.bodies import ConsumerData, HeartbeatData, LockBatchRequestBody, SubscriptionData
from sprocketmq.wire.frames.command import Command, decode_command
from sprocketmq.wire.frames.raw_command import RawCommand
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.access import REPLY

RECORDS = {7: "orders", 8: "%RETRY%g", 9: "", 10: "RMQ_SYS_TRANS_HALF_TOPIC"}
PLACE = Place("my-cluster", RECORDS.get)
ID_7, ID_8, ID_9 = (f"7F00000100002A9F{offset:016X}" for offset in (7, 8, 9))
END = {"producerGroup": "p", "tranStateTableOffset": "0", "commitOrRollback": "8"}


def keys(code: int, body: bytes = b"", **ext: str) -> list[str]:
    needs = needs_of(Command(code, ext_fields=ext, body=body), PLACE)
    return [f"{','.join(sorted(need.right.actions))} {need.key}" for need in needs]


@pytest.mark.parametrize(
    ("code", "ext", "wanted"),
    [
        (310, {"b": "orders", "a": "g"}, ["Pub Topic:orders"]),
        (320, {"b": "orders", "a": "g"}, ["Pub Topic:orders"]),
        (310, {"b": "%RETRY%other", "a": "g"}, ["Sub Group:other"]),
        (10, {"topic": "%RETRY%g", "group": "x"}, ["Sub Group:g"]),
        (324, {"topic": "orders", "group": "g"}, ["Pub Topic:orders"]),
        (325, {"b": "orders", "a": "g"}, ["Pub Topic:orders"]),
        (325, {"b": "%RETRY%g", "a": "g"}, ["Sub Group:g"]),
        (370, {"topic": "orders"}, ["Pub Topic:orders"]),
        (11, {"topic": "orders", "consumerGroup": "g"}, ["Sub Topic:orders", "Sub Group:g"]),
        (11, {"topic": "%RETRY%other", "consumerGroup": "g"}, ["Sub Group:other", "Sub Group:g"]),
        (361, {"topic": "orders", "consumerGroup": "g"}, ["Sub Topic:orders", "Sub Group:g"]),
        (14, {"topic": "orders", "consumerGroup": "g"}, ["Get,Sub Topic:orders", "Get,Sub Group:g"]),
        (15, {"topic": "orders", "consumerGroup": "g"}, ["Sub,Update Topic:orders", "Sub,Update Group:g"]),
        (33, {"offset": "7"}, ["Get,Sub Topic:orders"]),
        (33, {"offset": "7", "topic": "mine"}, ["Get,Sub Topic:orders"]),
        (33, {"offset": "8"}, ["Get,Sub Group:g"]),
        (33, {"offset": "10"}, ["Get Cluster:my-cluster"]),
        (33, {"offset": "1000"}, []),
        (36, {"group": "g", "offset": "7", "delayLevel": "0"}, ["Sub Group:g", "Sub Topic:orders"]),
        (37, {"commitLogOffset": "7", **END}, ["Pub Topic:orders"]),
        (37, {"commitLogOffset": "7", "topic": "mine", **END}, ["Pub Topic:orders"]),
        (309, {"consumerGroup": "g", "msgId": ID_7}, ["Sub Group:g", "Sub Topic:orders"]),
        (323, {"msgId": ID_7}, ["Update Topic:orders"]),
        (35, {"producerGroup": "p"}, []),
        (17, {"topic": "orders"}, ["Create Topic:orders"]),
        (215, {"topic": "orders"}, ["Delete Topic:orders"]),
        (207, {"groupName": "g"}, ["Delete Group:g"]),
        (30, {"topic": "orders"}, ["Get Topic:orders"]),
        (222, {"topic": "orders", "group": "g"}, ["Update Group:g", "Update Topic:orders"]),
        (314, {"srcGroup": "g", "destGroup": "h"}, ["Get,Sub Group:g", "Update Group:h"]),
        (208, {"consumerGroup": "g", "topicList": "a;;b"}, ["Get Group:g", "Get Topic:a", "Get Topic:b"]),
        (308, {"filterGroups": "a,b", "compareGroup": "c", "topic": "t"},
         ["Get Group:a", "Get Group:b", "Get Group:c", "Get Topic:t"]),
        (3001, {}, ["Update Cluster:my-cluster"]),
        (3005, {}, ["Get Cluster:my-cluster"]),
        (25, {}, ["Update Cluster:my-cluster"]),
        (26, {}, []),
        (21, {}, ["Get Cluster:my-cluster"]),
        (329, {}, ["Update Cluster:my-cluster"]),
    ],
)  # fmt: skip
def test_a_request_needs_what_its_header_names(code, ext, wanted):
    assert keys(code, **ext) == wanted


def test_a_request_needs_what_its_body_names():
    subscriptions = [SubscriptionData("orders"), SubscriptionData("%RETRY%other")]
    heartbeat = HeartbeatData("c", consumer_data_set=[ConsumerData("g", subscription_data_set=subscriptions)])
    assert keys(34, heartbeat.encode()) == ["Sub Group:g", "Sub Topic:orders", "Sub Group:other"]
    lock = LockBatchRequestBody("g", "c", [MessageQueue("orders", "b", 0), MessageQueue("orders", "b", 1)])
    assert keys(41, lock.encode()) == keys(42, lock.encode()) == ["Sub Group:g", "Sub Topic:orders"]
    assert keys(200, b'{"groupName":"g"}') == ["Create,Update Group:g"]
    assert keys(200, b'{"":[],"groupName":"g"}') == ["Create,Update Group:g"]
    assert keys(225, b'{"groupConfigList":[{"groupName":"a"},{"groupName":"b"}]}') == [
        "Create,Update Group:a",
        "Create,Update Group:b",
    ]
    assert keys(18, b'{"topicConfigList":[{"topicName":"a"}]}') == ["Create Topic:a"]
    assert keys(400, b'{"topic":"t","consumerGroup":"g","clientId":"c"}') == ["Sub Topic:t", "Sub Group:g"]
    assert keys(46, b'{"group":"g","subscriptionData":{"topic":"t"}}') == ["Sub Group:g", "Sub Topic:t"]


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (310, {"a": "g"}, b""),
        (310, {"b": ""}, b""),
        (310, {"b": " "}, b""),
        (310, {"b": "%RETRY%"}, b""),
        (11, {"topic": "orders"}, b""),
        (15, {"consumerGroup": "g"}, b""),
        (36, {"offset": "7", "delayLevel": "0"}, b""),
        (36, {"group": "g"}, b""),
        (33, {}, b""),
        (33, {"offset": "seven"}, b""),
        (33, {"offset": "9"}, b""),
        (37, {"topic": "mine"}, b""),
        (309, {"consumerGroup": "g"}, b""),
        (309, {"consumerGroup": "g", "msgId": "x"}, b""),
        (323, {"msgId": ID_9}, b""),
        (200, {}, b""),
        (200, {}, b"[]"),
        (200, {}, b'{"groupName":""}'),
        (18, {}, b'{"topicConfigList":[]}'),
        (18, {}, b'{"topicConfigList":7}'),
        (225, {}, b"{}"),
        (34, {}, b"nonsense"),
        (34, {}, b'{"consumerDataSet":[{"groupName":""}]}'),
        (41, {}, b'{"consumerGroup":"","clientId":"c"}'),
        (46, {}, b"null"),
        (46, {}, b'{"clientId":"c"}'),
        (400, {}, b'{"topic":"t"}'),
        (99_999, {}, b""),
        (13, {}, b""),
    ],
)
def test_requests_whose_needs_are_unknown_are_refused(code, ext, body):
    with pytest.raises(ProtocolError):
        keys(code, body, **ext)


@pytest.mark.parametrize("topic", sorted(REDIRECTED_TOPICS))
def test_topics_in_which_messages_of_all_topics_wait_are_the_cluster_s(topic):
    assert keys(11, topic=topic, consumerGroup="g")[0] == "Get Cluster:my-cluster"
    assert keys(12, topic=topic) == keys(30, topic=topic) == ["Get Cluster:my-cluster"]
    assert keys(310, b=topic) == keys(324, topic=topic) == ["Update Cluster:my-cluster"]


def test_only_the_reply_topic_may_be_replied_to_by_any_consumer():
    for code, field in ((324, "topic"), (325, "b")):
        for topic, may in (("my-cluster_REPLY_TOPIC", True), ("other_REPLY_TOPIC", False), ("orders", False)):
            (need,) = needs_of(Command(code, ext_fields={field: topic}), PLACE)
            assert (need.right == REPLY) is may
    (need,) = needs_of(Command(310, ext_fields={"b": "my-cluster_REPLY_TOPIC"}), PLACE)
    assert need.right != REPLY


@pytest.mark.parametrize("topic", ["orders", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "", " "])
@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
@pytest.mark.parametrize("code", [310, 320, 10, 11, 361])
def test_a_typed_header_names_what_its_fields_name(code, binary, topic):
    """As a connection reads what comes by the hundred thousand: nobody decodes it a second time for its topic."""
    if code == 10:
        sent = headers.SendMessageRequestHeader("p", topic, "d", 4, 0, 0, 1, 0, "i").to_ext()
    elif code in (11, 361):
        sent = headers.PullMessageRequestHeader("readers", topic, 0, 0, 32, 0, 0, 0, 0).to_ext()
    else:
        sent = send_fields(b=topic)
    frame = request(code, sent, binary=binary)
    command, ordinary = read_by_code(frame), decode_command(memoryview(frame)[4:])
    assert command is not None
    if isinstance(command, RawCommand):
        typed = command.typed_header
        assert needs_or_error(command) == needs_or_error(ordinary)
        names = (topic, "readers") if code in (11, 361) else topic
        assert needs_key(command) == (code, names)
        assert needs_key(ordinary) is None
        assert command.typed_header is typed is not None
    else:  # an empty name in a binary header is an absent one
        assert (binary, topic) == (True, "")


def needs_or_error(command: Command) -> list[Need] | str:
    try:
        return list(needs_of(command, PLACE))
    except ProtocolError as error:
        return str(error)
