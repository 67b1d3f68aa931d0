# SPDX-License-Identifier: Apache-2.0
"""Changes that an administrator asks for while their file cannot be written: an error, and the disk gets them as soon as it can."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.store import config_files
from sprocketmq.store.files.mapped_file import not_writable
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import AclSubjectRequestHeader, PutKVConfigRequestHeader, UserRequestHeader

ROUND_MS = 10_000
TOPICS, GROUPS, MODES = "topics.json", "subscriptionGroup.json", "messageRequestMode.json"
DELETED = "deletedTopics.json"


class FullDisk:
    """Configuration files on it cannot be written while ``is_full``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.tries = 0
        save = config_files.save_config

        def save_config(path: str, raw: bytes, *, private: bool = False) -> None:
            if self.is_full:
                self.tries += 1
                raise not_writable(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            save(path, raw, private=private)

        monkeypatch.setattr(config_files, "save_config", save_config)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def create_topic(client: Any) -> Any:
    return client.create_topic("made")


def create_topics(client: Any) -> Any:
    body = bodies.CreateTopicListRequestBody(topic_config_list=[bodies.TopicConfig(topic_name="made")])
    return client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())


def delete_topic(client: Any) -> Any:
    return client.delete_topic("there")


def create_group(client: Any) -> Any:
    body = bodies.SubscriptionGroupConfig(group_name="made").encode()
    return client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def create_groups(client: Any) -> Any:
    body = bodies.SubscriptionGroupList(group_config_list=[bodies.SubscriptionGroupConfig(group_name="made")])
    return client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body.encode())


def delete_group(client: Any) -> Any:
    return client.delete_group("readers", clean_offset=False)


def forbid(client: Any) -> Any:
    return client.do(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, group="readers", topic="there", readable=False)


def set_mode(client: Any) -> Any:
    body = bodies.SetMessageRequestModeRequestBody(topic="there", consumer_group="readers", mode="PULL")
    return client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.encode())


CHANGES: dict[str, tuple[Callable[[Any], Any], str, Callable[[Any], bool]]] = {
    "17": (create_topic, TOPICS, lambda found: "made" in found["topicConfigTable"]),
    "18": (create_topics, TOPICS, lambda found: "made" in found["topicConfigTable"]),
    "215": (delete_topic, TOPICS, lambda found: "there" not in found["topicConfigTable"]),
    "200": (create_group, GROUPS, lambda found: "made" in found["subscriptionGroupTable"]),
    "225": (create_groups, GROUPS, lambda found: "made" in found["subscriptionGroupTable"]),
    "207": (delete_group, GROUPS, lambda found: "readers" not in found["subscriptionGroupTable"]),
    "353": (forbid, GROUPS, lambda found: "readers" in found["forbiddenTable"]),
    "401": (set_mode, MODES, lambda found: "there" in found["messageRequestModeMap"]),
}


@pytest.mark.parametrize("code", CHANGES)
def test_a_change_whose_file_cannot_be_written_is_answered_with_an_error_until_it_is_written(disk_cluster, disk, code):
    ask, name, is_there = CHANGES[code]
    client = disk_cluster.client()
    assert client.send("there").code == 0
    client.heartbeat("c", group="readers", topics={"there": "*"})
    disk_cluster.engine.run(disk_cluster.broker.config_store.saved())

    def on_disk() -> bool:
        try:
            return is_there(json.loads(Path(disk_cluster.store_dir, "config", name).read_text()))
        except FileNotFoundError:  # none yet, or it takes its name just now
            return False

    assert not on_disk()
    disk.is_full = True
    for _ in range(2):  # to ask again for what counts already is no reason to say that all is well
        answer = ask(client)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        first = DELETED if code == "215" else name  # a deletion is noted before its topic goes
        assert f"{first}: the disk is full; free some space" in answer.remark
        assert not on_disk()
    tries = disk.tries
    disk_cluster.clock.advance(ROUND_MS)
    disk_cluster.eventually(lambda: disk.tries > tries)
    disk.is_full = False
    assert not on_disk()
    disk_cluster.clock.advance(ROUND_MS)
    disk_cluster.eventually(on_disk)


