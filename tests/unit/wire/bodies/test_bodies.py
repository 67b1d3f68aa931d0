# SPDX-License-Identifier: Apache-2.0
"""Typed bodies: each comes back from its text, and reads what Java keeps in config files."""

from __future__ import annotations

import contextlib
import functools
import typing
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from golden import VERSIONS, store_file
from registrations import compressed
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import bodies
from sprocketmq.wire.bodies import (
    Body,
    ConsumerData,
    ConsumerOffsetSerializeWrapper,
    ConsumeType,
    DataVersion,
    DelayOffsetSerializeWrapper,
    HeartbeatData,
    MessageModel,
    RegisterBrokerBody,
    RegistrationTopics,
    SubscriptionData,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson

ALL_BODIES: list[type[Body]] = [
    value
    for name in bodies.__all__
    if isinstance(value := getattr(bodies, name), type) and issubclass(value, Body) and value is not Body
]
_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def _strategy(annotation: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            return _structs(annotation)
        leaves: dict[Any, st.SearchStrategy[Any]] = {
            str: _names,
            int: st.integers(-(2**63), 2**63 - 1),
            bool: st.booleans(),
            float: st.floats(allow_nan=False, allow_infinity=False),
            type(None): st.none(),
            Any: _names,
        }
        return leaves[annotation]
    if origin is list:
        return st.lists(_strategy(arguments[0]), max_size=2)
    if origin is set:
        return st.sets(_strategy(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(_strategy(arguments[0]), _strategy(arguments[1]), max_size=2)
    return st.one_of(*[_strategy(part) for part in arguments])


@functools.cache
def _structs(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(struct)
    return st.builds(struct, **{name: _strategy(hints[name]) for name in struct.__struct_fields__})


@pytest.mark.parametrize("body_type", ALL_BODIES, ids=lambda body_type: body_type.__name__)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_every_body_comes_back(body_type, data):
    body = data.draw(_structs(body_type))
    assert body_type.decode(body.encode()) == body
    assert body_type.decode(fastjson.dumps(body, pretty=True)) == body


@pytest.mark.parametrize("body_type", ALL_BODIES, ids=lambda body_type: body_type.__name__)
def test_every_body_has_java_names(body_type):
    assert all("_" not in name for name in body_type.__struct_encode_fields__)


@pytest.mark.parametrize("body_type", ALL_BODIES, ids=lambda body_type: body_type.__name__)
@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"5", b'"text"', b"{", b"null", b"{0:"])
def test_an_invalid_body_is_a_protocol_error(body_type, data):
    with pytest.raises(ProtocolError):
        body_type.decode(data)


def test_a_heartbeat_is_what_java_writes():
    subscription = SubscriptionData("T", "A || B", {"A", "B"}, {65, 66}, 7)
    heartbeat = HeartbeatData("c@1", [], [ConsumerData("g", subscription_data_set=[subscription])])
    assert heartbeat.encode().decode() == (
        '{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
        '"groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65,66],'
        '"expressionType":"TAG","subString":"A || B","subVersion":7,"tagsSet":["A","B"],"topic":"T"}],"unitMode":false}],'
        '"heartbeatFingerprint":0,"producerDataSet":[],"withoutSub":false}'
    )


@given(_structs(HeartbeatData))
def test_the_fast_way_to_write_a_heartbeat_writes_what_the_general_one_does(heartbeat):
    assert heartbeat.encode() == fastjson.dumps(heartbeat)


def test_a_heartbeat_of_a_client_in_another_language_may_hold_nulls():
    text = b'{"clientID":"c","producerDataSet":null,"consumerDataSet":[{"groupName":"g","subscriptionDataSet":null}]}'
    heartbeat = HeartbeatData.of_request(text)
    assert heartbeat == HeartbeatData("c", [], [ConsumerData("g")])


def test_a_heartbeat_may_hold_numbers_for_enums_as_the_cpp_client_writes_them():
    text = (
        b'{"clientID":"1-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,"consumeType":0,"groupName":"g","messageModel":0,'
        b'"subscriptionDataSet":[{"subString":"*","subVersion":"1795306691845","topic":"t"}]}]}'
    )
    (consumer,) = HeartbeatData.of_request(text).consumer_data_set
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_ACTIVELY", "BROADCASTING")
    assert consumer.subscription_data_set == [SubscriptionData("t", "*", sub_version=1795306691845)]


def test_a_long_heartbeat_of_the_cpp_client_is_read_as_any_other():
    subscription = (
        b'{"subString":"*","subVersion":"1795306691845","tagsSet":[],"topic":"a-topic-with-an-ordinary-name-%d"}'
    )
    text = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,'
        b'"subscriptionDataSet":[%s]}],"producerDataSet":[{"groupName":"p"}]}'
        % b",".join(subscription % number for number in range(900))
    )
    heartbeat = HeartbeatData.of_request(text)
    (consumer,) = heartbeat.consumer_data_set
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert len(consumer.subscription_data_set) == 900
    assert (type(consumer), heartbeat.producer_data_set) == (ConsumerData, [bodies.ProducerData("p")])


@pytest.mark.parametrize(
    "broken",
    [
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":2}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":-1}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":true}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":7,"messageModel":1,"x":{{"a":1}:2}}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":1},7]}',
        b'{"consumerDataSet":[{"groupName":"g","messageModel":1,"b":{"$ref":"$"}}]}',
    ],
)
def test_a_heartbeat_with_a_number_that_names_nothing_is_refused(broken):
    with pytest.raises(ProtocolError):
        HeartbeatData.of_request(broken)


