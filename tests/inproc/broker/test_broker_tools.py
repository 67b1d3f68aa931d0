# SPDX-License-Identifier: Apache-2.0
"""What tools list, page through, look into and tidy up."""

from __future__ import annotations

import pytest

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.group import consume_queue
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue

# -- topics ------------------------------------------------------------------------------------------------------------------------


def create(client, topic: str, attributes: str | None = None, queues: int = 2, **fields):
    return client.create_topic(topic, queues, attributes=attributes, **fields)


def config_of(client, topic: str) -> bodies.TopicConfig | None:
    answer = client.do(requests.topics.GET_TOPIC_CONFIG, topic)
    return None if answer.code else bodies.TopicConfig.decode(answer.body)


def test_attributes_are_set_changed_and_removed(client):
    assert create(client, "flights", "+message.type=FIFO,+queue.type=SimpleCQ").code == 0
    assert config_of(client, "flights").attributes == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert create(client, "flights", "+message.type=DELAY").code == 0
    assert create(client, "flights", "-message.type").code == 0
    assert config_of(client, "flights").attributes == {"queue.type": "SimpleCQ"}
    assert create(client, "flights").code == 0
    assert config_of(client, "flights").attributes == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize("attributes", ["+colour=red", "message.type=FIFO", "+queue.type=BatchCQ", "-message.type"])
def test_a_change_of_attributes_that_is_not_allowed_changes_nothing(client, attributes):
    create(client, "flights", "+queue.type=SimpleCQ")
    before = config_of(client, "flights")
    answer = create(client, "flights", attributes, queues=8)
    assert (answer.code, bool(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)
    assert config_of(client, "flights") == before


def test_mixed_topics_need_their_setting(cluster, client):
    assert create(client, "flights", "+message.type=MIXED").code == ResponseCode.INVALID_PARAMETER
    client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"enableMixedMessageType=true")
    assert create(client, "flights", "+message.type=MIXED").code == 0


def test_a_filter_type_that_does_not_exist_is_refused(client):
    assert create(client, "flights", topic_filter_type="X").code == ResponseCode.SYSTEM_ERROR
    assert config_of(client, "flights") is None


def test_a_list_of_topics_is_taken_whole_or_not_at_all(cluster, client):
    def send(*names: str):
        body = bodies.CreateTopicListRequestBody(
            topic_config_list=[bodies.TopicConfig(topic_name=name) for name in names]
        )
        return client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())

    assert send("one", "no blanks").code == ResponseCode.INVALID_PARAMETER
    assert config_of(client, "one") is None
    assert send("one", "two").code == 0
    assert cluster.namesrv.table.route("two") is not None
    assert send("one", "three").code == 0
    assert config_of(client, "three") is not None


def test_topics_come_in_pages_of_their_sorted_names(cluster, client):
    names = sorted(cluster.broker.topics.table)

    def page(**wanted) -> tuple[list[str], int]:
        answer = client.do(requests.topics.GET_ALL_TOPIC_CONFIG, **wanted)
        body = bodies.TopicConfigSerializeWrapper.decode(answer.body)
        return sorted(body.topic_config_table), int(answer.ext_fields["totalTopicNum"])

    now = cluster.broker.topics.data_version.encode().decode()
    assert page() == (names, len(names))
    assert page(topic_seq=0, max_topic_num=2, data_version="") == (names[:2], len(names))
    assert page(topic_seq=2, max_topic_num=3, data_version=now)[0] == names[2:5]
    assert page(topic_seq=len(names), max_topic_num=3, data_version=now)[0] == []
    create(client, "another")
    assert page(topic_seq=2, max_topic_num=2, data_version=now)[0] == sorted([*names, "another"])[:2]


@pytest.mark.parametrize("cluster", [{"enable_split_metadata": False}], indirect=True)
def test_pages_can_be_switched_off(cluster, client):
    assert len(client.get(requests.topics.GET_ALL_TOPIC_CONFIG, 0, "", 1).topic_config_table) > 1


def test_a_deleted_topic_takes_its_queues_offsets_statistics_and_pop_retry_topics_along(cluster, client):
    for topic in ("flights", "%RETRY%g_flights", "%RETRY%g+flights", "%RETRY%g"):
        client.send(topic) if topic == "flights" else create(client, topic)
    client.pull("g", "flights", 0, 0, commit_offset=1)
    assert client.delete_topic("flights").code == 0
    assert [config_of(client, name) for name in ("flights", "%RETRY%g_flights", "%RETRY%g+flights")] == [None] * 3
    assert config_of(client, "%RETRY%g") is not None
    assert cluster.broker.offsets.groups_of("flights") == []
    assert "flights" not in cluster.broker.counters.puts
    assert cluster.broker.store.max_offset("flights", 0) == 0


