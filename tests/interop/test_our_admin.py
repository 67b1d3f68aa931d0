# SPDX-License-Identifier: Apache-2.0
"""Our Admin against Apache's own servers, both generations: each request is understood, and its answer is what it should be."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from interop.peers import APACHE_4, ApacheCluster
from sprocketmq.client.admin import TrackType
from sprocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig


@pytest.fixture
def admin(apache: ApacheCluster) -> Iterator[rmq.Admin]:
    with rmq.Admin(namesrv_addr=apache.namesrv_addr, mq_client_api_timeout_ms=10_000) as made:
        yield made


@pytest.fixture
def producer(apache: ApacheCluster) -> Iterator[rmq.Producer]:
    with rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"administered-{time.time_ns()}"


def test_topics_and_groups_are_administered(apache, admin, name):
    admin.create_topic(name, queues=4)
    assert len(admin.queues(name)) == 4
    admin.set_topic_perm(name, 4)
    assert admin.topic_config(name)["broker-a"].perm == 4
    admin.create_topics([TopicConfig(f"{name}-{n}", 2, 2) for n in range(3)])
    assert {f"{name}-{n}" for n in range(3)} <= admin.topic_configs("broker-a").keys()
    assert admin.topic_clusters(name) == ["DefaultCluster"]
    assert name in admin.topics(cluster="DefaultCluster")
    assert "TBW102" in admin.system_topics()
    admin.set_order_conf(name, {"broker-a": 2})
    assert admin.order_conf(name) == {"broker-a": 2}
    admin.create_groups([SubscriptionGroupConfig(group_name=f"{name}-{n}", retry_max_times=n) for n in (3, 4)])
    assert admin.group_config(f"{name}-4")["broker-a"].retry_max_times == 4
    assert f"{name}-3" in admin.groups()
    if apache.version == APACHE_4:
        with pytest.raises(rmq.RemoteError, match="code 3 "):
            admin.set_consume_mode(name, f"{name}-3", "PULL")
    else:
        admin.set_consume_mode(name, f"{name}-3", "PULL")
        assert admin.group_readable(f"{name}-3", name, False) == {"broker-a": False}
        admin.create_topic(f"{name}-fifo", queues=1, attributes={"+message.type": "FIFO"})
        assert admin.topic_config(f"{name}-fifo")["broker-a"].attributes == {"message.type": "FIFO"}
    for n in (3, 4):
        admin.delete_group(f"{name}-{n}", remove_offsets=True)
    assert f"{name}-3" not in admin.groups()
    admin.delete_topic(name)
    with contextlib.suppress(rmq.TopicNotExist):  # the name server hears of it a moment later
        assert admin.order_conf(name) == {}
    poll_until(lambda: name not in admin.topics(), "the topic is gone")


def test_messages_are_found_and_followed_and_groups_moved(apache, admin, producer, name):
    admin.create_topic(name, queues=1)
    admin.create_group(name)
    (queue,) = admin.queues(name)
    sent = [producer.send(rmq.Message(name, b"%d" % n, keys=["k"], tags="UA" if n else "DL")) for n in range(3)]
    poll_until(lambda: len(admin.messages_by_key(name, "k")) == 3, "the index is built")
    assert [message.body for message in admin.messages_by_key(name, "k")] == [b"0", b"1", b"2"]
    assert [message.body for message in admin.messages_by_unique_key(name, sent[1].message_id)] == [b"1"]
    message = admin.view_message(sent[1].offset_message_id)
    assert message.body == b"1"
    at = admin.message_at(queue, 2)
    assert at is not None
    assert at.body == b"2"
    assert [one.body for one in admin.read_messages(queue, expression="UA")] == [b"1", b"2"]
    assert len(admin.consume_queue(queue, 0, 3).queue_data) == 3
    behind = 2 if apache.version == APACHE_4 else 3  # 4.9 stays at the newest message
    assert admin.offset_by_time(queue, at.store_timestamp_ms + 60_000) == behind
    assert admin.earliest_store_time_ms(queue) > 0

    # Nobody is online: 5.x moves the group itself, for 4.9 its stored progress is set.
    admin.set_consumer_offset(name, queue, 3)
    assert admin.reset_offset_by_time(name, name, 0) == {queue: 0}
    assert admin.skip_accumulated(name, name) == {queue: 3}
    admin.reset_offset(name, queue, 1)
    bodies: list[bytes] = []
    consumer = rmq.PushConsumer(name, namesrv_addr=apache.namesrv_addr)
    consumer.subscribe(name)
    consumer.on_message(lambda one: bodies.append(one.body))
    with consumer:
        poll_until(lambda: bodies == [b"1", b"2"], "the group went on at 1")
        assert admin.consumer_ids(name) == [consumer.client_id]
        assert queue in admin.running_infos(name)[consumer.client_id].mq_table
        assert admin.consume_status(name, name)[consumer.client_id][queue] == 3
        (span,) = admin.consume_time_span(name, name)
        assert span.message_queue == queue
        poll_until(
            lambda: (
                [(track.group, track.track_type) for track in admin.message_track(message)]
                == [(name, TrackType.CONSUMED)]
            ),
            "the message counts as consumed",
        )
        assert admin.consume_directly(name, consumer.client_id, message).consume_result == "CR_SUCCESS"
        assert bodies == [b"1", b"2", b"1"]
        # Somebody is online: 4.9 tells it, 5.x answers its next pull. The present one ends with the next message.
        assert admin.reset_offset_by_time(name, name, 0) == {queue: 0}
        producer.send(rmq.Message(name, b"3"))
        poll_until(lambda: bodies[3:] == [b"0", b"1", b"2", b"3"], "the group began anew")
        if apache.version == APACHE_4:
            with pytest.raises(rmq.ConfigurationError, match="only whole topics"):
                admin.reset_offset(name, queue, 0)
        else:
            admin.reset_offset(name, queue, 2)
            producer.send(rmq.Message(name, b"4"))
            poll_until(lambda: bodies[7:] == [b"2", b"3", b"4"], "the group went on at 2")
            assert name in admin.topics_of_group(name)
            found = admin.subscription(name, name)
            assert found is not None
            assert found.sub_string == "*"
        (row,) = [row for row in admin.group_summaries() if row.group == name]
        assert row.members == 1
    poll_until(lambda: admin.lag(name, name) == 0, "progress is written")
    admin.create_group(f"{name}-copy")
    assert admin.clone_offsets(name, f"{name}-copy", name) == {queue: admin.max_offset(queue)}
    (traffic,) = [row for row in admin.topic_traffic(name) if row.group == name]
    assert traffic.accumulation == 0
    assert "ours" in admin.producers("broker-a")
    assert admin.producer_connection("ours", name)
    assert admin.broker_consume_stats("broker-a").broker_addr == apache.broker_addr


def test_brokers_name_servers_and_access_are_administered(apache, admin, name):
    (status,) = admin.brokers(cluster="DefaultCluster")
    assert (status.broker_name, status.broker_id, status.is_up) == ("broker-a", 0, True)
    assert status.version == f"V{apache.version.replace('.', '_')}"
    admin.update_broker_config({"maxMessageSize": 4_000_000}, cluster="DefaultCluster")
    assert admin.broker_config("broker-a")["maxMessageSize"] == "4000000"
    admin.update_broker_config({"maxMessageSize": 4_194_304}, broker=apache.broker_addr)
    admin.put_kv_config("ours", name, "v")
    assert admin.kv_config("ours", name) == "v"
    assert admin.kv_configs("ours")[name] == "v"
    admin.delete_kv_config("ours", name)
    assert admin.kv_config("ours", name) is None
    assert admin.namesrv_config()[apache.namesrv_addr]["listenPort"] == apache.namesrv_addr.rsplit(":", 1)[1]
    (before,) = (found["serverChannelMaxIdleTimeSeconds"] for found in admin.namesrv_config().values())
    admin.update_namesrv_config({"serverChannelMaxIdleTimeSeconds": 121})
    (after,) = (found["serverChannelMaxIdleTimeSeconds"] for found in admin.namesrv_config().values())
    assert (before, after) == ("120", "121")
    admin.update_namesrv_config({"serverChannelMaxIdleTimeSeconds": before})
    assert admin.wipe_write_perm("broker-a")[apache.namesrv_addr] > 0
    assert admin.add_write_perm("broker-a")[apache.namesrv_addr] > 0
    admin.clean_expired_consume_queues()
    admin.clean_unused_topics()
    if apache.version == APACHE_4:
        # This broker runs without accounts; what it says then is its own.
        with pytest.raises(rmq.RemoteError):
            admin.update_account(name, "a-secret-key")
        return
    admin.delete_expired_commit_logs()
    assert admin.ha_status("broker-a").master
