"""Settings read and changed while running: codes 25 and 26."""

from __future__ import annotations

import json

import pytest

from sprocketmq.broker import BrokerConfig
from sprocketmq.broker.live_config import _OF_BROKER, _OF_STORE
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.java_properties import parse_properties


def update(client, text: str):
    return client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def shown(client) -> dict[str, str]:
    return parse_properties(bytes(client.ask(RequestCode.GET_BROKER_CONFIG).body).decode())


def version(client) -> int:
    return json.loads(client.ask(RequestCode.GET_BROKER_CONFIG).ext_fields["version"])["counter"]


def test_what_is_changed_is_shown_counted_and_in_effect_at_once(cluster, client):
    assert client.send("flights").code == 0
    assert (version(client), shown(client)["autoCreateTopicEnable"]) == (0, "true")
    assert update(client, "autoCreateTopicEnable = false\nlongPollingEnable=false\n").code == 0
    assert (version(client), shown(client)["autoCreateTopicEnable"]) == (1, "false")
    assert client.send("delays").code == ResponseCode.TOPIC_NOT_EXIST
    assert update(client, "autoCreateTopicEnable=true").code == 0
    assert client.send("delays").code == 0


def test_a_new_permission_of_the_broker_counts_at_once_and_reaches_the_name_servers(cluster, client):
    client.send("flights")
    assert update(client, "brokerPermission=4").code == 0
    cluster.eventually(lambda: cluster.namesrv.table.route("flights").queue_datas[0].perm == 4)
    assert client.pull("g", "flights").code == 0
    assert update(client, "brokerPermission=2").code == 0
    assert client.pull("g", "flights").code == ResponseCode.NO_PERMISSION


def test_a_limit_of_the_store_counts_at_once(cluster, client):
    assert client.send("flights", b"x" * 2_000).code == 0
    assert update(client, "maxMessageSize=1000").code == 0
    assert client.send("flights", b"x" * 2_000).code == ResponseCode.MESSAGE_ILLEGAL
    assert cluster.broker.store.config.max_message_size == 1_000


def test_the_memory_that_counts_for_new_groups_follows(cluster, client):
    before = cluster.broker.memory_span_bytes
    assert update(client, "accessMessageInMemoryMaxRatio=20").code == 0
    assert cluster.broker.memory_span_bytes == before // 2


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("noSuchKey=1", ResponseCode.INVALID_PARAMETER, "noSuchKey"),
        ("listenPort=1234", ResponseCode.INVALID_PARAMETER, "listenPort"),
        ("longPollingEnable=maybe", ResponseCode.INVALID_PARAMETER, "longPollingEnable"),
        ("maxMessageSize=-1", ResponseCode.INVALID_PARAMETER, "maxMessageSize"),
        ("diskMaxUsedSpaceRatio=x", ResponseCode.INVALID_PARAMETER, "diskMaxUsedSpaceRatio"),
        ("brokerConfigPath=/tmp/x", ResponseCode.NO_PERMISSION, "brokerConfigPath"),
        ("configBlackList=", ResponseCode.NO_PERMISSION, "configBlackList"),
    ],
)
def test_a_list_with_one_wrong_key_changes_nothing_and_the_remark_names_it(client, text, code, named):
    before, counter = shown(client), version(client)
    answer = update(client, f"autoCreateTopicEnable=false\n{text}\n")
    assert (answer.code, named in answer.remark) == (code, True)
    assert (shown(client), version(client)) == (before, counter)


@pytest.mark.parametrize("cluster", [{"config_black_list": "longPollingEnable; traceOn"}], indirect=True)
def test_a_black_list_of_the_users_own_counts(client):
    assert update(client, "longPollingEnable=true").code == ResponseCode.NO_PERMISSION
    assert update(client, "autoCreateTopicEnable=false").code == 0


def test_the_same_value_again_is_fine_for_any_key_and_no_body_is_no_change(client):
    assert update(client, "listenPort=0\nflushDiskType=ASYNC_FLUSH").code == 0
    assert update(client, "").code == 0
    assert client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"\xff\xfe").code == ResponseCode.SYSTEM_ERROR


def test_keys_that_tools_cannot_do_without_are_shown(client):
    """mqadmin exportConfigs of 4.9 fails where one of them is missing."""
    wanted = {
        "brokerClusterName",
        "brokerId",
        "brokerName",
        "brokerRole",
        "fileReservedTime",
        "filterServerNums",
        "useTLS",
    }
    wanted |= {
        "flushDiskType",
        "maxMessageSize",
        "messageDelayLevel",
        "msgTraceTopicName",
        "slaveReadEnable",
        "traceOn",
    }
    assert wanted <= shown(client).keys()


def test_secrets_are_not_shown(cluster, client):
    assert "brokerName" in shown(client)
    assert not {key for key in shown(client) if "assword" in key or "redential" in key or "AuthenticationUser" in key}


def test_another_brokers_settings_do_not_change(cluster, client):
    update(client, "longPollingEnable=false")
    assert cluster.config.long_polling_enable
    assert BrokerConfig().long_polling_enable


def test_every_changeable_key_is_a_key():
    assert set(BrokerConfig().to_properties()) >= _OF_BROKER | _OF_STORE


def test_the_file_it_was_started_with_keeps_its_lines_and_gets_the_change(cluster, client, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("# ours\nbrokerName=broker-a\nlongPollingEnable = true\nunknownToUs=1\n")
    cluster.broker.live_config.file = file
    assert update(client, "longPollingEnable=false\nautoCreateTopicEnable=false").code == 0
    assert file.read_text() == (
        "# ours\nbrokerName=broker-a\nlongPollingEnable=false\nunknownToUs=1\nautoCreateTopicEnable=false\n"
    )
    assert update(client, "noSuchKey=1").code
    assert "noSuchKey" not in file.read_text()


def test_a_file_that_cannot_be_written_costs_nothing_but_a_line_in_the_log(cluster, client, tmp_path, caplog):
    cluster.broker.live_config.file = tmp_path / "gone" / "broker.conf"
    assert update(client, "longPollingEnable=false").code == 0
    assert shown(client)["longPollingEnable"] == "false"
    assert "could not be written" in caplog.text