def test_enums_are_their_names():
    assert MessageModel.CLUSTERING == "CLUSTERING" == str(MessageModel.CLUSTERING) == f"{MessageModel.CLUSTERING}"
    assert b'"consumeType":"CONSUME_POP"' in ConsumerData("g", consume_type=ConsumeType.CONSUME_POP).encode()


def test_defaults_are_not_shared():
    one, two = TopicConfigSerializeWrapper(), TopicConfigSerializeWrapper()
    one.topic_config_table["T"] = TopicConfig("T")
    one.data_version.next_version(5)
    assert two == TopicConfigSerializeWrapper()
    assert one.data_version == DataVersion(1, 0, 5)


def test_a_route_is_read_from_both_dialects():
    route = TopicRouteData(broker_datas=[bodies.BrokerData("c", "b", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})])
    assert b'{0:"10.0.0.1:10911",1:' in route.encode()
    assert b'{"0":"10.0.0.1:10911","1":' in route.encode_standard()
    assert TopicRouteData.decode(route.encode()) == TopicRouteData.decode(route.encode_standard()) == route


@pytest.mark.parametrize("version", VERSIONS)
def test_config_files_of_java_are_read(version):
    topics = TopicConfigSerializeWrapper.decode(store_file(version, "config/topics.json"))
    assert topics.topic_config_table["golden"].topic_name == "golden"
    assert topics.topic_config_table["golden"].perm == 6
    assert topics.data_version.counter > 0
    groups = SubscriptionGroupWrapper.decode(store_file(version, "config/subscriptionGroup.json"))
    assert groups.subscription_group_table["golden-group"].group_name == "golden-group"
    offsets = ConsumerOffsetSerializeWrapper.decode(store_file(version, "config/consumerOffset.json"))
    assert offsets.offset_table["%RETRY%golden-group@golden-group"][0] > 0
    delays = DelayOffsetSerializeWrapper.decode(store_file(version, "config/delayOffset.json"))
    assert delays.offset_table[1] > 0
    for body in (topics, groups, offsets, delays):
        assert type(body).decode(fastjson.dumps(body, pretty=True)) == body


@pytest.mark.parametrize(
    "name", ["delayOffset", "consumerOffset"]
)  # the others hold empty maps, which Java writes over two lines
def test_config_files_look_as_java_writes_them(name):
    text = store_file("5.4.0", f"config/{name}.json")
    ours = fastjson.dumps(fastjson.loads(text), pretty=True)
    # Java keeps the order of its hash maps, we sort: the same lines but for the commas that follow from the order.
    assert sorted(line.rstrip(b",") for line in ours.splitlines()) == sorted(
        line.rstrip(b",") for line in text.splitlines()
    )


def _registration() -> RegisterBrokerBody:
    wrapper = TopicConfigSerializeWrapper(data_version=DataVersion(3, 1, 1700000000000))
    for name, attributes in (("T", {}), ("%RETRY%g", {"message.type": "FIFO", "a": "b c"})):
        wrapper.topic_config_table[name] = TopicConfig(name, 4, 8, 6, attributes=attributes)
    return RegisterBrokerBody(wrapper, ["10.0.0.1:1"])


def _read(data: bytes) -> tuple[DataVersion, dict[str, TopicConfig]]:
    registration = RegistrationTopics.of_request(data, 1 << 20, compressed=True)
    topics = {name: topic for share in registration.shares(1) for name, topic in share.items()}
    assert len(topics) == registration.count
    return registration.data_version, topics


def test_a_compressed_registration_comes_back():
    wrapper = _registration().topic_config_serialize_wrapper
    assert _read(compressed(_registration())) == (wrapper.data_version, wrapper.topic_config_table)


def test_a_compressed_registration_of_4_9_is_read():
    def part(text: bytes) -> bytes:
        return len(text).to_bytes(4, "big") + text

    version = part(b'{"counter":3,"timestamp":9}')
    plain = version + (1).to_bytes(4, "big") + part(b"T 4 8 6 SINGLE_TAG") + part(b"[]")
    assert _read(zlib.compress(plain)) == (DataVersion(3, 0, 9), {"T": TopicConfig("T", 4, 8, 6)})


@given(st.data())
def test_a_broken_compressed_registration_raises_protocol_errors_only(data):
    plain = bytearray(zlib.decompress(compressed(_registration())))
    at = data.draw(st.integers(0, len(plain) - 1))
    plain[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(plain)))
    for broken in (plain, plain[:end]):
        with contextlib.suppress(ProtocolError):
            registration = RegistrationTopics.of_request(zlib.compress(broken), 1 << 20, compressed=True)
            list(registration.shares(1))


def test_queues_as_keys_are_typed():
    body = bodies.ResetOffsetBody.decode(b'{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:9}}')
    assert body.offset_table == {MessageQueue("T", "b", 3): 9}
