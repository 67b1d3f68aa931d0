# SPDX-License-Identifier: Apache-2.0
"""Configuration files of all kinds with anything in them: settings, or one sentence. `make fuzz` runs these for longer."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.broker import Broker, BrokerConfig, NameServerConfig
from sprocketmq.broker.security.plain_access import PlainAccessValidator
from sprocketmq.broker.security.users import UserAccessValidator
from sprocketmq.broker.tables.kv_config import KVConfigTable
from sprocketmq.cli.serve.settings import settings_of
from sprocketmq.core.access.need_readers import Place
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.errors import ConfigurationError, ProtocolError, StoreError
from sprocketmq.net.process.clock import ManualClock

PLACE = Place("DefaultCluster", lambda offset: None)
KEYS = sorted(BrokerConfig.keys() | NameServerConfig.keys())
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "1",
            "abc",
            "true",
            "9" * 30,
            "1.5",
            "NaN",
            "1s 5s",
            "1s 1x",
            "127.0.0.1:1;x",
            "SYNC_FLUSH",
            "\x00",
            "🛫",
        ]
    ),
    st.text(max_size=20),
)
NAMES = st.sampled_from(
    [
        "topicConfigTable", "subscriptionGroupTable", "offsetTable", "dataVersion", "configTable", "flights",
        "flights@g", "g", "0", "1", "perm", "readQueueNums",
        "topicName", "accounts", "accessKey", "secretKey", "globalWhiteRemoteAddresses", "whiteRemoteAddress",
        "topicPerms", "groupPerms", "defaultTopicPerm", "admin",
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    NAMES,
    st.sampled_from(["DENY", "a=PUB", "a=PUB|X", "10.0.*.*"]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=14,
)
CONTENTS = st.one_of(st.binary(max_size=60), TREES.map(lambda tree: json.dumps(tree).encode()))


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_any_values_are_settings_or_one_sentence(properties):
    for kind in (BrokerConfig, NameServerConfig):
        try:
            made = kind.from_properties(properties)
        except ConfigurationError:
            continue
        made.to_properties()
        if kind is BrokerConfig:
            with contextlib.suppress(ConfigurationError):
                DelayLevels.parse(made.message_delay_level)


@settings(max_examples=examples(40))
@given(st.binary(max_size=120))
def test_any_bytes_are_a_broker_conf_or_one_sentence(data):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "broker.conf"
        file.write_bytes(data)
        with contextlib.suppress(ConfigurationError):
            BrokerConfig.from_properties(settings_of(file, []))


FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


@settings(max_examples=examples(60))
@given(st.dictionaries(st.sampled_from([*FILES, *(f"{name}.bak" for name in FILES)]), CONTENTS, min_size=1, max_size=4))
def test_any_config_files_of_a_store_are_loaded_or_refused(contents):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "config").mkdir()
        for name, data in contents.items():
            (root / "config" / name).write_bytes(data)
        broker = Broker(store_dir=folder, clock=ManualClock())
        tables = (broker.topics, broker.groups, broker.offsets, broker.schedule)
        with contextlib.suppress(StoreError):
            broker.config_store.load()
            for table in tables[:2]:
                table.content().encode()
            tables[2].content(1).encode()


@settings(max_examples=examples(40))
@given(CONTENTS)
def test_any_key_value_file_is_loaded_or_refused(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kvConfig.json"
        path.write_bytes(data)
        with contextlib.suppress(StoreError):
            KVConfigTable(str(path)).load()


@settings(max_examples=examples(60))
@given(st.one_of(CONTENTS, st.text(alphabet="acounts: -\n'\"[]{}&*!|>%@`#?,", max_size=60).map(str.encode)))
def test_any_plain_acl_file_is_accounts_or_one_sentence(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain_acl.yml"
        path.write_bytes(data)
        with contextlib.suppress(ConfigurationError):
            PlainAccessValidator(ManualClock(), path, PLACE, frozenset()).load()


@settings(max_examples=examples(40))
@given(CONTENTS, CONTENTS)
def test_any_users_and_policies_are_loaded_or_refused(users, acls):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        access = UserAccessValidator(BrokerConfig(), root, PLACE)
        with contextlib.suppress(StoreError, ConfigurationError):
            access.save()
        for number, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
            path.write_bytes((users, acls)[number % 2])
        with contextlib.suppress(StoreError, ConfigurationError, ProtocolError):
            UserAccessValidator(BrokerConfig(), root, PLACE).load()
        msgspec.json.encode(access.table.acls())
