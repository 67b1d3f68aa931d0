# SPDX-License-Identifier: Apache-2.0
"""Clients of one instance name share one client: what may differ between them, and what is refused by its name."""

from __future__ import annotations

import asyncio
import gc
import ssl
from typing import Any

import pytest
from recorder import Recorder

import sprocketmq as rmq
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.shared_options import SHARED
from sprocketmq.net.process.clock import SystemClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ

CONTEXTS = [ssl.create_default_context(), ssl.create_default_context()]
KEYS = {"access_key": "key", "secret_key": "secret-of-one"}

# Of each option of ClientOptions: what the first client has, and what the second asks for.
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "instance_name": ({}, {"instance_name": "other"}),
    "client_ip": ({}, {"client_ip": "10.0.0.1"}),
    "unit_name": ({}, {"unit_name": "unit"}),
    "unit_mode": ({}, {"unit_mode": True}),
    "namespace": ({}, {"namespace": "ns"}),
    "namespace_v2": ({}, {"namespace_v2": "ns"}),
    "vip_channel_enabled": ({}, {"vip_channel_enabled": True}),
    "poll_name_server_interval_ms": ({}, {"poll_name_server_interval_ms": 5_000}),
    "heartbeat_broker_interval_ms": ({}, {"heartbeat_broker_interval_ms": 5_000}),
    "persist_consumer_offset_interval_ms": ({}, {"persist_consumer_offset_interval_ms": 1_000}),
    "mq_client_api_timeout_ms": ({}, {"mq_client_api_timeout_ms": 5_000}),
    "enable_trace": ({}, {"enable_trace": True}),
    "trace_topic": ({}, {"trace_topic": "traces"}),
    "trace_msg_batch_num": ({}, {"trace_msg_batch_num": 1}),
    "max_delay_level": ({}, {"max_delay_level": 20}),
    "access_channel": ({}, {"access_channel": "CLOUD"}),
    "access_key": (KEYS, {**KEYS, "access_key": "another"}),
    "secret_key": (KEYS, {**KEYS, "secret_key": "secret-of-two"}),
    "security_token": (KEYS, {**KEYS, "security_token": "secret-token"}),
    "secret_key_file": ({}, {"secret_key_file": "/keys.yml"}),
    "tls": ({}, {"tls": True}),
    "ssl_context": ({"ssl_context": CONTEXTS[0]}, {"ssl_context": CONTEXTS[1]}),
    "on_disconnected": ({}, {"on_disconnected": print}),
    "on_reconnected": ({}, {"on_reconnected": print}),
    "clock": ({}, {"clock": SystemClock()}),
}


def _client(rocketmq: EmbeddedRocketMQ, kind: str, number: int, options: dict[str, Any]) -> Any:
    given = {"namesrv_addr": rocketmq.namesrv_addr, "clock": rocketmq.clock, "instance_name": "shared", **options}
    group = f"{kind}-{number}"
    if kind == "producer":
        return rmq.Producer(group, **given)
    if kind == "transactions":
        return rmq.TransactionProducer(group, check=lambda message: rmq.LocalTransactionState.UNKNOWN, **given)
    if kind == "pull":
        return rmq.PullConsumer(group, **given)
    consumer = rmq.PushConsumer(group, await_termination_ms=0, **given)
    consumer.subscribe("flights")
    consumer.on_message(Recorder())
    return consumer


def _instance(client: Any) -> ClientInstance:
    found = client._async
    instance = found._instance if hasattr(found, "_instance") else found._running.instance
    assert isinstance(instance, ClientInstance)
    return instance


IDENTITY = frozenset({"namesrv_addr", "instance_name", "client_ip", "unit_name"})
OWN = frozenset(
    {
        "namespace",
        "vip_channel_enabled",
        "enable_trace",
        "trace_topic",
        "trace_msg_batch_num",
        "access_channel",
        "max_delay_level",
        "on_disconnected",
        "on_reconnected",
    }
)


def test_each_option_of_a_client_is_of_one_kind():
    assert sorted([*IDENTITY, *SHARED, *OWN]) == sorted(ClientOptions.__struct_fields__)
    assert {*PAIRS, "namesrv_addr"} == set(ClientOptions.__struct_fields__)  # a new option belongs in the table above