def test_the_brokers_own_topics_are_listed(client):
    topics = client.get(requests.topics.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).topic_list
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} <= set(topics)


# -- groups ------------------------------------------------------------------------------------------------------------------------


def groups(client, **page) -> bodies.SubscriptionGroupWrapper:
    return client.get(requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, **page)


def test_a_list_of_groups_is_taken_whole_or_not_at_all(client):
    def send(*names: str):
        body = bodies.SubscriptionGroupList(
            group_config_list=[bodies.SubscriptionGroupConfig(group_name=name) for name in names]
        )
        return client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body.encode())

    assert send("one", "no blanks").code == ResponseCode.INVALID_PARAMETER
    assert "one" not in groups(client).subscription_group_table
    assert send("one", "two").code == 0
    assert {"one", "two"} <= set(groups(client).subscription_group_table)


@pytest.mark.parametrize(
    ("given", "left"), [({}, True), ({"clean_offset": True}, False), ({"remove_offset": True}, False)]
)
def test_a_deleted_group_keeps_its_offsets_unless_either_field_deletes_them(cluster, client, given, left):
    client.send("flights")
    client.pull("g", "flights", 0, 0, commit_offset=1)
    assert client.do(requests.topics.DELETE_SUBSCRIPTIONGROUP, "g", **given).code == 0
    assert "g" not in groups(client).subscription_group_table
    assert (cluster.broker.offsets.query("g", "flights", 0) == 1) is left


def test_an_attribute_of_a_group_and_too_many_retry_queues_are_refused(client):
    for given, code in (
        ({"attributes": {"+colour": "red"}}, ResponseCode.SYSTEM_ERROR),
        ({"retry_queue_nums": 10**9}, ResponseCode.INVALID_PARAMETER),
    ):
        body = bodies.SubscriptionGroupConfig(group_name="g", **given).encode()
        assert client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == code
    assert "g" not in groups(client).subscription_group_table


def test_a_topic_that_is_taken_away_from_a_group_is_not_read_until_it_is_given_back(disk_cluster):
    client = disk_cluster.client()

    def readable(value: bool | None = None) -> bool:
        return client.get(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, "g", "flights", value).readable

    client.send("flights")
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    client.heartbeat("c2", group="other", topics={"flights": "*"})
    assert (readable(), readable(False), readable()) == (True, False, False)
    assert client.pull("g", "flights", expression=None).code == ResponseCode.NO_PERMISSION
    assert client.pull("other", "flights", expression=None).code == 0
    assert groups(client).forbidden_table == {"g": {"flights": 4}}
    disk_cluster.restart_broker()
    client = disk_cluster.client()
    assert not readable()
    assert (readable(True), groups(client).forbidden_table) == (True, {})


# -- who and what ------------------------------------------------------------------------------------------------------------------


def test_who_reads_a_topic_and_what_a_group_reads(cluster, client):
    client.send("flights")
    client.pull("gone", "flights", 0, 0, commit_offset=1)
    client.heartbeat("c1", group="online", topics={"flights": "A || B", "delays": "*"})

    def readers(topic: str) -> set[str]:
        return set(client.get(requests.topics.QUERY_TOPIC_CONSUME_BY_WHO, topic).group_list)

    assert (readers("flights"), readers("delays"), readers("nowhere")) == ({"gone", "online"}, {"online"}, set())
    assert client.get(requests.topics.QUERY_TOPICS_BY_CONSUMER, "gone").topic_list == ["flights"]

    def subscription(group: str):
        return client.get(requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER, group, "flights").subscription_data

    assert subscription("online").sub_string == "A || B"
    assert subscription("gone") is None


# -- numbers -----------------------------------------------------------------------------------------------------------------------


def test_a_time_span_is_how_long_the_next_message_has_waited(cluster, client):
    begin = cluster.clock.now_ms()
    for _ in range(3):
        client.send("flights")
        cluster.clock.advance(1_000)
    client.pull("g", "flights", 0, 0, commit_offset=2)
    spans = client.get(requests.offsets.QUERY_CONSUME_TIME_SPAN, "flights", "g")
    first, second, *_ = sorted(spans.consume_time_span_set, key=lambda span: span.message_queue.queue_id)
    times = (first.min_time_stamp, first.consume_time_stamp, first.max_time_stamp, first.delay_time)
    assert times == (begin, begin + 1_000, begin + 2_000, 1_000)
    assert first.min_time_stamp_str.endswith(f":{begin % 1000:03d}")
    assert (second.min_time_stamp, second.max_time_stamp, second.delay_time) == (-1, -1, 0)


