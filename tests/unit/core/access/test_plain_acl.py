# SPDX-License-Identifier: Apache-2.0
"""4.9's accounts: the order of looking, each permission, administrators, what changes do to a file."""

from __future__ import annotations

from typing import Any

import pytest

from sprocketmq.core.access.plain_acl import PlainAcl, parse_permission
from sprocketmq.core.access.plain_file import (
    AccountChange,
    data_version,
    with_account,
    with_white_addresses,
    without_account,
)
from sprocketmq.core.access.rights import Need
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.access import (
    CHANGE_CLUSTER,
    CONSUME,
    CREATE,
    DENY,
    LOOK,
    PUB,
    PUBLISH,
    REPLY,
    SUB,
    Right,
)

from .senders import sender

FILE: dict[str, Any] = {
    "globalWhiteRemoteAddresses": ["10.10.*.*"],
    "accounts": [
        {
            "accessKey": "Worker77",
            "secretKey": "worker-secret",
            "whiteRemoteAddress": "192.168.0.5",
            "admin": False,
            "defaultTopicPerm": "DENY",
            "defaultGroupPerm": "SUB",
            "topicPerms": ["orders=PUB|SUB", "flights=SUB", "closed=DENY"],
            "groupPerms": ["billing=SUB", "shut=DENY"],
        },
        {"accessKey": "Boss7777", "secretKey": "boss-secret", "admin": True},
        {"accessKey": "Boss8888", "secretKey": "boss-secret", "admin": True, "topicPerms": ["orders=SUB"]},
    ],
}
SECRETS = {"Worker77": "worker-secret", "Boss7777": "boss-secret", "Boss8888": "boss-secret"}


def need(name: str, right: Right) -> Need:
    """A topic, or the group of a retry topic."""
    if name.startswith("%RETRY%"):
        return Need("Group", name.removeprefix("%RETRY%"), right)
    return Need("Topic", name, right)


SEND = Command(310)


def ask(
    access_key: str | None,
    *needs: tuple[str, Right],
    host: str = "1.2.3.4",
    secret: str | None = None,
) -> str | None:
    given = SECRETS.get(access_key or "") if secret is None else secret
    return PlainAcl({"plain_acl.yml": FILE}).refusal(
        host, sender(access_key or "", given or ""), SEND, lambda _: [need(*one) for one in needs]
    )


def test_a_global_white_address_needs_no_key():
    assert ask(None, ("closed", PUBLISH), host="10.10.3.4") is None
    assert "no access key" in (ask(None, ("closed", PUBLISH)) or "")


def test_an_unknown_key_is_refused_by_its_name():
    assert ask("Stranger", ("orders", PUBLISH)) == "no account has the access key Stranger"


def test_an_account_s_white_address_needs_no_signature_and_no_permission():
    assert ask("Worker77", ("closed", PUBLISH), host="192.168.0.5", secret="wrong") is None
    assert ask("Boss7777", ("closed", PUBLISH), host="192.168.0.5", secret="wrong") is not None


def test_a_decision_is_remembered_for_one_account_and_the_signature_is_not():
    second = {"accessKey": "Worker88", "secretKey": "worker-secret", "topicPerms": ["flights=PUB"]}
    acl, asked = PlainAcl({"f": {**FILE, "accounts": [*FILE["accounts"], second]}}), []

    def reason(access_key: str, name: str, key: object, secret: str = "worker-secret") -> str | None:
        return acl.refusal(
            "1.2.3.4",
            sender(access_key, secret),
            SEND,
            lambda _: [asked.append(name) or need(name, PUBLISH)],
            lambda _: key,
        )

    assert reason("Worker77", "orders", (310, "orders")) is None
    assert reason("Worker77", "orders", (310, "orders")) is None
    assert asked == ["orders"]
    assert "does not fit" in (reason("Worker77", "orders", (310, "orders"), "wrong") or "")
    assert reason("Worker88", "orders", (310, "orders")) is not None
    assert reason("Worker77", "flights", (310, "flights")) is not None
    assert reason("Worker88", "flights", (310, "flights")) is None
    assert reason("Worker77", "flights", (310, "flights")) is not None, (
        "a refusal is not remembered, and nobody answers for another"
    )
    assert reason("Worker77", "orders", None) is None
    assert len(asked) == 6