@pytest.mark.parametrize("option", PAIRS)
@pytest.mark.parametrize("kind", ["producer", "transactions", "push", "pull"])
def test_an_option_that_differs_holds_or_is_refused_by_its_name(rocketmq, kind, option):
    has, asks = PAIRS[option]
    # A producer opens nothing at its start, so it may have options that this broker does not take.
    with _client(rocketmq, "producer", 1, has) as first:
        before = {name: getattr(_instance(first)._options, name) for name in ClientOptions.__struct_fields__}
        second = _client(rocketmq, kind, 2, asks)
        if option in SHARED:
            with pytest.raises(rmq.ConfigurationError, match=f"^{option} is .*'[0-9.]+@shared' has") as seen:
                second.start()
            assert "secret-" not in str(seen.value)
            assert "0x" not in str(seen.value)
        else:
            with second:
                assert (_instance(second) is _instance(first)) == (option in OWN)
                assert (_instance(second).client_id == first.client_id) == (option in OWN)
                assert getattr(second._async._options, option) == asks[option]
        assert {name: getattr(_instance(first)._options, name) for name in before} == before
        with _client(rocketmq, "producer", 3, has) as like_the_first:
            assert _instance(like_the_first) is _instance(first)


def test_a_producer_with_tls_never_gets_the_plain_connections_of_another(rocketmq):
    with rocketmq.producer("plain", instance_name="shared") as plain:
        plain.send(rmq.Message("flights", b"x"))
        secret = rocketmq.producer("secret", instance_name="shared", tls=True)
        with pytest.raises(rmq.ConfigurationError, match="tls is True, and the running client"):
            secret.start()
        with (
            rocketmq.producer("secret", instance_name="another", tls=True) as alone,
            pytest.raises((rmq.NetworkError, rmq.RequestTimeout)),
        ):
            alone.send(rmq.Message("flights", b"in the clear?"), timeout_ms=500)  # this broker speaks no TLS
    assert [message.body for message in rocketmq.messages("flights")] == [b"x"]
    with (
        rocketmq.producer("one", instance_name="tls", tls=True),
        rocketmq.producer("two", instance_name="tls", tls=True),
    ):
        pass  # each asks for the same, though each would make its own context


def test_name_servers_of_one_cluster_are_one_list_in_any_order(rocketmq):
    address = rocketmq.namesrv_addr
    with _client(rocketmq, "producer", 1, {"namesrv_addr": f"{address};127.0.0.1:1"}) as first:
        with _client(rocketmq, "producer", 2, {"namesrv_addr": f"127.0.0.1:1; {address}"}) as second:
            assert _instance(second) is _instance(first)
        with pytest.raises(rmq.ConfigurationError, match="namesrv_addr is .* and the running client"):
            _client(rocketmq, "producer", 3, {}).start()
        with _client(rocketmq, "producer", 4, {"namesrv_addr": "127.0.0.1:2"}) as elsewhere:
            assert _instance(elsewhere) is not _instance(first)
            assert elsewhere.client_id == first.client_id  # of another cluster, which knows nothing of this one

    with _client(rocketmq, "pull", 5, {}) as moved:
        moved.update_name_server_address(f"{address};127.0.0.1:3")
        with _client(rocketmq, "producer", 6, {"namesrv_addr": f"127.0.0.1:3;{address}"}) as newer:
            assert _instance(newer) is _instance(moved)


def test_the_faces_share_a_client_on_one_loop_and_are_refused_on_another(rocketmq):

    def member(group: str) -> rmq.AsyncPushConsumer:
        consumer = rocketmq.async_push_consumer(group, instance_name="shared")
        consumer.subscribe("flights")
        consumer.on_message(Recorder())
        return consumer

    async def client_id(group: str) -> str:
        async with member(group) as consumer:
            return consumer.client_id

    with _client(rocketmq, "push", 1, {}) as blocking:
        assert Engine.shared().run(client_id("beside")) == blocking.client_id
        for group in ("beside", "push-1"):  # the same group twice under one id would read each queue twice
            with pytest.raises(rmq.ConfigurationError, match="another event loop"):
                asyncio.run(client_id(group))
    for _ in range(2):
        assert asyncio.run(client_id("push-1")).endswith("@shared")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it says that nobody shut it down
def test_a_client_left_on_a_closed_loop_does_not_block_a_new_one(rocketmq):
    async def leave() -> ClientInstance:
        producer = rmq.AsyncProducer("left", namesrv_addr=rocketmq.namesrv_addr, instance_name="shared")
        await producer.start()
        assert producer._instance is not None
        return producer._instance

    left = asyncio.run(leave())
    with rocketmq.producer("new", instance_name="shared") as producer:
        assert _instance(producer) is not left
    del left
    gc.collect()


def test_tools_see_each_consumers_own_options(rocketmq, admin, consumers):
    for group, size in (("one", 1), ("two", 2)):
        consumers(Recorder(), group=group, instance_name="shared", trace_msg_batch_num=size)
    for group, size in (("one", "1"), ("two", "2")):
        (info,) = admin.running_infos(group).values()
        assert info.properties["traceMsgBatchNum"] == size
