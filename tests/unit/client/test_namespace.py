# SPDX-License-Identifier: Apache-2.0
"""Names within a namespace, and back."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from sprocketmq.client.remoting.sender import vip_address
from sprocketmq.client.settings.namespace import namespace_of_endpoint, unwrap, unwrap_queue, wrap, wrap_queue
from sprocketmq.wire.records.message import MessageQueue

NAMES = st.from_regex(r"[a-zA-Z0-9_|%-]{1,40}", fullmatch=True)
NAMESPACES = st.from_regex(r"[a-zA-Z0-9_-]{1,10}", fullmatch=True)


def test_prefixes_stay_first_and_system_names_stay_as_they_are():
    assert wrap("ns", "flights") == "ns%flights"
    assert wrap("ns", "%RETRY%delays") == "%RETRY%ns%delays"
    assert wrap("ns", "%DLQ%delays") == "%DLQ%ns%delays"
    for name in ("TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_TRANS", "DefaultCluster_REPLY_TOPIC", ""):
        assert wrap("ns", name) == name
    assert unwrap("ns", "%RETRY%ns%delays") == "%RETRY%delays"
    assert unwrap("ns", "other%flights") == "other%flights"
    assert wrap(None, "flights") == unwrap(None, "flights") == "flights"


@given(NAMESPACES, NAMES)
def test_wrapping_twice_is_wrapping_once_and_unwrapping_undoes_it(namespace, name):
    wrapped = wrap(namespace, name)
    assert wrap(namespace, wrapped) == wrapped
    if unwrap(namespace, name) == name:
        assert unwrap(namespace, wrapped) == name


def test_queues_change_their_topic_only():
    queue = MessageQueue("flights", "broker-a", 3)
    assert wrap_queue("ns", queue) == MessageQueue("ns%flights", "broker-a", 3)
    assert unwrap_queue("ns", wrap_queue("ns", queue)) == queue
    assert wrap_queue(None, queue) is queue


def test_an_instances_own_endpoint_names_its_namespace():
    assert namespace_of_endpoint("http://MQ_INST_123_abc.example.com:80") == "MQ_INST_123_abc"
    assert namespace_of_endpoint("MQ_INST_123_abc.example.com:80") == "MQ_INST_123_abc"
    assert namespace_of_endpoint("127.0.0.1:9876") is None


def test_the_second_port_is_two_below_the_first():
    assert vip_address("127.0.0.1:10911") == "127.0.0.1:10909"
    assert vip_address("[::1]:10911") == "[::1]:10909"