def test_a_wrong_signature_is_refused_without_the_secret():
    reason = ask("Worker77", ("orders", PUBLISH), secret="wrong")
    assert "signature of access key Worker77" in (reason or "")
    assert "worker-secret" not in (reason or "")


@pytest.mark.parametrize(
    ("need", "refused"),
    [
        (("orders", PUBLISH), None),
        (("orders", CONSUME), None),
        (("flights", CONSUME), None),
        (("flights", PUBLISH), "publish to topic flights"),
        (("closed", CONSUME), "subscribe to topic closed"),
        (("unknown", PUBLISH), "publish to topic unknown"),
        (("%RETRY%billing", CONSUME), None),
        (("%RETRY%other", CONSUME), None),
        (("%RETRY%shut", CONSUME), "subscribe to group shut"),
    ],
)
def test_each_topic_and_group_has_its_permission_or_the_default(need, refused):
    reason = ask("Worker77", need)
    assert reason is None if refused is None else refused in (reason or "")


def test_every_resource_of_a_request_must_allow_it():
    assert ask("Worker77", ("orders", CONSUME), ("%RETRY%billing", CONSUME)) is None
    assert "flights" in (ask("Worker77", ("orders", PUBLISH), ("flights", PUBLISH)) or "")


def test_the_trace_topic_may_be_published_to_by_anybody_who_signs():
    assert ask("Worker77", ("RMQ_SYS_TRACE_TOPIC", PUBLISH)) is None
    assert ask("Worker77", ("RMQ_SYS_TRACE_TOPIC", PUBLISH), secret="wrong") is not None
    assert ask("Worker77", ("RMQ_SYS_TRACE_TOPIC", CONSUME)) is not None


@pytest.mark.parametrize("right", [CREATE, CHANGE_CLUSTER])
def test_what_is_for_administrators_needs_one_whatever_else_is_permitted(right):
    assert "needs an administrator" in (ask("Worker77", ("orders", right)) or "")
    assert ask("Boss7777", ("orders", right)) is None
    assert ask("Boss8888", ("anything", right)) is None


def test_reading_needs_any_permission():
    assert ask("Worker77", ("flights", LOOK)) is None
    assert "look at topic closed" in (ask("Worker77", ("closed", LOOK)) or "")


def test_a_reply_needs_an_account_that_consumes_and_is_not_denied():
    def reply(**account: Any) -> str | None:
        made = {"accessKey": "Replier7", "secretKey": "replier-secret", **account}
        wanted = Need("Topic", "DefaultCluster_REPLY_TOPIC", REPLY)
        return PlainAcl({"f": {"accounts": [made]}}).refusal(
            "1.2.3.4", sender("Replier7", "replier-secret"), SEND, lambda _: [wanted]
        )

    assert reply(groupPerms=["g=SUB"]) is None
    assert reply(defaultTopicPerm="SUB") is None
    assert reply(topicPerms=["DefaultCluster_REPLY_TOPIC=PUB"]) is None
    assert reply() is not None
    assert reply(topicPerms=["orders=PUB"]) is not None
    assert reply(groupPerms=["g=SUB"], topicPerms=["DefaultCluster_REPLY_TOPIC=DENY"]) is not None


def test_an_administrator_without_permissions_may_touch_all_and_one_with_them_only_those():
    assert ask("Boss7777", ("anything", PUBLISH)) is None
    assert ask("Boss8888", ("orders", CONSUME)) is None
    assert ask("Boss8888", ("orders", PUBLISH)) is not None
    assert ask("Boss8888", ("anything", PUBLISH)) is not None


