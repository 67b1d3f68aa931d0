# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from sprocketmq.broker import BrokerConfig, NameServerConfig
from sprocketmq.cli.serve.settings import settings_of
from sprocketmq.errors import ConfigurationError


def test_set_wins_over_the_file(tmp_path):
    config = tmp_path / "broker.conf"
    config.write_text("brokerName=a\nflushDiskType=ASYNC_FLUSH\n")
    assert settings_of(config, ["flushDiskType=SYNC_FLUSH", "x = y=z"]) == {
        "brokerName": "a",
        "flushDiskType": "SYNC_FLUSH",
        "x": "y=z",
    }


def test_a_password_comes_from_a_file_or_from_the_environment(tmp_path):
    config, secret = tmp_path / "broker.conf", tmp_path / "secret"
    config.write_text("tls.server.keyPassword=a\nbrokerName=a\n")
    secret.write_text("from a file\n")
    environment = {
        "SPROCKETMQ_SET_tls__server__keyPassword": "from there",
        "SPROCKETMQ_SET_brokerName": "b",
        "PATH": "/",
        "SPROCKETMQ_SET_": "x",
    }
    assert settings_of(config, [], [], environment) == {"tls.server.keyPassword": "from there", "brokerName": "b"}
    assert settings_of(config, ["brokerName=c"], [f"tls.server.keyPassword={secret}"], environment) == {
        "tls.server.keyPassword": "from a file",
        "brokerName": "c",
    }


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("flushDisktype", "flushDiskType"),
        ("flush_disk_type", "flushDiskType"),
        ("flushDiskTyp", "flushDiskType"),
        ("tls.server.certpath", "tls.server.certPath"),
        ("brokerIp1", "brokerIP1"),
        ("brokerAllowedAdresses", "brokerAllowedAddresses"),
    ],
)
def test_a_misspelt_key_is_refused_wherever_one_key_is_named(tmp_path, key, meant):
    (tmp_path / "value").write_text("x")
    variable = "SPROCKETMQ_SET_" + key.replace(".", "__")
    for where, named in (
        ("--set", ([f"{key}=x"], [], {})),
        ("--set-file", ([], [f"{key}={tmp_path / 'value'}"], {})),
        (f"the variable {variable}", ([], [], {variable: "x"})),
    ):
        sentence = (
            f"^{where} names the key '{re.escape(key)}', which does not exist; did you mean {re.escape(meant)}\\?$"
        )
        with pytest.raises(ConfigurationError, match=sentence):
            settings_of(None, *named, of=[BrokerConfig, NameServerConfig])  # type: ignore[arg-type]


def test_a_key_like_no_other_is_refused_and_one_without_effect_here_is_not():
    with pytest.raises(ConfigurationError, match="the key 'zzz', which does not exist; the guide to the broker"):
        settings_of(None, ["zzz=1"], of=[BrokerConfig])
    with pytest.raises(ConfigurationError, match="'brokerName'"):
        settings_of(None, ["brokerName=a"], of=[NameServerConfig])
    given = ["sendMessageThreadPoolNums=16", "brokerName=a"]
    assert settings_of(None, given, of=[BrokerConfig]) == {"sendMessageThreadPoolNums": "16", "brokerName": "a"}


def test_an_unknown_key_in_a_file_is_left_to_the_servers_warning(tmp_path):
    config = tmp_path / "broker.conf"
    config.write_text("flushDisktype=SYNC_FLUSH\n")
    assert settings_of(config, [], of=[BrokerConfig]) == {"flushDisktype": "SYNC_FLUSH"}


@pytest.mark.parametrize(
    ("assignments", "files"),
    [*(([], [given]) for given in ("", "key", "=file", "key=")), *(([given], []) for given in ("", "key", "=value"))],
)
def test_an_assignment_without_key_or_value_is_refused(assignments, files):
    with pytest.raises(ConfigurationError, match=r"key=\w+ is allowed"):
        settings_of(None, assignments, files, {})


def test_a_setting_whose_file_cannot_be_read_is_refused_without_telling_what_is_in_it(tmp_path):
    with pytest.raises(ConfigurationError, match="nowhere cannot be read: No such file"):
        settings_of(None, [], [f"key={tmp_path / 'nowhere'}"], {})
    (tmp_path / "binary").write_bytes(b"secret\xff")
    with pytest.raises(ConfigurationError, match="not text in UTF-8") as failure:
        settings_of(None, [], [f"key={tmp_path / 'binary'}"], {})
    assert "secret" not in str(failure.value)
