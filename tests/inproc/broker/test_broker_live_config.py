# SPDX-License-Identifier: Apache-2.0
"""Settings read and changed while running: codes 25 and 26."""

from __future__ import annotations

import json

import pytest

from sprocketmq.broker import BrokerConfig, NameServer, NameServerConfig
from sprocketmq.broker.settings.live_config import _OF_BROKER, _OF_STORE
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.text.java_properties import parse_properties

SECRET = '{"accessKey":"inner","secretKey":"not to be told"}'


def update(client, text: str):
    return client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def shown(client) -> dict[str, str]:
    return parse_properties(bytes(client.ask(RequestCode.GET_BROKER_CONFIG).body).decode())


def version(client) -> int:
    return json.loads(client.ask(RequestCode.GET_BROKER_CONFIG).ext_fields["version"])["counter"]


def test_a_changed_setting_is_shown_counted_and_in_effect_at_once(cluster, client):
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


def test_the_memory_span_follows_a_changed_ratio(cluster, client):
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
def test_a_black_list_in_the_settings_is_applied(client):
    assert update(client, "longPollingEnable=true").code == ResponseCode.NO_PERMISSION
    assert update(client, "autoCreateTopicEnable=false").code == 0


def test_the_present_value_of_any_key_is_accepted_and_an_empty_body_changes_nothing(client):
    assert update(client, "listenPort=0\nflushDiskType=ASYNC_FLUSH").code == 0
    assert update(client, "").code == 0
    assert client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"\xff\xfe").code == ResponseCode.SYSTEM_ERROR


def test_keys_that_tools_require_are_shown(client):
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


def test_settings_are_replaced_not_changed(cluster, client):
    of_broker, of_store = cluster.broker.config, cluster.broker.store.config
    assert update(client, "longPollingEnable=false\nmaxMessageSize=1000").code == 0
    assert (of_broker.long_polling_enable, of_broker.max_message_size) == (True, 4 << 20)
    assert of_store.max_message_size == 4 << 20
    assert cluster.broker.config.store_config() == cluster.broker.store.config


def test_every_changeable_key_is_a_key():
    assert set(BrokerConfig().to_properties()) >= _OF_BROKER | _OF_STORE


def test_the_file_it_was_started_with_keeps_its_lines_and_gets_the_change(cluster, client, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("# ours\nbrokerName=broker-a\nlongPollingEnable = true\nunknownToUs=1\n")
    cluster.start_again(cluster.broker.port, config_file=file)
    assert update(client, "longPollingEnable=false\nautoCreateTopicEnable=false").code == 0
    assert file.read_text() == (
        "# ours\nbrokerName=broker-a\nlongPollingEnable=false\nunknownToUs=1\nautoCreateTopicEnable=false\n"
    )
    assert update(client, "noSuchKey=1").code
    assert "noSuchKey" not in file.read_text()


def test_a_change_of_settings_that_cannot_be_written_gets_an_error(cluster, client, tmp_path):
    cluster.start_again(cluster.broker.port, config_file=tmp_path / "gone" / "broker.conf")
    answer = update(client, "longPollingEnable=false")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "until the broker ends, but they could not be written down" in answer.remark
    assert shown(client)["longPollingEnable"] == "false"


# -- one value is one setting, and a secret is not told --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\\n", "\\r", "\\r\\n", "\\u000a", "\\f", "\\u0000"])
def test_a_value_with_a_line_break_is_refused_and_nothing_is_written(cluster, client, tmp_path, end):
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=broker-a\n")
    cluster.start_again(cluster.broker.port, config_file=file)
    for text in (f"deleteWhen=04{end}bindAddress=0.0.0.0", f"deleteWhen{end}bindAddress=0.0.0.0"):
        answer = update(client, text)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert answer.remark
        assert file.read_text() == "brokerName=broker-a\n"
    assert shown(client)["deleteWhen"] == "04"


@pytest.mark.parametrize("cluster", [{"inner_client_authentication_credentials": SECRET}], indirect=True)
def test_no_refusal_and_no_log_line_shows_a_secret(cluster, client, caplog):
    caplog.set_level("DEBUG")
    (key,) = [key for key, value in cluster.broker.config.to_properties().items() if value == SECRET]
    refused = update(client, f"{key}=guess")
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert update(client, f"autoCreateTopicEnable=false\n{key}={SECRET}").code == 0
    assert SECRET not in (refused.remark or "") + caplog.text + json.dumps(shown(client))


def test_the_name_servers_file_holds_one_line_for_a_value_too(tmp_path):
    server = NameServer(port=0, config=NameServerConfig(config_store_path=str(tmp_path / "namesrv.conf")))
    server.update_config({"bindAddress": "a\nlistenPort=1", "orderMessageEnable": "true"})
    written = parse_properties((tmp_path / "namesrv.conf").read_text())
    assert (written["orderMessageEnable"], written.get("listenPort") == "1") == ("true", False)


def test_a_name_server_refuses_such_a_value(cluster):
    answer = cluster.namesrv_client().ask(318, body=b"kvConfigPath2=x\\norderMessageEnable=false")
    assert answer.code == ResponseCode.INVALID_PARAMETER
