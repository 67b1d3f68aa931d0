# SPDX-License-Identifier: Apache-2.0
"""``broker``, ``user``, ``acl``, ``context``, ``bench``; credentials and TLS of every command."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

import sprocketmq as rmq
from cli_run import CommandLine
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.wire.codes import RequestCode

ROOT = {"ROCKETMQ_ACCESS_KEY": "root", "ROCKETMQ_SECRET_KEY": "root-password"}


def test_brokers_are_listed_and_one_that_is_down_is_a_failure(server, line):
    (row,) = line.ok("broker list --json").json
    assert (row["broker_name"], row["role"], row["is_up"], row["cluster"]) == (
        "broker-a",
        "master",
        True,
        "DefaultCluster",
    )
    assert "in today" in line.ok("broker list -o wide").out
    assert line.ok("broker show broker-a --json").json["info"]["brokerActive"] == "true"
    assert line.run("broker list --cluster nowhere").code == 2
    with server.faults.drop(RequestCode.GET_BROKER_RUNTIME_INFO):
        ended = line.run("broker list --timeout 200ms --json")
    assert ended.code == 1
    (row,) = ended.json
    assert (row["is_up"], row["version"], row["in_tps"]) == (False, None, None)


def test_settings_are_read_changed_and_refused(line):
    settings = line.ok("broker config get broker-a --json").json
    assert line.ok("broker config get broker-a maxMessageSize").out == f"{settings['maxMessageSize']}\n"
    ended = line.run("broker config get broker-a maxMesageSize")
    assert (ended.code, "did you mean maxMessageSize?" in ended.err) == (2, True)
    assert line.run("broker config set broker-a flushDisktype=SYNC_FLUSH").code == 2
    ended = line.run("broker config set broker-a flushDiskType=SYNC_FLUSH")
    assert (ended.code, ended.out) == (1, "")
    assert "cannot change while the broker runs" in ended.err
    told = line.ok("broker config set broker-a maxMessageSize=1000000 --json").json
    assert told == {"broker": "broker-a", "settings": {"maxMessageSize": "1000000"}}
    line.ok(f"broker config set broker-a maxMessageSize={settings['maxMessageSize']}")


def test_a_broker_is_drained_and_put_back(server, line):
    line.ok("topic create drained --queues 1")
    line.ok("group create drains")
    line.ok("group reset drains --topic drained --to earliest --yes")
    line.ok("send drained 1")
    assert line.run("broker drain broker-z --yes").code == 2
    ended = line.run("broker drain broker-a --yes --wait 1ms")
    assert ended.code == 1
    assert "left to consume: drains 1" in ended.out
    assert line.run("send drained 2").code == 1
    consumer = server.push_consumer("drains")
    consumer.subscribe("drained")
    seen = threading.Event()
    consumer.on_message(lambda message: seen.set())
    with consumer:
        assert seen.wait(30)
    ended = line.ok("broker drain broker-a --yes --wait 30s --json")
    assert ended.json["lag"].get("drains", 0) == 0
    assert line.ok("broker drain broker-a --undo --yes").out.startswith("producers may send to broker broker-a again")
    line.ok("send drained 3")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[CommandLine]:
    """A cluster of 5.x with users, as its root."""
    config = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"root-password"}',
    }
    with NameServer(port=0) as namesrv, Broker(namesrv.address, port=0, config=BrokerConfig.from_properties(config)):
        yield CommandLine(namesrv.address, {**ROOT, "SPROCKETMQ_CONTEXTS": str(tmp_path / "contexts.json")})


def test_users_and_policies(secured, tmp_path):
    (tmp_path / "ann").write_text("ann-password\n")
    assert "would create normal user ann" in secured.ok(f"user create ann --password-file {tmp_path}/ann --dry-run").out
    secured.ok(f"user create ann --password-file {tmp_path}/ann")
    users = secured.ok("user list --json").json
    assert {"user": "ann", "type": "Normal", "status": "enable"} in users
    assert "password" not in secured.ok("user list --json").out
    secured.ok("acl set ann allow Pub,sub Topic:orders 'Group:billing*' --from 127.0.0.1")
    secured.ok("acl set ann deny All Topic:orders")
    entries = {row["resource"]: row for row in secured.ok("acl show ann --json").json}
    assert (entries["Topic:orders"]["decision"], entries["Group:billing*"]["actions"]) == ("Deny", ["Pub", "Sub"])
    assert entries["Group:billing*"]["source_ips"] == ["127.0.0.1"]
    assert "Group:billing*" in secured.ok("user show ann").out
    assert len(secured.ok("acl list --user ann --resource billing --json").json) == 1
    assert secured.run("acl set ann allow Fly Topic:orders").code == 2
    secured.ok("user alter ann --disable")
    assert secured.ok("user show ann --json").json["status"] == "disable"
    secured.ok("acl delete ann --yes")
    assert secured.ok("acl show ann --json").json == []
    secured.ok("user delete ann --yes")
    assert secured.run("user show ann").code == 2
    assert secured.run("user delete ann --yes").code == 2
    assert secured.run(f"user create bob --password-file {tmp_path}/empty").code == 2


def test_clients_without_keys_are_refused_with_one_sentence(secured):
    for variables in ({}, {**ROOT, "ROCKETMQ_SECRET_KEY": "wrong"}):
        ended = CommandLine(
            secured.namesrv_addr, {"ROCKETMQ_ACCESS_KEY": "", "ROCKETMQ_SECRET_KEY": "", **variables}
        ).run("topic create x")
        assert (ended.code, ended.out) == (1, "")
        assert len(ended.err.splitlines()) == 1
    secured.ok("topic create x --access-key root --secret-key root-password")


def test_a_context_has_all_that_a_secured_cluster_needs(tmp_path):
    """TLS and accounts of 4.9, by a context alone."""
    ca = trustme.CA()
    issued = ca.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    account = {"accessKey": "Ops77777", "secretKey": "ops-secret", "admin": True}
    (tmp_path / "acl.yml").write_text(yaml.safe_dump({"accounts": [account]}))
    (tmp_path / "keys.yml").write_text("accessKey: Ops77777\nsecretKey: ops-secret\n")
    network = {
        "tls.server.mode": "enforcing",
        "tls.server.keyPath": f"{tmp_path}/key.pem",
        "tls.server.certPath": f"{tmp_path}/cert.pem",
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": f"{tmp_path}/ca.pem",
    }
    acl = {"aclEnable": "true", "aclFile": f"{tmp_path}/acl.yml"}
    with (
        NameServer(port=0, config=NameServerConfig.from_properties(network)) as namesrv,
        Broker(namesrv.address, port=0, config=BrokerConfig.from_properties({**network, **acl})),
    ):
        line = CommandLine("", {"NAMESRV_ADDR": "", "SPROCKETMQ_CONTEXTS": str(tmp_path / "contexts.json")})
        line.ok(
            f"context add prod -n {namesrv.address} --secret-key-file {tmp_path}/keys.yml --tls-ca {tmp_path}/ca.pem"
        )
        line.ok("context add dev -n 127.0.0.1:1")
        assert "ops-secret" not in (tmp_path / "contexts.json").read_text()
        line.ok("topic create orders --queues 1")
        line.ok("send orders x --context prod")
        assert len(line.ok("tail orders --json").json_lines) == 1
        assert [row["current"] for row in line.ok("context list --json").json] == [False, True]
        line.ok("context use dev")
        assert line.run("topic list").code == 1
        line.ok("topic list --context prod")
        assert line.run(f"topic list -n {namesrv.address}").code == 1  # without the context's authorities and keys
        line.ok("context delete dev")
        assert line.run("context delete dev").code == 2
        assert line.run("context add '' -n h:1").code == 2


def test_a_bench_prints_a_table_and_leaves_nothing_behind(line):
    topics, groups = line.ok("topic list --json").json, line.ok("group list --json").json
    sent, consumed = line.ok("bench --messages 300 --size 100 --in-flight 20 --json").json
    assert (sent["what"], sent["messages"], sent["failed"]) == ("send", 300, 0)
    assert (consumed["what"], consumed["messages"]) == ("consume", 300)
    assert 0 < consumed["p50_ms"] <= consumed["p99_ms"]
    assert line.ok("topic list --json").json == topics
    assert {row["group"] for row in line.ok("group list --json").json} == {row["group"] for row in groups}
    line.ok("topic create measured --queues 1")
    (only,) = line.ok("bench measured --messages 10 --no-consume --json").json
    assert only["messages"] == 10
    assert line.ok("topic show measured --json").json["messages"] == 10


def test_names_of_a_cluster_are_completed(server, line, monkeypatch):
    from click.shell_completion import BashComplete

    from sprocketmq.cli.main import app

    with rmq.Admin(namesrv_addr=server.namesrv_addr) as admin:
        admin.create_topic("completed-topic", queues=1)
        admin.create_group("completed-group")
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
    complete = BashComplete(app, {}, "sprocketmq", "_SPROCKETMQ_COMPLETE")
    assert [one.value for one in complete.get_completions(["tail"], "completed-")] == ["completed-topic"]
    assert [one.value for one in complete.get_completions(["group", "doctor"], "completed-")] == ["completed-group"]
    assert [one.value for one in complete.get_completions(["topic", "show", "-n", "127.0.0.1:1"], "completed-")] == []