def test_consume_stats_of_the_broker_have_every_group_and_the_sum_of_what_is_open(client):
    for _ in range(4):
        client.send("flights")
    client.pull("g", "flights", 0, 0, max_messages=3, commit_offset=1)

    def stats(is_order: bool) -> bodies.ConsumeStatsList:
        return client.get(requests.offsets.GET_BROKER_CONSUME_STATS, is_order)

    body = stats(False)
    by_group = {name: found for row in body.consume_stats_list for name, found in row.items()}
    assert by_group["TOOLS_CONSUMER"] == []
    assert by_group["g"][0].offset_table[MessageQueue("flights", "broker-a", 0)].broker_offset == 4
    assert (body.total_diff, body.total_inflight_diff) == (3, 2)
    assert stats(True).total_diff == 0
    client.heartbeat("me", group="hangs", topics={"flights": "*"})  # a member whose first message is not done
    by_group = {name: found for row in stats(False).consume_stats_list for name, found in row.items()}
    assert by_group["hangs"][0].offset_table[MessageQueue("flights", "broker-a", 0)].consumer_offset == 0


def test_statistics_count_messages_bytes_and_requests_of_the_last_minute(cluster, client):
    for _ in range(4):
        client.send("flights", b"12345678")
    client.pull("g", "flights", max_messages=3)
    client.pull("g", "flights", 0, 3, max_messages=3)
    cluster.clock.advance(10_000)

    def view(name: str, key: str) -> bodies.BrokerStatsData | None:
        answer = client.do(requests.brokers.VIEW_BROKER_STATS_DATA, name, key)
        return None if answer.code else bodies.BrokerStatsData.decode(answer.body)

    size = len(client.pull("reader", "flights", max_messages=1).body)
    puts, gets = view("TOPIC_PUT_NUMS", "flights").stats_minute, view("GROUP_GET_NUMS", "flights@g").stats_minute
    assert (puts.sum, puts.tps, puts.avgpt) == (4, 0.4, 1.0)
    assert (gets.sum, gets.tps, gets.avgpt) == (4, 0.4, 2.0)
    assert view("TOPIC_PUT_SIZE", "flights").stats_minute.sum == 4 * size
    assert view("GROUP_GET_SIZE", "flights@g").stats_minute.avgpt == 2 * size
    assert view("BROKER_PUT_NUMS", "DefaultCluster").stats_minute.sum == 4
    assert [view(name, "flights") for name in ("NO_SUCH_NUMS", "GROUP_GET_NUMS")] == [None, None]
    stats = client.get(requests.topics.GET_TOPIC_STATS_INFO, "flights")
    assert stats.topic_put_tps == 0.4


def test_a_send_back_is_counted_for_the_topic_it_came_from(cluster, client):
    client.send("flights")
    (message,) = client.messages("flights")
    client.send_back(message, "g")
    assert client.do(requests.brokers.VIEW_BROKER_STATS_DATA, "SNDBCK_PUT_NUMS", "flights@g").code == 0


# -- looking inside, tidying up ------------------------------------------------------------------------------------------------------


def test_a_consume_queue_shows_its_entries(client):
    for tags in ("A", "B", "C"):
        client.send("flights", tags=tags)
    client.heartbeat("c1", group="g", topics={"flights": "A"})

    def look(index: int, count: int, group: str | None = None, queue_id: int = 0):
        return client.do(requests.offsets.QUERY_CONSUME_QUEUE, "flights", queue_id, index, count, group)

    body = bodies.QueryConsumeQueueResponseBody.decode(look(1, 5).body)
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    assert [entry.tags_code for entry in body.queue_data] == [tags_code("B"), tags_code("C")]
    assert bodies.QueryConsumeQueueResponseBody.decode(look(0, 1, "g").body).subscription_data.sub_string == "A"
    assert "not online" in bodies.QueryConsumeQueueResponseBody.decode(look(0, 1, "nobody").body).filter_data
    assert bodies.QueryConsumeQueueResponseBody.decode(look(0, -1).body).queue_data == []
    assert [(look(index, 1).code, bytes(look(index, 1).body)) for index in (3, -1)] == [(0, b"")] * 2
    assert look(0, 1, queue_id=9).code == ResponseCode.SYSTEM_ERROR


