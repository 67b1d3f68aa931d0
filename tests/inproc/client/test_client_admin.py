# SPDX-License-Identifier: Apache-2.0
"""Admin against the embedded broker: each request does what its mqadmin command does, and says so in types."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from cli_run import CommandLine
from embedded_proxy import second_broker_of
from sprocketmq.client.admin import TopicTraffic, TrackType
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.wire.bodies import ClusterInfo, SubscriptionGroupConfig, TopicConfig
from sprocketmq.wire.codes import RequestCode, ResponseCode

ROOT = Path(__file__).resolve().parents[3]
FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUE = rmq.MessageQueue("flights", "broker-a", 0)


# -- topics ----------------------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_changed_looked_at_and_deleted(admin):
    admin.create_topic("flights", queues=4, attributes={"+message.type": "FIFO"})
    assert admin.queues("flights") == [rmq.MessageQueue("flights", "broker-a", n) for n in range(4)]
    config = admin.topic_config("flights")["broker-a"]
    assert (config.read_queue_nums, config.perm, config.attributes) == (4, 6, {"message.type": "FIFO"})
    admin.set_topic_perm("flights", 4)
    config = admin.topic_config("flights")["broker-a"]
    assert (config.read_queue_nums, config.perm, config.attributes) == (4, 4, {"message.type": "FIFO"})
    assert admin.topic_clusters("flights") == ["DefaultCluster"]
    assert "flights" in admin.topics()
    assert "flights" in admin.topics(cluster="DefaultCluster")
    assert "SCHEDULE_TOPIC_XXXX" in admin.system_topics()
    admin.delete_topic("flights")
    assert "flights" not in admin.topics()
    with pytest.raises(rmq.TopicNotExist):
        admin.route("flights")


def test_many_topics_are_made_at_once(admin):
    admin.create_topics([TopicConfig(f"topic-{n}", 2, 2) for n in range(3)])
    made = admin.topic_configs("broker-a")
    assert [made[f"topic-{n}"].read_queue_nums for n in range(3)] == [2, 2, 2]


def test_lists_longer_than_a_page_come_whole(admin, monkeypatch):
    monkeypatch.setattr("sprocketmq.client.admin.topics.PAGE", 3)
    monkeypatch.setattr("sprocketmq.client.admin.session.PAGE", 3)
    admin.create_topics([TopicConfig(f"topic-{n}", 1, 1) for n in range(10)])
    admin.create_groups([SubscriptionGroupConfig(group_name=f"group-{n}") for n in range(10)])
    assert {f"topic-{n}" for n in range(10)} <= admin.topic_configs("broker-a").keys()
    assert {f"group-{n}" for n in range(10)} <= set(admin.groups())


def test_a_topic_can_be_on_one_of_two_brokers(admin, second_broker):
    admin.create_topic("planes", queues=1, broker="broker-b")
    admin.create_topic("trains", queues=1, broker=second_broker.address)
    admin.create_topic("ships", queues=1)
    assert list(admin.topic_config("planes")) == ["broker-b"]
    assert list(admin.topic_config("trains")) == ["broker-b"]
    assert list(admin.topic_config("ships")) == ["broker-a", "broker-b"]
    with pytest.raises(rmq.ConfigurationError, match="broker 'broker-c' is unknown, the name server knows broker-a"):
        admin.create_topic("planes", broker="broker-c")
    with pytest.raises(rmq.ConfigurationError, match="cluster 'x' is unknown, the name server knows DefaultCluster"):
        admin.create_topic("planes", cluster="x")


def test_an_order_configuration_is_kept_by_the_name_server(admin):
    admin.create_topic("flights", queues=4, order=True)
    assert admin.order_conf("flights") == {}
    admin.set_order_conf("flights", {"broker-a": 2, "broker-b": 4})
    assert admin.order_conf("flights") == {"broker-a": 2, "broker-b": 4}
    admin.delete_order_conf("flights")
    assert admin.order_conf("flights") == {}


def test_an_allocation_can_be_tried(admin):
    admin.create_topic("flights", queues=3)
    shares = admin.allocate("flights", ["10.0.0.2", "10.0.0.1"])
    assert {member: [queue.queue_id for queue in queues] for member, queues in shares.items()} == {
        "10.0.0.1": [0, 1],
        "10.0.0.2": [2],
    }
    assert [q.queue_id for q in admin.allocate("flights", ["a", "b"], strategy="AVG_BY_CIRCLE")["b"]] == [1]


def test_the_traffic_of_a_topic_has_a_row_for_each_group(rocketmq, admin, producer):
    assert admin.topic_traffic("flights") == [TopicTraffic("flights", None, 0, 0.0, 0.0, 0, 0)]
    send_all(producer, ["0", "1", "2"])
    admin.create_group("delays")
    admin.set_consumer_offset("delays", QUEUE, 1)
    assert admin.consumers_of("flights") == ["delays"]
    (row,) = admin.topic_traffic("flights")
    assert (row.group, row.accumulation) == ("delays", 2)


# -- groups ----------------------------------------------------------------------------------------------------------------------


def test_a_group_is_made_changed_looked_at_and_deleted(admin, producer):
    admin.create_group("delays", retry_max_times=5, consume_broadcast_enable=False)
    config = admin.group_config("delays")["broker-a"]
    assert (config.retry_max_times, config.consume_broadcast_enable) == (5, False)
    assert "delays" in admin.groups()
    send_all(producer, ["0"])
    admin.set_consumer_offset("delays", QUEUE, 1)
    assert admin.topics_of_group("delays") == ["flights"]
    admin.delete_group("delays", remove_offsets=True)
    assert "delays" not in admin.groups()
    with pytest.raises(rmq.GroupNotExist):
        admin.consumer_offset("delays", QUEUE)
    with pytest.raises(rmq.RemoteError, match="no broker knows the consumer group 'delays'"):
        admin.group_config("delays")
    with pytest.raises(rmq.ConfigurationError, match="retry_max_times"):
        admin.create_group("delays", retry_max_time=5)


def test_a_group_can_be_shut_out_of_a_topic(admin):
    admin.create_group("delays")
    assert admin.group_readable("delays", "flights") == {"broker-a": True}
    assert admin.group_readable("delays", "flights", False) == {"broker-a": False}
    assert admin.group_readable("delays", "flights") == {"broker-a": False}


def test_members_are_seen_from_outside(admin, producer, consumers):
    admin.create_topic("flights", queues=2)
    send_all(producer, ["0", "1", "2"])
    seen = Recorder()
    consumer = consumers(seen, expression="*", instance_name="one")
    connection = admin.consumer_connection("delays")
    assert connection is not None
    assert [one.client_id for one in connection.connection_set] == [consumer.client_id]
    infos = admin.running_infos("delays")
    assert list(infos) == [consumer.client_id]
    assert {queue.topic for queue in infos[consumer.client_id].mq_table} == {"flights", "%RETRY%delays"}
    found = admin.subscription("delays", "flights")
    assert found is not None
    assert found.sub_string == "*"
    assert list(admin.consume_status("flights", "delays")) == [consumer.client_id]
    (row,) = [row for row in admin.group_summaries() if row.group == "delays"]
    assert (row.members, row.message_model) == (1, "CLUSTERING")
    assert [span.message_queue.queue_id for span in admin.consume_time_span("flights", "delays")] == [0, 1]
    with pytest.raises(rmq.RemoteError):
        admin.running_info("delays", "nobody@here")


def test_producers_are_seen_from_outside(admin, producer, rocketmq):
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: admin.producer_connection("ops", "flights"))
    (connection,) = admin.producer_connection("ops", "flights")
    assert [one.client_id for one in admin.producers("broker-a")["ops"]] == [connection.client_id]
    assert admin.producer_connection("nobody", "flights") == []


def test_the_mode_of_consumption_is_set_where_it_is_known(admin):
    admin.set_consume_mode("flights", "delays", "PULL")
    with pytest.raises(rmq.ConfigurationError, match="mode is 'PUSH'"):
        admin.set_consume_mode("flights", "delays", "PUSH")


# -- offsets ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "as_what",
    [
        pytest.param("5.x", marks=pytest.mark.rocketmq(useServerSideResetOffset=True)),
        pytest.param("4.9", marks=pytest.mark.rocketmq(useServerSideResetOffset=False)),
    ],
)
def test_a_group_without_members_is_moved_by_time_and_to_the_end(as_what, rocketmq, admin, producer):
    admin.create_group("delays")
    send_all(producer, ["0", "1"])
    rocketmq.advance(1_000)
    between_ms = rocketmq.clock.now_ms()
    rocketmq.advance(1_000)
    send_all(producer, ["2"])
    assert admin.offset_by_time(QUEUE, between_ms) == 2
    assert admin.reset_offset_by_time("delays", "flights", datetime.fromtimestamp(between_ms / 1000).astimezone()) == {
        QUEUE: 2
    }
    assert rocketmq.consumer_offset("delays", "flights") == {0: 2}
    assert admin.skip_accumulated("delays", "flights") == {QUEUE: 3}
    assert rocketmq.consumer_offset("delays", "flights") == {0: 3}
    if as_what == "4.9":
        rocketmq.faults.fail(RequestCode.GET_TOPIC_CONFIG, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, times=None)
    admin.reset_offset("delays", QUEUE, 1)
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}
    for beyond in (4, 1 << 62):
        with pytest.raises(rmq.ConfigurationError, match="from 0 to 3"):
            admin.reset_offset("delays", QUEUE, beyond)
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}, "nothing was done"
    with rocketmq.pull_consumer("delays") as consumer:
        consumer.subscribe("flights")
        assert [message.body for message in consumer.poll()] == [b"1", b"2"]


def test_one_queue_of_a_group_that_is_online_is_not_moved_through_an_old_broker(rocketmq, admin, consumers):
    consumers(Recorder())
    rocketmq.faults.fail(RequestCode.GET_TOPIC_CONFIG, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, times=None)
    with pytest.raises(rmq.ConfigurationError, match="has members online .* only whole topics; stop them first"):
        admin.reset_offset("delays", QUEUE, 0)


def test_progress_is_cloned_for_another_group(rocketmq, admin, producer):
    send_all(producer, ["0", "1", "2"])
    admin.create_groups([SubscriptionGroupConfig(group_name=name) for name in ("delays", "copy")])
    admin.set_consumer_offset("delays", QUEUE, 2)
    assert admin.clone_offsets("delays", "copy", "flights") == {QUEUE: 2}
    assert admin.consumer_progress("copy", "flights")[QUEUE].lag == 1
    assert admin.lag("delays") == 1


# -- messages --------------------------------------------------------------------------------------------------------------------


def test_messages_are_found_by_id_key_and_place(admin, producer):
    results = [
        producer.send(rmq.Message("flights", b"%d" % n, keys=["N1", f"N{n}"], tags="UA" if n % 2 else "DL"))
        for n in range(2, 6)
    ]
    third = results[2]
    assert admin.view_message(third.offset_message_id).body == b"4"
    address, offset = admin.decode_message_id(third.offset_message_id)
    assert (":" in address, offset > 0) == (True, True)
    assert [message.body for message in admin.messages_by_unique_key("flights", third.message_id)] == [b"4"]
    assert [message.body for message in admin.messages_by_key("flights", "N1")] == [b"2", b"3", b"4", b"5"]
    assert [message.body for message in admin.messages_by_key("flights", "N1", max_messages=1)] == [b"5"]
    assert admin.messages_by_key("flights", "nothing") == []
    at = admin.message_at(QUEUE, 3)
    assert at is not None
    assert at.body == b"5"
    assert admin.message_at(QUEUE, 4) is None
    assert [message.body for message in admin.read_messages(QUEUE, 1, end_offset=3)] == [b"3", b"4"]
    assert [message.body for message in admin.read_messages(QUEUE, expression="UA")] == [b"3", b"5"]
    entries = admin.consume_queue(QUEUE, 0, 2)
    assert (entries.max_queue_index, len(entries.queue_data)) == (4, 2)


def test_what_became_of_a_message_is_told_for_each_group(rocketmq, admin, producer, consumers):
    sent = producer.send(rmq.Message("flights", b"0", tags="UA"))
    seen = Recorder()
    consumers(seen, group="all")
    consumers(Recorder(), group="filtered", expression="DL")
    admin.create_group("offline")
    admin.set_consumer_offset("offline", QUEUE, 1)
    message = admin.view_message(sent.offset_message_id)
    with rocketmq.pull_consumer("pulled", consume_from_where=FIRST) as pulled:
        pulled.subscribe("flights")
        assert len(pulled.poll()) == 1

        def tracks() -> dict[str, TrackType]:
            return {track.group: track.track_type for track in admin.message_track(message)}

        rocketmq.advance_until(
            lambda: (
                tracks().get("all") is TrackType.CONSUMED
                and tracks().get("filtered") is TrackType.CONSUMED_BUT_FILTERED
            )
        )
        assert tracks()["offline"] is TrackType.NOT_ONLINE
        assert tracks()["pulled"] is TrackType.PULL


# -- brokers and name servers ----------------------------------------------------------------------------------------------------


def test_brokers_report_their_state(admin, producer, second_broker):
    admin.create_topic("flights", queues=1, broker="broker-a")
    send_all(producer, ["0", "1"])
    one, other = admin.brokers()
    assert (one.broker_name, one.broker_id, one.is_up, one.cluster) == ("broker-a", 0, True, "DefaultCluster")
    assert one.version.startswith("V")
    assert one.info == {**one.info, "brokerVersionDesc": one.version}
    second_broker.stop()
    assert [status.is_up for status in admin.brokers() if status.address == other.address] in ([False], [])
    assert admin.broker_runtime_info("broker-a")["brokerVersionDesc"] == one.version


def test_settings_are_read_and_changed_while_a_broker_runs(admin):
    admin.update_broker_config({"maxMessageSize": 1_000_000, "autoCreateTopicEnable": False}, broker="broker-a")
    config = admin.broker_config("broker-a")
    assert (config["maxMessageSize"], config["autoCreateTopicEnable"]) == ("1000000", "false")
    with pytest.raises(rmq.RemoteError, match="maxMessageSiz"):
        admin.update_broker_config({"maxMessageSiz": 1}, cluster="DefaultCluster")
    with pytest.raises(rmq.ConfigurationError, match="neither broker nor cluster"):
        admin.update_broker_config({"maxMessageSize": 1})
    with pytest.raises(rmq.ConfigurationError, match="no setting is given"):
        admin.update_namesrv_config({})


def test_name_servers_keep_texts_settings_and_who_may_be_sent_to(rocketmq, admin):
    assert admin.name_servers == [rocketmq.namesrv_addr]
    admin.put_kv_config("ours", "k", "v")
    assert (admin.kv_config("ours", "k"), admin.kv_configs("ours")) == ("v", {"k": "v"})
    admin.delete_kv_config("ours", "k")
    assert (admin.kv_config("ours", "k"), admin.kv_configs("nothing")) == (None, {})
    assert admin.namesrv_config()[rocketmq.namesrv_addr]
    assert admin.wipe_write_perm("broker-a")[rocketmq.namesrv_addr] > 0
    assert [data.perm for data in admin.route("flights").queue_datas] == [4]
    assert admin.add_write_perm("broker-a")[rocketmq.namesrv_addr] > 0
    assert [data.perm for data in admin.route("flights").queue_datas] == [6]


def test_a_broker_is_tidied_up_by_hand(admin):
    admin.clean_expired_consume_queues()
    admin.delete_expired_commit_logs(broker="broker-a")
    admin.clean_unused_topics(cluster="DefaultCluster")
    admin.create_topic("flights", queues=1)
    admin.create_group("delays")
    topics, groups = admin.export_metadata("broker-a")
    assert ("flights" in topics, "delays" in groups) == (True, True)
    assert admin.broker_consume_stats("broker-a").total_diff == 0


# -- access ----------------------------------------------------------------------------------------------------------------------


def test_users_and_policies_are_administered(admin):
    admin.create_user("ann", "secret")
    user = admin.user("broker-a", "ann")
    assert user is not None
    assert (user.username, user.user_type) == ("ann", "Normal")
    admin.update_user("ann", user_type="Super", user_status="disable")
    assert [one.user_type for one in admin.users("broker-a", "an")] == ["Super"]
    admin.create_acl("User:ann", ["Topic:flights"], ["Pub", "Sub"])
    admin.update_acl("User:ann", ["Topic:flights"], ["Sub"], "Deny")
    acl = admin.acl("broker-a", "User:ann")
    assert acl is not None
    assert acl.policies is not None
    entries = [entry for policy in acl.policies for entry in policy.entries or []]
    assert [(entry.resource, entry.actions, entry.decision) for entry in entries] == [
        ("Topic:flights", ["Sub"], "Deny")
    ]
    assert [one.subject for one in admin.acls("broker-a")] == ["User:ann"]
    admin.delete_acl("User:ann")
    admin.delete_user("ann")
    assert (admin.users("broker-a"), admin.acls("broker-a")) == ([], [])
    with pytest.raises(rmq.ConfigurationError, match="subject is 'ann'"):
        admin.create_acl("ann", ["Topic:x"], ["Pub"])
    with pytest.raises(rmq.ConfigurationError, match="resources is 'Topic:x'"):
        admin.create_acl("User:ann", "Topic:x", ["Pub"])
    with pytest.raises(rmq.ConfigurationError, match="user_type is 'Root'"):
        admin.create_user("ann", "secret", user_type="Root")


def test_users_are_copied_from_broker_to_broker(admin, second_broker):
    admin.create_user("ann", "secret", broker="broker-a")
    admin.create_user("bob", "secret", broker="broker-a")
    admin.create_acl("User:ann", ["Topic:flights"], ["Pub"], broker="broker-a")
    assert admin.copy_users("broker-a", "broker-b", ["ann"]) == ["ann"]
    assert admin.copy_acls("broker-a", "broker-b") == ["User:ann"]
    assert [user.username for user in admin.users("broker-b")] == ["ann"]
    assert [acl.subject for acl in admin.acls("broker-b")] == ["User:ann"]


# -- both faces ------------------------------------------------------------------------------------------------------------------


def test_a_client_that_was_shut_down_opens_again_when_it_is_asked(rocketmq):
    admin = rocketmq.admin()
    admin.topics()
    admin.shutdown()
    assert admin.queues("flights") == [QUEUE]
    admin.shutdown()


def test_two_brokers_of_one_name_are_said(rocketmq, admin, caplog):
    with second_broker_of(rocketmq, name="broker-a") as other:
        for address in (rocketmq.broker.address, other.address):
            admin.create_group("delays", broker=address)
        rocketmq.advance_until(lambda: bool(admin.cluster_info().rivals))
        (broker,) = admin.brokers()
        assert {broker.address, *broker.rivals} == {rocketmq.broker.address, other.address}
        listed = CommandLine(rocketmq.namesrv_addr).run("broker list")
        assert listed.code == 1
        assert f"{broker.rivalry}\n" in listed.err
        assert "brokerName" in caplog.text
        found = admin.diagnose_group("delays", watch_ms=0)
        assert any(other.address in sentence for sentence in found.not_learned)
    rocketmq.advance(180_000)
    assert admin.cluster_info().rivals is None


def test_a_request_that_fails_at_one_broker_has_ended_at_all_when_it_raises(rocketmq, second_broker, monkeypatch):
    """What still ran would open the client's connections anew after its shutdown."""
    ended: list[str] = []

    async def delete_topic(admin: rmq.AsyncAdmin, address: str, topic: str) -> None:
        if address != second_broker.address:
            raise rmq.RemoteError(1, "no", address)
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append(address)

    async def fail() -> list[str]:
        async with rmq.AsyncAdmin(namesrv_addr=rocketmq.namesrv_addr) as admin:
            with pytest.raises(rmq.RemoteError):
                await admin.delete_topic("flights")
            return list(ended)

    monkeypatch.setattr(rmq.AsyncAdmin, "_delete_topic_at", delete_topic)
    assert asyncio.run(fail()) == [second_broker.address]


def test_a_broker_that_registers_while_an_administrator_asks_is_one_that_is_known_or_not(rocketmq, admin, monkeypatch):
    """One answer of the name server is used, not two of different moments. Found by the simulator, seed 7000000."""
    asked = NameServers.cluster_info
    answers = []

    async def cluster_info(self):
        answers.append(await asked(self))
        return answers[-1] if len(answers) > 1 else ClusterInfo()

    monkeypatch.setattr(NameServers, "cluster_info", cluster_info)
    with pytest.raises(rmq.ConfigurationError):
        admin.update_broker_config({"fileReservedTime": 48}, cluster="DefaultCluster")
    admin.update_broker_config({"fileReservedTime": 48}, cluster="DefaultCluster")
