# SPDX-License-Identifier: Apache-2.0
"""A broker that wants to know who asks: 4.9's accounts and 5.x's users, refused and served, changed while it runs."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sprocketmq.broker import Broker, BrokerConfig, NameServerConfig
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.acl_signature import signed_fields
from sprocketmq.wire.frames.command import Command

FILE = {
    "accounts": [
        {
            "accessKey": "Worker77",
            "secretKey": "worker-secret",
            "topicPerms": ["orders=PUB|SUB", "flights=SUB"],
            "groupPerms": ["billing=SUB"],
        },
        {"accessKey": "Boss7777", "secretKey": "boss-secret", "admin": True},
    ]
}
WORKER, BOSS = ("Worker77", "worker-secret"), ("Boss7777", "boss-secret")
ROOT, NORMAL = ("root", "root-password"), ("worker", "worker-password")

with_accounts = pytest.mark.parametrize("disk_cluster", [{"acl_enable": True}], indirect=True)
with_users = pytest.mark.parametrize(
    "disk_cluster",
    [
        {
            "authentication_enabled": True,
            "authorization_enabled": True,
            "init_authentication_user": '{"username":"root","password":"root-password"}',
        }
    ],
    indirect=True,
)


def signing(client: Any, keys: tuple[str, str], *, also: dict[str, str] | None = None) -> Any:
    """The client, signing all that it asks."""
    begin = client.begin

    def signed(code: int, header: Any = None, body: bytes = b"", **fields: Any) -> Any:
        ext = signed_fields({**(header.to_ext() if header is not None else {}), **(also or {})}, body, *keys)
        return begin(code, None, body, ext_fields=ext, **fields)

    client.begin = signed
    return client


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    path = tmp_path / "store/config/plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(FILE))
    return path


# -- 4.9's accounts --------------------------------------------------------------------------------------------------------------


@with_accounts
def test_a_signed_request_is_served_and_any_other_is_refused_with_its_reason(accounts, disk_cluster):
    worker = signing(disk_cluster.client(), WORKER)
    assert worker.send("orders").code == 0
    assert worker.pull("billing", "orders").code == 0
    refused = {
        "no access key": disk_cluster.client().send("orders"),
        "Stranger": signing(disk_cluster.client(), ("Stranger", "worker-secret")).send("orders"),
        "does not fit": signing(disk_cluster.client(), ("Worker77", "wrong-secret")).send("orders"),
        "publish to topic flights": worker.send("flights"),
        "subscribe to group other": worker.pull("other", "orders"),
    }
    for part, answer in refused.items():
        assert answer.code == ResponseCode.NO_PERMISSION
        assert part in (answer.remark or "")
        assert "secret" not in (answer.remark or "").replace("secretKey", "")
    assert disk_cluster.broker.store.max_offset("orders", 0) == 1, "a refused send stores nothing"


@with_accounts
def test_any_change_of_a_signed_request_is_noticed(accounts, disk_cluster):
    client = disk_cluster.client()
    fields = signed_fields({"topic": "orders"}, b"body", *WORKER)
    assert (
        client.ask(RequestCode.GET_TOPIC_CONFIG, body=b"body", ext_fields=fields).code == ResponseCode.TOPIC_NOT_EXIST
    )
    for changed, body in (({"topic": "order5"}, b"body"), ({}, b"b0dy"), ({"more": "1"}, b"body"), ({"Signature": "x"}, b"body"),
                          ({"Signature": "é"}, b"body")):  # fmt: skip
        answer = client.ask(RequestCode.GET_TOPIC_CONFIG, body=body, ext_fields={**fields, **changed})
        assert answer.code == ResponseCode.NO_PERMISSION
    late = {**fields, "_UNIQUE_KEY_QUERY": "true"}  # the one field that Java adds behind the signature
    assert client.ask(RequestCode.GET_TOPIC_CONFIG, body=b"body", ext_fields=late).code == ResponseCode.TOPIC_NOT_EXIST


@with_accounts
def test_a_checked_request_comes_to_its_handler_with_its_typed_header(accounts, disk_cluster):
    """Otherwise each handler would decode the ext fields again that the signature was checked by."""
    came: list[Command] = []
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE):
        disk_cluster.on_loop(lambda: disk_cluster.broker.before_request(code, lambda _, command: came.append(command)))  # noqa: B023
    worker = signing(disk_cluster.client(), WORKER)
    assert worker.send("orders").code == 0
    assert worker.pull("billing", "orders").code == 0
    assert [type(command.typed_header).__name__ for command in came] == [
        "SendMessageRequestHeaderV2",
        "PullMessageRequestHeader",
    ]


@with_accounts
def test_a_heartbeat_needs_every_subscription(accounts, disk_cluster):
    worker = signing(disk_cluster.client(), WORKER)
    assert worker.heartbeat("c", group="billing", topics={"orders": "*", "flights": "*"}).code == 0
    assert (
        worker.heartbeat("c", group="billing", topics={"orders": "*", "closed": "*"}).code == ResponseCode.NO_PERMISSION
    )
    assert worker.ask(RequestCode.HEART_BEAT, body=b"nonsense").code == ResponseCode.NO_PERMISSION


@with_accounts
def test_a_changed_file_takes_effect_within_half_a_second_and_a_broken_one_never(accounts, disk_cluster, caplog):
    worker = signing(disk_cluster.client(), WORKER)
    assert worker.send("flights").code == ResponseCode.NO_PERMISSION
    accounts.write_text(accounts.read_text().replace("flights=SUB", "flights=PUB"))
    disk_cluster.clock.advance(500)
    disk_cluster.eventually(lambda: "flights" in disk_cluster.broker.plain_access._acl.accounts["Worker77"].permissions)
    assert worker.send("flights").code == 0
    with caplog.at_level(logging.ERROR):
        for broken in ("accounts: [worker-secret", "- 1", "accounts: [{accessKey: x, secretKey: worker-secret}]"):
            accounts.write_text(broken)
            disk_cluster.clock.advance(500)
            assert worker.send("flights").code == 0, "the last good reading stays in force"
    assert "stay as they were" in caplog.text
    assert "worker-secret" not in caplog.text


@with_accounts
def test_account_files_can_be_added_and_removed(accounts, disk_cluster):
    more = accounts.parent / "acl/team/more.yml"
    more.parent.mkdir(parents=True)
    more.write_text(
        yaml.safe_dump({"accounts": [{"accessKey": "Extra777", "secretKey": "extra-secret", "admin": True}]})
    )
    extra = signing(disk_cluster.client(), ("Extra777", "extra-secret"))
    disk_cluster.clock.advance(500)
    assert extra.send("anything").code == 0
    more.unlink()
    disk_cluster.clock.advance(500)
    assert extra.send("anything").code == ResponseCode.NO_PERMISSION


@with_accounts
def test_an_administrator_changes_accounts_and_white_addresses(accounts, disk_cluster):
    boss = signing(disk_cluster.client(), BOSS)
    newcomer = signing(disk_cluster.client(), ("Newcomer", "new-secret"))
    header = headers.CreateAccessConfigRequestHeader("Newcomer", "new-secret", topic_perms="orders=PUB,flights=SUB")
    assert boss.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header).code == 0
    assert newcomer.send("orders").code == 0, "a change is in force when it is answered"
    written = yaml.safe_load(accounts.read_text())
    assert [account["accessKey"] for account in written["accounts"]] == ["Worker77", "Boss7777", "Newcomer"]
    assert oct(os.stat(accounts).st_mode)[-3:] == "600"

    shown = bytes(boss.ask(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG).body)
    assert [account["accessKey"] for account in json.loads(shown)["plainAccessConfigs"]] == [
        "Worker77",
        "Boss7777",
        "Newcomer",
    ]
    assert b"-secret" not in shown
    assert newcomer.ask(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG).code == ResponseCode.NO_PERMISSION

    version = boss.ask(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    assert json.loads(version.ext_fields["version"])["counter"] == 1
    assert json.loads(version.ext_fields["allAclFileVersion"])[str(accounts)]["counter"] == 1

    assert boss.do(requests.accounts.DELETE_ACL_CONFIG, "Newcomer").code == 0
    assert newcomer.send("orders").code == ResponseCode.NO_PERMISSION

    assert boss.do(requests.accounts.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "10.0.0.1,127.0.0.*").code == 0
    assert disk_cluster.client().send("anything").code == 0


INVALID_CHANGES = (
    (50, headers.CreateAccessConfigRequestHeader("Newcomer"), 209),
    (50, headers.CreateAccessConfigRequestHeader("x", "long enough"), 209),
    (50, headers.CreateAccessConfigRequestHeader("Worker77", topic_perms="orders"), 209),
    (50, headers.CreateAccessConfigRequestHeader("Worker77", white_remote_address="nowhere"), 209),
    (50, None, 1),
    (51, headers.DeleteAccessConfigRequestHeader("Stranger"), 210),
    (51, None, 1),
    (53, headers.UpdateGlobalWhiteAddrsConfigRequestHeader("nowhere"), 211),
    (53, headers.UpdateGlobalWhiteAddrsConfigRequestHeader("10.0.0.1", "/etc/passwd"), 211),
    (53, None, 1),
)


@with_accounts
def test_an_invalid_change_is_refused_and_changes_nothing(accounts, disk_cluster):
    before, boss = accounts.read_bytes(), signing(disk_cluster.client(), BOSS)
    for code, header, failure in INVALID_CHANGES:
        answer = boss.ask(code, header)
        assert (answer.code, bool(answer.remark)) == (failure, True), (code, header)
        assert "long enough" not in answer.remark
        assert "Traceback" not in answer.remark
        assert accounts.read_bytes() == before
    assert signing(disk_cluster.client(), WORKER).send("orders").code == 0


def test_without_access_control_accounts_cannot_be_changed(client):
    for code, header, failure in (
        (50, headers.CreateAccessConfigRequestHeader("Newcomer", "new-secret"), 209),
        (51, headers.DeleteAccessConfigRequestHeader("Newcomer"), 210),
        (52, None, 1),
        (53, headers.UpdateGlobalWhiteAddrsConfigRequestHeader("*"), 211),
    ):
        answer = client.ask(code, header)
        assert (answer.code, "aclEnable" in (answer.remark or "")) == (failure, True)


def test_a_broken_file_stops_the_start_and_a_missing_one_is_made_empty(tmp_path):
    path = tmp_path / "conf/plain_acl.yml"
    config = BrokerConfig(acl_enable=True, rocketmq_home=str(tmp_path))
    with Broker(port=0, config=config):
        assert path.read_text() == ""
    path.write_text("accounts: [{accessKey: short}]")
    with pytest.raises(ConfigurationError, match="plain_acl.yml: .*short"):
        Broker(port=0, config=config).start()
    with pytest.raises(ConfigurationError, match="aclFile"):
        Broker(port=0, config=BrokerConfig(acl_enable=True))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"acl_enable": True, "authentication_enabled": True}, "aclEnable"),
        ({"authorization_enabled": True}, "authorizationEnabled"),
        ({"authentication_enabled": True, "init_authentication_user": "sesame7"}, "initAuthenticationUser"),
        (
            {"inner_client_authentication_credentials": '{"accessKey":"sesame7"}'},
            "innerClientAuthenticationCredentials",
        ),
        ({"authentication_whitelist": "all"}, "authenticationWhitelist"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_name(settings, named):
    with pytest.raises(ConfigurationError, match=named) as caught:
        Broker(port=0, config=BrokerConfig(**settings)).start()
    assert "sesame7" not in str(caught.value)


# -- 5.x's users -----------------------------------------------------------------------------------------------------------------


def new_user(client: Any, name: str, **values: Any) -> Command:
    return client.do(requests.accounts.AUTH_CREATE_USER, name, body=bodies.UserInfo(**values))


def grant(client: Any, name: str, *entries: bodies.PolicyEntryInfo, code: int = RequestCode.AUTH_CREATE_ACL) -> Command:
    body = bodies.AclInfo(f"User:{name}", [bodies.PolicyInfo("Custom", list(entries))]).encode()
    return client.ask(code, headers.AclSubjectRequestHeader(f"User:{name}"), body)


@with_users
def test_users_and_policies_are_made_used_and_taken_away(disk_cluster):
    root, worker = signing(disk_cluster.client(), ROOT), signing(disk_cluster.client(), NORMAL)
    assert worker.send("orders").code == ResponseCode.NO_PERMISSION
    assert new_user(root, "worker", password="worker-password").code == 0
    refused = worker.send("orders")
    assert (refused.code, "worker" in (refused.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    assert grant(root, "worker", bodies.PolicyEntryInfo("Topic:ord*", ["Pub", "Sub"], ["127.0.0.0/8"], "Allow"),
                 bodies.PolicyEntryInfo("Group:*", ["Sub"], None, "Allow")).code == 0  # fmt: skip
    assert worker.send("orders").code == 0
    assert worker.pull("billing", "orders").code == 0
    assert worker.heartbeat("c", group="billing", topics={"orders": "*"}).code == 0
    assert worker.send("flights").code == ResponseCode.NO_PERMISSION
    assert grant(root, "worker", bodies.PolicyEntryInfo("Topic:orders", ["All"], None, "Deny"), code=3007).code == 0
    assert worker.send("orders").code == ResponseCode.NO_PERMISSION
    assert root.do(requests.accounts.AUTH_DELETE_ACL, "User:worker", None, "Topic:orders").code == 0
    assert worker.send("orders").code == 0
    assert root.do(requests.accounts.AUTH_UPDATE_USER, "worker", body=bodies.UserInfo(user_status="disable")).code == 0
    assert worker.send("orders").code == ResponseCode.NO_PERMISSION
    assert root.do(requests.accounts.AUTH_DELETE_USER, "worker").code == 0
    assert worker.send("orders").code == ResponseCode.NO_PERMISSION
    assert root.ask(RequestCode.AUTH_LIST_ACL, headers.ListAclsRequestHeader()).body == b""


@with_users
def test_users_and_policies_survive_a_restart(disk_cluster, tmp_path):
    root = signing(disk_cluster.client(), ROOT)
    new_user(root, "worker", password="worker-password")
    grant(root, "worker", bodies.PolicyEntryInfo("Topic:orders", ["Pub"], None, "Allow"))
    disk_cluster.restart_broker()
    assert signing(disk_cluster.client(), NORMAL).send("orders").code == 0
    assert oct(os.stat(tmp_path / "store/config/sprocketUsers.json").st_mode)[-3:] == "600"
    users = json.loads(bytes(signing(disk_cluster.client(), ROOT).ask(3005, headers.ListUsersRequestHeader()).body))
    assert [user["username"] for user in users] == ["root", "worker"]


@with_users
def test_a_normal_user_neither_administers_users_nor_touches_a_super_user(disk_cluster):
    root, worker = signing(disk_cluster.client(), ROOT), signing(disk_cluster.client(), NORMAL)
    new_user(root, "worker", password="worker-password")
    assert new_user(worker, "friend", password="x").code == ResponseCode.NO_PERMISSION
    grant(root, "worker", bodies.PolicyEntryInfo("Cluster:*", ["Update", "Get"], None, "Allow"))
    assert new_user(worker, "friend", password="x").code == 0
    assert new_user(worker, "king", password="x", user_type="Super").code == ResponseCode.SYSTEM_ERROR
    change = bodies.UserInfo(password="taken over").encode()
    assert worker.do(requests.accounts.AUTH_UPDATE_USER, "root", body=change).code == ResponseCode.SYSTEM_ERROR
    assert worker.do(requests.accounts.AUTH_UPDATE_USER, "worker", body=bodies.UserInfo(user_type="super")).code == 1
    assert worker.do(requests.accounts.AUTH_DELETE_USER, "root").code == ResponseCode.NO_PERMISSION
    assert root.send("anything").code == 0


ODD_REQUESTS = (
    (3001, None, b"", 29),
    (3001, headers.UserRequestHeader(" "), b"{}", 29),
    (3001, headers.UserRequestHeader("new"), b"", 16),
    (3001, headers.UserRequestHeader("new"), b"nonsense", 1),
    (3001, headers.UserRequestHeader("new"), b'{"password":7}', 1),
    (3001, headers.UserRequestHeader("new"), b'{"password":"x","userType":"King"}', 16),
    (3001, headers.UserRequestHeader("root"), b'{"password":"x"}', 16),
    (3002, headers.UserRequestHeader("new"), b'{"password":"x"}', 16),
    (3002, None, b"{}", 29),
    (3003, None, b"", 29),
    (3004, None, b"", 29),
    (3004, headers.UserRequestHeader("new"), b"", 0),
    (3006, None, b"", 16),
    (3006, headers.AclSubjectRequestHeader("User:new"), b'{"policies":[]}', 16),
    (3006, headers.AclSubjectRequestHeader("User:root"), b'{"policies":[{"entries":[{"resource":"x"}]}]}', 16),
    (3007, headers.AclSubjectRequestHeader("Planet:x"), b"{}", 16),
    (3008, headers.DeleteAclRequestHeader("User:root", "Other", "Topic:a"), b"", 16),
    (3008, None, b"", 16),
    (3009, None, b"", 16),
    (3009, headers.AclSubjectRequestHeader("User:new"), b"", 16),
    (3009, headers.AclSubjectRequestHeader("User:root"), b"", 0),
)


@with_users
def test_odd_requests_get_an_answer_and_change_nothing(disk_cluster, tmp_path):
    file, root = tmp_path / "store/config/sprocketUsers.json", signing(disk_cluster.client(), ROOT)
    before = file.read_bytes()
    for code, header, body, answer in ODD_REQUESTS:
        got = root.ask(code, header, body)
        assert (got.code, bool(got.remark) or not answer) == (answer, True), (code, header)
        assert "Error:" not in (got.remark or "")
        assert file.read_bytes() == before


@pytest.mark.parametrize(
    "cluster",
    [{"tls_server_mode": "disabled", "tls_server_key_password": "sesame7", "tls_client_key_password": "sesame7",
      "init_authentication_user": '{"username":"root","password":"sesame7"}',
      "inner_client_authentication_credentials": '{"accessKey":"inner77","secretKey":"sesame7"}'}],
    indirect=True,
)  # fmt: skip
def test_settings_are_shown_without_passwords(cluster, client):
    settings = bytes(client.ask(RequestCode.GET_BROKER_CONFIG).body)
    assert b"brokerName=broker-a" in settings
    assert b"sesame7" not in settings


def test_settings_of_the_name_server_are_shown_without_passwords():
    config = NameServerConfig(tls_server_mode="disabled", tls_server_key_password="sesame7")
    assert "sesame7" not in str(config.without_secrets())
    assert config.to_properties()["tls.server.keyPassword"] == "sesame7"
