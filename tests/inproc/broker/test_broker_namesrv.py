# SPDX-License-Identifier: Apache-2.0
"""The name server, and how a broker registers with it."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from sprocketmq.broker import Broker, NameServer
from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import (
    GetRouteInfoRequestHeader,
    QueryDataVersionRequestHeader,
    RegisterBrokerRequestHeader,
)
from sprocketmq.wire.text import fastjson


def route(client, topic: str, **fields):
    return client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic), **fields)


def register(client, name: str = "other", address: str = "10.0.0.9:10911", topics: int = 2, **fields):
    table = {f"t{n}": TopicConfig(topic_name=f"t{n}", read_queue_nums=3, write_queue_nums=2) for n in range(topics)}
    wrapper = TopicConfigSerializeWrapper(topic_config_table=table, data_version=DataVersion(counter=1, timestamp=5))
    header = RegisterBrokerRequestHeader(name, address, "DefaultCluster", "", 0, **fields)
    return client.ask(
        RequestCode.REGISTER_BROKER, header, RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
    )


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_makes_the_name_server_forget_no_broker(cluster, days):
    names = cluster.namesrv_client()
    assert register(names).code == 0
    cluster.clock.advance(60_000)
    cluster.clock.jump(days * 86_400_000)
    cluster.clock.advance(20_000)  # rounds of the scan
    assert route(names, "t0").code == 0
    cluster.clock.advance(60_000)  # 140 s of silence
    assert route(names, "t0").code == ResponseCode.TOPIC_NOT_EXIST


def test_new_clients_get_standard_json_and_old_ones_the_dialect(cluster):
    names = cluster.namesrv_client()
    standard = bytes(route(names, "TBW102", version=401).body)
    assert json.loads(standard)["brokerDatas"][0]["brokerAddrs"] == {"0": cluster.broker.address}
    dialect = bytes(route(names, "TBW102", version=400).body)
    with pytest.raises(json.JSONDecodeError):
        json.loads(dialect)
    assert fastjson.loads(dialect)["brokerDatas"][0]["brokerAddrs"] == {0: cluster.broker.address}
    header = GetRouteInfoRequestHeader("TBW102", accept_standard_json_only=True)
    json.loads(bytes(names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, version=400).body))


def test_a_wrong_checksum_is_refused(cluster):
    names = cluster.namesrv_client()
    assert register(names, body_crc32=1).code == ResponseCode.SYSTEM_ERROR
    assert route(names, "t1").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_silent_broker_is_gone_after_its_time_and_a_heartbeat_keeps_it(cluster):
    names = cluster.namesrv_client()
    register(names, heartbeat_timeout_millis=20_000)
    cluster.clock.advance(15_000)
    assert names.do(requests.name_servers.BROKER_HEARTBEAT, "DefaultCluster", "10.0.0.9:10911", "other").code == 0
    cluster.clock.advance(15_000)
    assert cluster.namesrv.table.route("t1") is not None
    cluster.clock.advance(10_000)
    assert cluster.namesrv.table.route("t1") is None
    assert cluster.namesrv.table.route("TBW102") is not None  # ours registers each 30 s by itself


def test_the_data_version_tells_whether_to_register(cluster):
    names = cluster.namesrv_client()
    header = QueryDataVersionRequestHeader("other", "10.0.0.9:10911", "DefaultCluster", 0)

    def changed(version: DataVersion) -> str:
        return names.ask(RequestCode.QUERY_DATA_VERSION, header, version.encode()).ext_fields["changed"]

    assert changed(DataVersion()) == "true"
    register(names)
    assert changed(DataVersion(counter=1, timestamp=5)) == "false"
    assert changed(DataVersion(counter=2, timestamp=5)) == "true"


def test_unknown_requests_are_answered_as_not_supported(cluster, client):
    for asker in (cluster.namesrv_client(), client):
        answer = asker.ask(9999)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "9999" in answer.remark


def test_a_stopping_broker_unregisters_before_it_closes(cluster):
    seen = []

    def intercept(connection, command, handler):
        seen.append((command.code, cluster.broker.is_running, len(cluster.namesrv.table._live)))
        return handler(connection, command)

    cluster.namesrv.intercept = intercept
    cluster.broker.stop()
    assert (RequestCode.UNREGISTER_BROKER, False, 1) in seen


def test_a_broker_comes_back_to_a_name_server_that_was_restarted(cluster):
    port = cluster.namesrv.port
    cluster.namesrv.stop()
    cluster.namesrv = cluster.new_name_server(port)
    assert cluster.namesrv.table.route("TBW102") is None
    cluster.clock.advance(30_000)
    cluster.eventually(lambda: cluster.namesrv.table.route("TBW102") is not None)


def test_a_broker_starts_without_its_name_server_and_says_so(cluster, caplog):
    lonely = Broker("127.0.0.1:1", port=0, clock=cluster.clock, engine=cluster.engine, broker_name="lonely")
    with caplog.at_level(logging.WARNING, "sprocketmq.broker"):
        lonely.start()
    assert "127.0.0.1:1" in caplog.text
    assert cluster.client(lonely.address).send("flights").code == 0
    lonely.stop()


def test_a_taken_port_is_named(cluster):
    taken = NameServer(port=cluster.namesrv.port, engine=cluster.engine)
    with pytest.raises(ConfigurationError, match=str(cluster.namesrv.port)):
        taken.start()
    broker = Broker(cluster.namesrv.address, port=cluster.broker.port, engine=cluster.engine)
    with pytest.raises(ConfigurationError, match=str(cluster.broker.port)):
        broker.start()


def test_a_service_starts_once_and_stops_harmlessly_twice(cluster):
    with pytest.raises(ClosedError, match="NameServer"):
        cluster.namesrv.start()
    cluster.broker.stop()
    cluster.broker.stop()


def test_what_was_started_in_a_loop_is_stopped_there():
    async def inside() -> None:
        async with NameServer(port=0) as names, Broker(names.address, port=0) as broker:
            assert broker.is_running
            assert names.table.route("TBW102") is not None
            with pytest.raises(ClosedError, match="astop"):
                broker.stop()
        assert not broker.is_running

    asyncio.run(inside())


@pytest.mark.parametrize("address", ["nowhere", "host:0", "host:x", "127.0.0.1:9876;bad"])
def test_a_name_server_address_without_a_port_is_refused(address):
    with pytest.raises(ConfigurationError, match="namesrvAddr"):
        Broker(address, port=0)