def test_a_consume_queue_that_goes_while_its_entries_are_shown_leaves_valid_json(cluster, client, monkeypatch):
    for _ in range(6):
        client.send("flights")
    store = cluster.broker.store
    units = store.units

    def units_until_it_goes(topic, queue_id, offset, count):
        if offset >= 2:
            store.delete_topic(topic)
        return units(topic, queue_id, offset, count)

    monkeypatch.setattr(store, "units", units_until_it_goes)
    monkeypatch.setattr(consume_queue, "in_chunks", lambda offsets: in_chunks(offsets, 2))
    assert len(client.get(requests.offsets.QUERY_CONSUME_QUEUE, "flights", 0, 0, 6, None).queue_data) == 2


@pytest.mark.parametrize(
    "disk_cluster",
    # However full the disk of this machine is.
    [
        {
            "file_reserved_time": 1,
            "delete_when": "99",
            "disk_max_used_space_ratio": 100,
            "clean_file_forcibly_enable": False,
        }
    ],
    indirect=True,
)
def test_expired_log_files_go_at_once_when_asked_and_not_before(disk_cluster):
    client, store = disk_cluster.client(), disk_cluster.broker.store
    for _ in range(12):
        client.send("flights", b"x" * 200_000, properties={props.UNIQ_KEY: "one"})
    disk_cluster.clock.advance(2 * 3_600_000)
    assert client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert store.min_physical_offset == 0
    assert client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code == 0
    assert store.min_physical_offset > 0


# -- assignment by the broker ----------------------------------------------------------------------------------------------------------


def assigned(client, client_id: str = "c1", **given) -> list[int] | None:
    wanted = {"topic": "flights", "consumer_group": "g", "strategy_name": "AVG", "message_model": "CLUSTERING", **given}
    body = bodies.QueryAssignmentRequestBody(client_id=client_id, **wanted).encode()
    answer = client.get(requests.consumers.QUERY_ASSIGNMENT, body=body)
    if answer.message_queue_assignments is None:
        return None
    return sorted(assignment.message_queue.queue_id for assignment in answer.message_queue_assignments)


def test_the_broker_shares_out_queues_as_the_members_would(cluster, client):
    client.send("flights")
    for name in ("c1", "c2"):
        cluster.client().heartbeat(name, group="g", topics={"flights": "*"})
    assert (assigned(client), assigned(client, "c2")) == ([0, 1], [2, 3])
    assert assigned(client, strategy_name="AVG_BY_CIRCLE") == [0, 2]
    assert assigned(client, "stranger") == []
    assert assigned(client, message_model="BROADCASTING") == [0, 1, 2, 3]
    for unknown in ({"topic": "nowhere"}, {"consumer_group": "nobody"}, {"strategy_name": "X"}):
        assert assigned(client, **unknown) is None


def test_queues_of_other_brokers_are_shared_out_too(cluster, client):
    other = cluster.new_broker(broker_name="broker-b")
    other.start()
    try:
        for address in (cluster.broker.address, other.address):
            create(cluster.client(address), "flights")
        client.heartbeat("c1", group="g", topics={"flights": "*"})
        assert assigned(client) == [0, 0, 1, 1]
    finally:
        other.stop()


def test_a_mode_is_remembered_over_a_restart_and_pop_is_refused(disk_cluster):
    client = disk_cluster.client()
    create(client, "flights")

    def set_mode(mode: str, topic: str = "flights"):
        body = bodies.SetMessageRequestModeRequestBody(topic=topic, consumer_group="g", mode=mode).encode()
        return client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)

    assert set_mode("PULL").code == 0
    assert set_mode("POP").code == ResponseCode.INVALID_PARAMETER
    assert set_mode("PULL", "nowhere").code == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode("PULL", "%RETRY%g").code == ResponseCode.NO_PERMISSION
    disk_cluster.restart_broker()
    client = disk_cluster.client()
    body = client.get(requests.consumers.GET_ALL_MESSAGE_REQUEST_MODE)
    assert body.message_request_mode_map["flights"]["g"].mode == "PULL"


def test_a_query_for_a_group_creates_it_if_groups_are_created_automatically(client):
    assert client.do(requests.topics.GET_SUBSCRIPTIONGROUP_CONFIG, "fresh").code == 0
    assert "fresh" in groups(client).subscription_group_table