def test_a_change_that_could_not_be_written_is_written_by_whoever_asks_next_and_at_the_end(disk_cluster, disk):
    client = disk_cluster.client()
    disk.is_full = True
    assert create_topic(client).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert create_group(client).code == ResponseCode.SERVICE_NOT_AVAILABLE
    disk.is_full = False
    assert create_topic(client).code == 0
    path = Path(disk_cluster.store_dir, "config", TOPICS)
    assert "made" in json.loads(path.read_text())["topicConfigTable"]
    disk.is_full = True
    assert client.send("sent").code == 0  # nobody is told of that topic
    disk.is_full = False
    disk_cluster.broker.stop()
    found = [json.loads(path.with_name(name).read_text()) for name in (TOPICS, GROUPS)]
    assert "sent" in found[0]["topicConfigTable"]
    assert "made" in found[1]["subscriptionGroupTable"]
    disk_cluster.restart_broker()


def test_offsets_that_could_not_be_written_are_written_in_the_next_round(disk_cluster, disk):
    client = disk_cluster.client()
    client.send("there")
    client.heartbeat("c", group="readers", topics={"there": "*"})
    disk.is_full = True
    client.pull("readers", "there", 0, 0, commit_offset=1)
    disk_cluster.clock.advance(ROUND_MS)
    disk_cluster.eventually(lambda: disk.tries)
    disk_cluster.eventually(lambda: disk_cluster.broker.offsets.is_dirty)
    disk.is_full = False
    disk_cluster.clock.advance(ROUND_MS)
    path = Path(disk_cluster.store_dir, "config", "consumerOffset.json")
    disk_cluster.eventually(lambda: path.exists() and '"there@readers":{0:1}' in path.read_text())


def test_users_and_policies_that_cannot_be_written_are_as_before(disk_cluster, disk):
    client = disk_cluster.client()
    user = bodies.UserInfo("ada", "secret", "Normal", "enable")
    acl = bodies.AclInfo(
        "User:ada", [bodies.PolicyInfo("Custom", [bodies.PolicyEntryInfo("Topic:t", ["Pub"], [], "Allow")])]
    )

    def create_user(name: str = "ada") -> Any:
        return client.do(requests.accounts.AUTH_CREATE_USER, name, body=user)

    def create_acl() -> Any:
        return client.do(requests.accounts.AUTH_CREATE_ACL, "User:ada", body=acl)

    def shown() -> tuple[bytes, bytes]:
        return client.ask(RequestCode.AUTH_LIST_USER).body, client.ask(RequestCode.AUTH_LIST_ACL).body

    disk.is_full = True
    assert create_user().code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert shown() == (b"", b"")
    disk.is_full = False
    assert create_user().code == 0
    assert create_acl().code == 0
    before = shown()
    disk.is_full = True
    refused = [
        create_acl().code,
        client.ask(RequestCode.AUTH_DELETE_ACL, AclSubjectRequestHeader("User:ada")).code,
        client.ask(
            RequestCode.AUTH_UPDATE_USER, UserRequestHeader("ada"), bodies.UserInfo("ada", "other").encode()
        ).code,
        client.do(requests.accounts.AUTH_DELETE_USER, "ada").code,
    ]
    # To give a user the policies that he has changes nothing, so nothing has to be written.
    assert set(refused[1:]) == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert shown() == before


def test_key_values_of_a_name_server_are_answered_with_an_error_and_written_later(cluster, disk, tmp_path):
    path, settings = tmp_path / "kvConfig.json", tmp_path / "namesrv.properties"
    server = cluster.new_name_server(kv_config_path=str(path), config_store_path=str(settings))
    client = cluster.client(server.address)
    put = PutKVConfigRequestHeader("ns", "key", "value")
    disk.is_full = True
    for _ in range(2):
        answer = client.ask(RequestCode.PUT_KV_CONFIG, put)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the disk is full" in answer.remark
    gone = client.do(requests.name_servers.DELETE_KV_CONFIG, "ns", "other")
    assert gone.code == ResponseCode.SERVICE_NOT_AVAILABLE, "what came before is not on the disk either"
    changed = client.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")
    assert changed.code == ResponseCode.SERVICE_NOT_AVAILABLE
    disk.is_full = False
    assert not path.exists()
    cluster.clock.advance(ROUND_MS)
    cluster.eventually(path.exists)
    assert json.loads(path.read_text())["configTable"] == {"ns": {"key": "value"}}
