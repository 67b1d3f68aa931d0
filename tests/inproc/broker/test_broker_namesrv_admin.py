# SPDX-License-Identifier: Apache-2.0
"""What administrators and 5.x brokers ask of a name server: texts, write permission, lists, settings, groups of brokers."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from registrations import compressed as compress
from sprocketmq.broker import NameServer, NameServerConfig
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.server import Server
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import (
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterBrokerRequestHeader,
)
from sprocketmq.wire.text.java_properties import parse_properties

ORDER = "ORDER_TOPIC_CONFIG"
OWN = set(NameServerConfig().to_properties())


@pytest.fixture
def names(cluster):
    return cluster.namesrv_client()


def put(names, key: str, value: str, namespace: str = ORDER):
    return names.do(requests.name_servers.PUT_KV_CONFIG, namespace, key, value)


def get(names, key: str, namespace: str = ORDER):
    return names.do(requests.name_servers.GET_KV_CONFIG, namespace, key)


def change(names, **settings: str):
    body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
    return names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)


def settings_of(names) -> dict[str, str]:
    return parse_properties(bytes(names.ask(RequestCode.GET_NAMESRV_CONFIG).body).decode())


def route(names, topic: str):
    return names.do(requests.name_servers.GET_ROUTEINFO_BY_TOPIC, topic)


def register(names, broker_id: int = 0, address: str = "", *, compressed: bool = False, **fields):
    table = {name: bodies.TopicConfig(topic_name=name, attributes={"a": "b c"}) for name in ("ordered", "u")}
    body = bodies.RegisterBrokerBody(
        topic_config_serialize_wrapper=bodies.TopicConfigSerializeWrapper(
            topic_config_table=table, data_version=bodies.DataVersion(counter=1, timestamp=5)
        )
    )
    raw = compress(body) if compressed else body.encode()
    header = RegisterBrokerRequestHeader(
        "other", address or f"10.0.0.9:{broker_id + 1}", "DefaultCluster", "", broker_id,
        compressed=compressed, body_crc32=zlib.crc32(raw) & 0x7FFFFFFF, **fields,
    )  # fmt: skip
    return names.ask(RequestCode.REGISTER_BROKER, header, raw)


def test_a_namespace_without_values_is_not_found(names):
    answer = names.do(requests.name_servers.GET_KVLIST_BY_NAMESPACE, "none")
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


def test_an_order_configuration_reaches_clients_and_brokers(cluster, names):
    register(names)
    put(names, "ordered", "other:4")
    assert bodies.TopicRouteData.decode(route(names, "ordered").body).order_topic_conf is None  # off by default
    change(names, orderMessageEnable="true")
    assert bodies.TopicRouteData.decode(route(names, "ordered").body).order_topic_conf == "other:4"
    assert bodies.KVTable.decode(register(names).body).table == {"ordered": "other:4"}
    change(names, returnOrderTopicConfigToBroker="false")
    assert bytes(register(names).body) == b""


def test_our_broker_marks_topics_with_an_order_configuration(cluster, client, names):
    client.send("ordered")
    client.send("plain")
    put(names, "ordered", "broker-a:4")
    cluster.clock.advance(31_000)
    cluster.eventually(lambda: cluster.broker.topics.get("ordered").order)
    assert not cluster.broker.topics.get("plain").order


def test_a_compressed_registration_that_says_it_is_not_is_read_as_5x_sends_it(names):
    table = {name: bodies.TopicConfig(topic_name=name) for name in ("t", "u")}
    body = bodies.RegisterBrokerBody(
        topic_config_serialize_wrapper=bodies.TopicConfigSerializeWrapper(topic_config_table=table)
    )
    header = RegisterBrokerRequestHeader("other", "10.0.0.9:1", "DefaultCluster", "", 0, compressed=False)
    assert names.ask(RequestCode.REGISTER_BROKER, header, compress(body)).code == 0
    assert route(names, "u").code == 0


def test_lists_of_topics_and_their_switch(cluster, names):
    def listed(code, header=None):
        return bodies.TopicList.decode(names.ask(code, header).body)

    of_cluster = GetTopicsByClusterRequestHeader("DefaultCluster")
    assert "TBW102" in listed(RequestCode.GET_TOPICS_BY_CLUSTER, of_cluster).topic_list
    system = listed(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert (system.topic_list, system.broker_addr) == (["DefaultCluster", "broker-a"], cluster.broker.address)
    assert listed(RequestCode.GET_UNIT_TOPIC_LIST).topic_list == []
    change(names, enableTopicList="false")
    for code in (RequestCode.GET_TOPICS_BY_CLUSTER, RequestCode.GET_UNIT_TOPIC_LIST):
        assert names.ask(code, of_cluster).code == ResponseCode.SYSTEM_ERROR


def test_a_topic_is_registered_by_hand(names):
    register(names)
    body = bodies.TopicRouteData(
        queue_datas=[bodies.QueueData(broker_name="other", read_queue_nums=1, perm=6)]
    ).encode()
    assert names.do(requests.name_servers.REGISTER_TOPIC_IN_NAMESRV, "made", body=body).code == 0
    assert route(names, "made").code == 0
    names.do(requests.name_servers.DELETE_TOPIC_IN_NAMESRV, "made")
    assert route(names, "made").code == ResponseCode.TOPIC_NOT_EXIST


def test_settings_are_read_and_changed_while_running(cluster, names, tmp_path):
    assert settings_of(names).keys() <= OWN  # secrets are left out
    assert settings_of(names)["enableAllTopicList"] == "true"
    assert change(names, enableAllTopicList="false", unknownKey="x").code == 0
    assert settings_of(names)["enableAllTopicList"] == "false"
    assert names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "key", ["kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome", "brokerAllowedAddresses"]
)
def test_settings_of_the_black_list_are_not_changed(names, key):
    before = settings_of(names)
    answer = change(names, enableTopicList="false", **{key: "/tmp/elsewhere"})
    assert answer.code == ResponseCode.NO_PERMISSION
    assert settings_of(names) == before


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"listenPort=many", b"waitSecondsForService=-1", b"enableTopicList=" + b"9" * 99]
)
def test_settings_that_make_no_sense_change_nothing(names, body):
    before = settings_of(names)
    answer = names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert settings_of(names) == before


def test_a_name_server_that_waits_gives_no_routes_at_first():
    async def run() -> None:
        clock = ManualClock()
        config = NameServerConfig(need_wait_for_service=True)
        async with NameServer(port=0, clock=clock, config=config) as server:
            pool = ConnectionPool()
            ask = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader("t"))
            assert (await pool.invoke(server.address, ask, 60_000)).code == ResponseCode.SYSTEM_ERROR
            await asyncio.to_thread(clock.advance, 45_000)
            ask = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader("t"))
            assert (await pool.invoke(server.address, ask, 60_000)).code == ResponseCode.TOPIC_NOT_EXIST
            await pool.aclose()

    asyncio.run(run())


def test_a_group_of_brokers_is_known_by_id(names):
    register(names)
    register(names, 1)
    body = names.get(requests.name_servers.GET_BROKER_MEMBER_GROUP, "DefaultCluster", "other")
    assert body.broker_member_group is not None
    assert body.broker_member_group.broker_addrs == {0: "10.0.0.9:1", 1: "10.0.0.9:2"}


def test_the_other_brokers_of_a_group_are_notified_of_its_lowest_id(cluster, names):
    told = []

    async def listen() -> Server:
        server = Server(lambda connection, command: told.append(command))
        await server.start("127.0.0.1", 0)
        return server

    listener = cluster.engine.run(listen())
    change(names, notifyMinBrokerIdChanged="true")
    leaver = cluster.namesrv_client()
    register(leaver, 0, enable_acting_master=True)
    register(names, 3, f"127.0.0.1:{listener.port}", enable_acting_master=True)
    leaver.close()
    cluster.eventually(lambda: told)
    assert told[0].code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE
    assert told[0].ext_fields["minBrokerId"] == "3"
    assert told[0].ext_fields["offlineBrokerAddr"] == "10.0.0.9:1"
    cluster.engine.run(listener.stop())