def test_an_access_key_in_two_files_counts_in_the_first():
    other = {"accounts": [{"accessKey": "Worker77", "secretKey": "other-secret"}]}
    acl = PlainAcl({"acl/other.yml": other, "plain_acl.yml": FILE})
    assert acl.accounts["Worker77"].secret_key == "other-secret"
    assert acl.file_of["Worker77"] == "acl/other.yml"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"accounts": [{"accessKey": "short", "secretKey": "long enough"}]}, "short"),
        ({"accounts": [{"accessKey": "Worker77", "secretKey": "s7cret"}]}, "Worker77"),
        ({"accounts": [{"secretKey": "long enough"}]}, "7 characters"),
        ({"accounts": {"accessKey": "Worker77"}}, "accounts"),
        ({"accounts": ["Worker77"]}, "accounts"),
        ({"globalWhiteRemoteAddresses": "10.0.0.1"}, "globalWhiteRemoteAddresses"),
        ({"globalWhiteRemoteAddresses": ["10.0.0"]}, "10.0.0"),
        ({"accounts": [{"accessKey": "Worker77", "secretKey": "long enough", "topicPerms": ["orders"]}]}, "orders"),
        (
            {"accounts": [{"accessKey": "Worker77", "secretKey": "long enough", "topicPerms": "orders=PUB"}]},
            "topicPerms",
        ),
    ],
)
def test_an_error_in_a_file_names_the_file_and_never_shows_a_secret(content, named):
    with pytest.raises(ConfigurationError, match=f"(?s)conf.yml: .*{named}") as caught:
        PlainAcl({"conf.yml": content})
    assert "long enough" not in str(caught.value)
    assert "s7cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "permission"),
    [
        ("PUB", PUB),
        (" SUB ", SUB),
        ("PUB|SUB", PUB | SUB),
        ("SUB|PUB", PUB | SUB),
        ("DENY", DENY),
        ("ALL", DENY),
        (None, DENY),
    ],
)
def test_permissions_are_spelled_as_in_apache(text, permission):
    assert parse_permission(text) == permission


def test_the_text_of_an_account_shows_no_secret():
    assert "worker-secret" not in repr(PlainAcl({"f": FILE}).accounts["Worker77"])
    assert "sesame7" not in repr(AccountChange("Worker77", "sesame7"))


# -- an administrator's changes ------------------------------------------------------------------------------------------------


def test_a_new_account_is_added_and_the_version_moves_on():
    changed = with_account(FILE, AccountChange("Newcomer", "new-secret", topic_perms=["orders=PUB"]), 1_000)
    assert PlainAcl({"f": changed}).accounts["Newcomer"].permissions == {"orders": PUB}
    assert (data_version(changed).counter, data_version(changed).timestamp) == (1, 1_000)
    assert data_version(with_account(changed, AccountChange("Newcomer"), 2_000)).counter == 2
    assert "Newcomer" not in str(FILE), "the given content stays as it was"


def test_a_change_keeps_what_it_does_not_name():
    changed = with_account(FILE, AccountChange("Worker77", default_topic_perm="PUB"), 1)
    account = PlainAcl({"f": changed}).accounts["Worker77"]
    assert (account.secret_key, account.default_topic) == ("worker-secret", PUB)
    assert account.permissions["orders"] == PUB | SUB
    assert len(changed["accounts"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        AccountChange("Newcomer"),
        AccountChange("short", "long enough"),
        AccountChange("Worker77", "short"),
        AccountChange("Worker77", topic_perms=["orders"]),
        AccountChange("Worker77", group_perms=["g=EVERYTHING"]),
        AccountChange("Worker77", white_remote_address="10.0.0"),
    ],
)
def test_an_account_that_would_not_be_valid_is_refused(change):
    with pytest.raises(ConfigurationError):
        with_account(FILE, change, 1)


def test_an_account_and_the_white_addresses_can_be_taken_away():
    changed = with_white_addresses(without_account(FILE, "Worker77", 1), ["10.0.0.1"], 2)
    acl = PlainAcl({"f": changed})
    assert set(acl.accounts) == {"Boss7777", "Boss8888"}
    assert [pattern.text for pattern in acl.white_addresses] == ["10.0.0.1"]
    assert data_version(changed).counter == 2
