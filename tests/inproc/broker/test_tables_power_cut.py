# SPDX-License-Identifier: Apache-2.0
"""Power cuts right after an answer: what was made, changed or deleted is as the answer said, in each table of administrators."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import yaml

from inproc.broker.power_cuts import SETTINGS, start_after_the_cut
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, SubscriptionGroupConfig, UserInfo
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers import DeleteAccessConfigRequestHeader, DeleteAclRequestHeader, UserRequestHeader

CUTS = 4


class Kind(NamedTuple):
    """How one kind of thing gets a value, loses it, and which one a broker has; None is none."""

    change: Callable[[Any, int], Any]
    delete: Callable[[Any], Any]
    found: Callable[[Any], int | None]


def topic_of(client, value):
    return client.create_topic("made", value, write_queue_nums=1)


def group_of(client, value, name="made"):
    body = SubscriptionGroupConfig(group_name=name, retry_max_times=value).encode()
    return client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def user_of(client, value):
    code = RequestCode.AUTH_CREATE_USER if value == 1 else RequestCode.AUTH_UPDATE_USER
    return client.ask(code, UserRequestHeader("made"), UserInfo(password=str(value)).encode())


def policy_of(client, value):
    if value == 1:
        user_of(client, 1)
    policies = [PolicyInfo("Custom", [PolicyEntryInfo("Topic:made", ["Pub"], [f"10.0.0.{value}"], "Allow")])]
    body = AclInfo("User:made", policies).encode()
    return client.do(requests.accounts.AUTH_UPDATE_ACL, "User:made", body=body)


def policy_in(broker):
    info = broker.users.table.acl("made")
    return None if info is None else int(info.policies[0].entries[0].source_ips[0].rpartition(".")[2])


def account_of(client, value):
    return client.do(requests.accounts.UPDATE_AND_CREATE_ACL_CONFIG, "made7777", f"secret-{value}")


def account_in(broker):
    account = broker.plain_access._acl.accounts.get("made7777")
    return None if account is None else int(account.secret_key.rpartition("-")[2])


def offset_of(client, value):
    if value == 1:
        for _ in range(3):
            assert client.send("flights").code == 0
        assert group_of(client, 1, "g").code == 0
    return client.do(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, "flights", "g", 0, queue_id=0, offset=value)


def offset_in(broker):
    offset = broker.offsets.query("g", "flights", 0)
    return None if offset < 0 else offset


def forbid(client, value, readable=False):
    return client.do(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, "g", f"made-{value}", readable=readable)


def of(found, value):
    return None if found is None else value(found)


KINDS = {
    "topic": Kind(
        topic_of,
        lambda client: client.delete_topic("made"),
        lambda broker: of(broker.topics.get("made"), lambda topic: topic.read_queue_nums),
    ),
    "group": Kind(
        group_of,
        lambda client: client.delete_group("made"),
        lambda broker: of(broker.groups.table.get("made"), lambda group: group.retry_max_times),
    ),
    "forbidden": Kind(
        forbid,
        lambda client: client.delete_group("g"),
        lambda broker: max((int(topic.rpartition("-")[2]) for topic in broker.groups.forbidden.get("g", ())), default=None),
    ),
    "user": Kind(
        user_of,
        lambda client: client.ask(RequestCode.AUTH_DELETE_USER, UserRequestHeader("made")),
        lambda broker: of(broker.users.table.user("made"), lambda user: int(user.password)),
    ),
    "policy": Kind(
        policy_of,
        lambda client: client.ask(RequestCode.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:made", "Custom", "Topic:made")),
        policy_in,
    ),
    "account": Kind(
        account_of,
        lambda client: client.ask(RequestCode.DELETE_ACL_CONFIG, DeleteAccessConfigRequestHeader("made7777")),
        account_in,
    ),
    "offset": Kind(offset_of, lambda client: client.delete_group("g"), offset_in),
}  # fmt: skip


@pytest.fixture
def accounts(disk):
    """Named before the broker: everybody on this machine may do everything."""
    file = disk.root / "config/plain_acl.yml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump({"globalWhiteRemoteAddresses": ["127.0.0.1"]}))
    for path in (file, file.parent, disk.root):
        with_descriptor(disk, path)


def with_descriptor(disk, path):
    fd = os.open(path, os.O_RDONLY)
    try:
        disk.sync(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("action", ["create", "update", "delete"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("disk_cluster", [{**SETTINGS, "acl_enable": True}], indirect=True)
def test_acknowledged_changes_survive_a_power_cut(disk, accounts, disk_cluster, tmp_path, monkeypatch, kind, action):
    changed, client = KINDS[kind], disk_cluster.client()
    expected: int | None = 1
    assert changed.change(client, 1).code == 0
    if action == "update":
        expected = 2
        assert changed.change(client, 2).code == 0
    elif action == "delete":
        expected = None
        assert changed.delete(client).code == 0
    for seed in range(CUTS):
        disk.cut(tmp_path / f"cut{seed}", random.Random(seed))
    for seed in range(CUTS):
        start_after_the_cut(disk_cluster, tmp_path / f"cut{seed}", monkeypatch)
        assert changed.found(disk_cluster.broker) == expected, f"cut {seed}"


@pytest.mark.parametrize("action", ["create", "update", "delete"])
def test_acknowledged_changes_of_the_name_server_survive_a_power_cut(disk, cluster, tmp_path, action):
    def server_on(folder):
        return cluster.new_name_server(kv_config_path=str(folder / "namesrv/kvConfig.json"))

    server = server_on(disk.root)
    client = cluster.client(server.address)
    for value in ("1", "2") if action == "update" else ("1",):
        assert client.do(requests.name_servers.PUT_KV_CONFIG, "made", "key", value).code == 0
    if action == "delete":
        assert client.do(requests.name_servers.DELETE_KV_CONFIG, "made", "key").code == 0
    for seed in range(CUTS):
        disk.cut(tmp_path / f"cut{seed}", random.Random(seed))
    server.stop()
    for seed in range(CUTS):
        server = server_on(tmp_path / f"cut{seed}")
        assert server.kv_config.get("made", "key") == {"create": "1", "update": "2", "delete": None}[action]
