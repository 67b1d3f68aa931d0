# SPDX-License-Identifier: Apache-2.0
"""BrokerConfig and NameServerConfig: Apache's keys in, one sentence out for what is wrong."""

from __future__ import annotations

import logging

import msgspec
import pytest

from sprocketmq.broker.settings.config import BrokerConfig, NameServerConfig
from sprocketmq.errors import ConfigurationError
from sprocketmq.store import FlushDiskType

BROKER_CONF = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-b",
    "brokerId": "0",
    "brokerIP1": "10.0.0.7",
    "deleteWhen": "04",
    "fileReservedTime": "48",
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "SYNC_FLUSH",
    "autoCreateTopicEnable": "false",
    "sendMessageThreadPoolNums": "16",
    "namesrvAddr": "127.0.0.1:9876",
    "mappedFileSizeCommitLog": " 1048576 ",
}


def test_an_ordinary_broker_conf_is_read_without_a_warning(caplog):
    config = BrokerConfig.from_properties(BROKER_CONF)
    assert (config.broker_name, config.broker_ip, config.file_reserved_time) == ("broker-b", "10.0.0.7", 48)
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert config.auto_create_topic_enable is False
    assert config.mapped_file_size_commit_log == 1_048_576
    assert caplog.records == []


def test_defaults_are_apaches():
    config = BrokerConfig()
    assert (config.listen_port, config.broker_name, config.broker_cluster_name) == (10911, "broker-a", "DefaultCluster")
    assert (config.default_topic_queue_nums, config.max_message_size) == (8, 4 * 1024 * 1024)
    assert (config.flush_consumer_offset_interval_ms, config.register_namesrv_period_ms) == (5_000, 30_000)
    assert config.max_transfer_bytes_in_memory == 256 * 1024
    assert config.max_transfer_count_in_memory == 1024, "as many as Java's consumers may ask for"
    assert NameServerConfig().listen_port == 9876


def test_unknown_keys_are_named_in_one_warning(caplog):
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_properties({"flushDiskTyp": "SYNC_FLUSH", "brokerName": "b", "zzz": "1"})
    (record,) = caplog.records
    assert "flushDiskTyp (did you mean flushDiskType?), zzz;" in record.getMessage()
    assert "brokerName" not in record.getMessage()


@pytest.mark.parametrize("kind", [BrokerConfig, NameServerConfig])
def test_no_number_may_be_less_than_its_lowest_value(kind):
    def is_taken(key: str) -> bool:
        try:
            kind.from_properties({key: "-3"})
        except ConfigurationError:
            return False
        return True

    numbers = [field.encode_name for field in msgspec.structs.fields(kind) if field.type is int]
    assert len(numbers) > 10
    assert [key for key in numbers if is_taken(key)] == []


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("listenPort", "70000", "65535"),
        ("listenPort", "ten", "a whole number"),
        ("flushDiskType", "SOMETIMES", "ASYNC_FLUSH or SYNC_FLUSH"),
        ("autoCreateTopicEnable", "maybe", "true or false"),
        ("brokerPermission", "9", "6 (both)"),
        ("maxMessageSize", "0", "15728640"),
        ("registerNameServerPeriod", "5", "10000 to 60000"),
        ("brokerName", "with blank", "1 to 127 characters"),
        ("messageDelayLevel", "1s 5x", "s m h d"),
        ("mappedFileSizeConsumeQueue", "30", "multiple of 20"),
        ("flushConsumerOffsetInterval", "0", "1 or more"),
        ("brokerRole", "SLAVE", "ASYNC_MASTER or SYNC_MASTER"),
        ("brokerId", "1", "this broker is a master"),
        ("haListenPort", "-2", "-1 (no replication)"),
        ("haTransferBatchSize", "0", "1 to 4194292"),
        ("slaveTimeout", "0", "1 or more"),
        ("fileReservedTime", "-3", "0 to 2147483647"),
        ("diskSpaceWarningLevelRatio", "101", "0 to 100"),
        ("deleteWhen", "04;x", "hours of the day"),
        ("haAllowedAddresses", "everybody", "everybody"),
    ],
)
def test_a_bad_value_is_one_sentence_with_key_value_and_what_is_allowed(key, value, allowed):
    with pytest.raises(ConfigurationError) as caught:
        BrokerConfig.from_properties({key: value})
    sentence = str(caught.value)
    assert key in sentence
    assert allowed in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(("key", "value"), [("fileReservedTime", "2147483647"), ("timerRollWindowSlot", "0")])
def test_what_apache_gives_a_meaning_is_taken(key, value):
    """Files that are kept for ever, and a roll window of less than 2 slots, which means the longest."""
    BrokerConfig.from_properties({key: value})


def test_overrides_win_over_properties():
    assert BrokerConfig.from_properties({"brokerName": "a"}, broker_name="b").broker_name == "b"


def test_settings_go_out_under_the_keys_they_came_in_by():
    config = BrokerConfig.from_properties({"brokerIP1": "10.0.0.7", "longPollingEnable": "false"})
    properties = config.to_properties()
    assert (properties["brokerIP1"], properties["longPollingEnable"]) == ("10.0.0.7", "false")
    again = {key: value for key, value in properties.items() if key != "storePathCommitLog"}
    assert BrokerConfig.from_properties(again) == config


def test_the_store_gets_its_share():
    store = BrokerConfig.from_properties({**BROKER_CONF, "maxFilterMessageSize": "32000"}).store_config()
    assert (store.flush_disk_type, store.file_reserved_time) == (FlushDiskType.SYNC_FLUSH, 48)
    assert (store.mapped_file_size_commit_log, store.max_filter_units) == (1_048_576, 1_600)
