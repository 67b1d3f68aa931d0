# SPDX-License-Identifier: Apache-2.0
"""5.x's users and policies: who a request is from, what it may touch, which entry decides, what changes are refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from examples import examples
from sprocketmq.core.access.policies import Acl, PolicyEntry, Resource
from sprocketmq.core.access.rights import Need
from sprocketmq.core.access.users import UserTable, subject_name
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.access import REPLY, Right

from .senders import sender

HERE = "10.1.2.3"


def need(key: str, *actions: str) -> Need:
    kind, _, name = key.partition(":")
    return Need(kind, name, Right(frozenset(actions or ("Pub",)), 0))


def entry(resource: str, actions: str = "Pub", decision: str = "Allow", *sources: str) -> PolicyEntry:
    return PolicyEntry.of(resource, actions.split(","), sources, decision)


def acl(*entries: PolicyEntry, default: tuple[PolicyEntry, ...] = ()) -> Acl:
    made = Acl()
    made.update("Custom", entries)
    if default:
        made.update("Default", default)
    return made


# -- which entry decides -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["Topic:a", "Group:b", "Cluster:c"], []),
        ("Topic:*", ["Topic:a"], ["Group:a"]),
        ("topic:orders", ["Topic:orders"], ["Topic:orders2", "Topic:order", "Group:orders"]),
        ("Group:team-*", ["Group:team-", "Group:team-a"], ["Group:team", "Topic:team-a"]),
    ],
)
def test_a_resource_pattern_means_these_and_no_others(pattern, inside, outside):
    made = acl(entry(pattern))
    assert [key for key in inside if made.refusal(need(key), HERE)] == []
    assert [key for key in outside if not made.refusal(need(key), HERE)] == []


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Planet:x", "Topic:a*b*", ":a", None])
def test_no_resource_is_refused(text):
    with pytest.raises(ConfigurationError, match="resource"):
        Resource.parse(text)


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:orders", "Topic:orders*", "Cluster:DefaultCluster"])
def test_a_resource_is_spelled_as_it_was_given(text):
    assert Resource.parse(text).key == text


def test_the_more_specific_entry_decides_in_any_order():
    entries = [
        entry("*", decision="Deny"),
        entry("Topic:*", decision="Allow"),
        entry("Topic:ord*", decision="Deny"),
        entry("Topic:orders*", decision="Allow"),
        entry("Topic:orders", decision="Deny"),
    ]
    for order in (entries, entries[::-1]):
        made = acl(*order)
        verdicts = {
            key: made.refusal(need(key), HERE) is None
            for key in ("Group:g", "Topic:x", "Topic:ordinal", "Topic:orders2")
        }
        assert verdicts == {"Group:g": False, "Topic:x": True, "Topic:ordinal": False, "Topic:orders2": True}
        assert made.refusal(need("Topic:orders"), HERE) == "the policy of Topic:orders denies it"


def test_a_default_entry_counts_only_when_no_custom_one_matches():
    made = acl(entry("Topic:*", decision="Deny"), default=(entry("Topic:orders"), entry("Group:g")))
    assert made.refusal(need("Topic:orders"), HERE) is not None
    assert made.refusal(need("Group:g"), HERE) is None


def test_any_one_of_the_wanted_actions_is_enough_and_all_covers_each():
    made = acl(entry("Topic:orders", "Sub,Get"), entry("Group:g", "All"))
    assert made.refusal(need("Topic:orders", "Pub", "Get"), HERE) is None
    assert made.refusal(need("Topic:orders", "Pub"), HERE) == "no policy allows it"
    assert made.refusal(need("Group:g", "Update"), HERE) is None


@pytest.mark.parametrize(
    ("source", "host", "allowed"),
    [
        ("10.0.0.0/8", HERE, True),
        ("10.1.2.3", HERE, True),
        ("10.1.2.4", HERE, False),
        ("192.168.0.0/16", HERE, False),
        ("fe80::/10", "fe80::1", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "fe80::1", False),
        ("10.0.0.0/8", "", False),
    ],
)
def test_an_entry_counts_only_from_its_sources(source, host, allowed):
    assert (acl(entry("*", "All", "Allow", source)).refusal(need("Topic:a"), host) is None) == allowed


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("Topic:a", [], [], "Allow"), "actions"),
        (("Topic:a", None, [], "Allow"), "actions"),
        (("Topic:a", ["Any"], [], "Allow"), "Any"),
        (("Topic:a", ["Pub"], ["10.0.0"], "Allow"), "10.0.0"),
        (("Topic:a", ["Pub"], [], "Perhaps"), "Perhaps"),
        (("Topic:a", ["Pub"], [], None), "decision"),
    ],
)
def test_an_entry_with_a_wrong_value_is_refused_by_name(arguments, named):
    with pytest.raises(ConfigurationError, match=named):
        PolicyEntry.of(*arguments)


SEND = Command(310)


# -- users -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> UserTable:
    made = UserTable()
    made.create_user(UserInfo("root", "root-password", "Super"))
    made.create_user(UserInfo("worker", "worker-password"))
    made.update_acl("worker", [PolicyInfo("Custom", [PolicyEntryInfo("Topic:orders", ["Pub", "Sub"], None, "Allow")])])
    return made


def test_a_request_is_authentic_only_with_a_known_enabled_user_and_his_password(table):
    assert table.not_authentic(sender("worker", "worker-password"), b"") is None
    assert table.not_authentic(sender("worker", "root-password"), b"") is not None
    assert "does not fit" in (table.not_authentic(sender("worker", "wrong"), b"") or "")
    assert "does not exist" in (table.not_authentic(sender("stranger", "worker-password"), b"") or "")
    assert "names no user" in (table.not_authentic(sender("", "worker-password"), b"") or "")
    table.update_user(UserInfo("worker", user_status="disable"))
    assert "disabled" in (table.not_authentic(sender("worker", "worker-password"), b"") or "")


def test_a_super_user_may_do_everything_and_another_what_his_policies_allow(table):
    assert table.not_authorized("root", HERE, SEND, lambda _: (need("Cluster:c", "Update"),)) is None
    assert table.not_authorized("worker", HERE, SEND, lambda _: (need("Topic:orders"),)) is None
    reason = table.not_authorized("worker", HERE, SEND, lambda _: (need("Topic:orders"), need("Topic:flights")))
    assert reason == "user worker has no permission to Pub Topic:flights from 10.1.2.3: no policy allows it"


def test_a_remembered_decision_ends_with_any_change(table):
    wanted = (need("Topic:flights"),)
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is not None
    table.update_acl("worker", [PolicyInfo(None, [PolicyEntryInfo("Topic:*", ["All"], None, "Allow")])])
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is None
    table.update_acl("worker", [PolicyInfo(None, [PolicyEntryInfo("Topic:flights", ["Pub"], None, "Deny")])])
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is not None
    table.delete_acl("worker", None, "Topic:flights")
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is None
    table.delete_acl("worker", None, "Topic:*")
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is not None
    table.update_user(UserInfo("worker", user_type="Super"))
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is None
    table.delete_user("worker")
    assert table.not_authorized("worker", HERE, SEND, lambda _: wanted) is not None


def test_a_decision_about_a_request_is_remembered_for_one_user_and_one_address(table):
    asked: list[str] = []

    def reason(username: str, host: str, key: object, name: str) -> str | None:
        return table.not_authorized(username, host, SEND, lambda _: (asked.append(name) or need(name),), lambda _: key)

    table.create_user(UserInfo("other", "other-password"))
    assert reason("worker", HERE, (310, "orders"), "Topic:orders") is None
    assert reason("worker", HERE, (310, "orders"), "Topic:orders") is None
    assert asked == ["Topic:orders"]
    assert reason("other", HERE, (310, "orders"), "Topic:orders") is not None
    assert reason("worker", "10.9.9.9", (310, "orders"), "Topic:orders") is None
    assert reason("worker", HERE, (310, "flights"), "Topic:flights") is not None
    assert reason("worker", HERE, (310, "flights"), "Topic:flights") is not None
    assert reason("worker", HERE, None, "Topic:orders") is None
    assert len(asked) == 6
    table.delete_acl("worker", None, "Topic:orders")
    assert reason("worker", HERE, (310, "orders"), "Topic:orders") is not None


def test_a_refused_change_leaves_everything_as_it_was(table):
    before = ([user.info().encode() for user in table.users()], [info.encode() for info in table.acls()])
    good = PolicyEntryInfo("Topic:flights", ["Pub"], None, "Allow")
    for change in (
        lambda: table.create_user(UserInfo("worker", "another")),
        lambda: table.create_user(UserInfo("new", " ")),
        lambda: table.create_user(UserInfo("new", "password", "King")),
        lambda: table.update_user(UserInfo("stranger", "x")),
        lambda: table.update_user(UserInfo("worker", "changed", user_status="asleep")),
        lambda: table.update_acl("stranger", [PolicyInfo("Custom", [good])]),
        lambda: table.update_acl("worker", []),
        lambda: table.update_acl("worker", [PolicyInfo("Custom", [good]), PolicyInfo("Custom", [])]),
        lambda: table.update_acl(
            "worker", [PolicyInfo("Custom", [good, PolicyEntryInfo("nonsense", ["Pub"], None, "Allow")])]
        ),
        lambda: table.delete_acl("root", None, None),
        lambda: table.delete_acl("worker", "Sometimes", "Topic:orders"),
    ):
        with pytest.raises(ConfigurationError):
            change()
    assert ([user.info().encode() for user in table.users()], [info.encode() for info in table.acls()]) == before


def test_one_resource_has_one_entry_and_the_last_policy_takes_the_subject_along(table):
    table.update_acl("worker", [PolicyInfo("Custom", [PolicyEntryInfo("Topic:orders", ["Get"], ["10.0.0.1"], "Deny")])])
    (info,) = table.acls()
    assert info.policies == [PolicyInfo("Custom", [PolicyEntryInfo("Topic:orders", ["Get"], ["10.0.0.1"], "Deny")])]
    table.delete_acl("worker", "custom", "Topic:orders")
    assert table.acls() == []
    assert table.acl("worker") is None


def test_lists_are_filtered_by_subject_and_resource(table):
    table.update_acl("worker", [PolicyInfo("Custom", [PolicyEntryInfo("Group:g", ["Sub"], None, "Allow")])])
    assert [user.username for user in table.users("oo")] == ["root"]
    assert table.acls("root") == []
    (info,) = table.acls("User:work", "Group")
    assert [e.resource for policy in info.policies or [] for e in policy.entries or []] == ["Group:g"]


@pytest.mark.parametrize("subject", ["worker", "Group:x", "User:", None, ""])
def test_a_subject_that_is_no_user_is_refused(subject):
    with pytest.raises(ConfigurationError, match="subject"):
        subject_name(subject)


def test_the_text_of_a_user_shows_no_password(table):
    assert "worker-password" not in repr(table.users()) + repr(UserInfo("worker", "worker-password"))


class Changes(RuleBasedStateMachine):
    """Whatever administrators do, the laws hold."""

    names = st.sampled_from(["a", "b", "c"])
    resources = st.sampled_from(["*", "Topic:*", "Topic:a", "Topic:a*", "Group:g", "nonsense"])
    kinds = st.sampled_from(["Custom", "Default", None, "Other"])

    def __init__(self) -> None:
        super().__init__()
        self.table = UserTable()

    def attempt(self, change: Any, *arguments: Any) -> None:
        with contextlib.suppress(ConfigurationError):
            change(*arguments)

    @rule(name=names, kind=st.sampled_from(["Super", "Normal", None, "King"]))
    def create(self, name: str, kind: str | None) -> None:
        self.attempt(self.table.create_user, UserInfo(name, "password", kind))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.table.delete_user(name)

    @rule(name=names, kind=kinds, resource=resources)
    def grant(self, name: str, kind: str | None, resource: str) -> None:
        entry = PolicyEntryInfo(resource, ["Pub"], None, "Allow")
        self.attempt(self.table.update_acl, name, [PolicyInfo(kind, [entry])])

    @rule(name=names, kind=kinds, resource=st.one_of(st.none(), resources))
    def revoke(self, name: str, kind: str | None, resource: str | None) -> None:
        self.attempt(self.table.delete_acl, name, kind, resource)

    @rule(name=names, key=st.sampled_from([None, (310, "a")]))
    def ask(self, name: str, key: object) -> None:
        remembered = self.table.not_authorized(name, HERE, SEND, lambda _: (need("Topic:a"),), lambda _: key)
        fresh = UserTable()
        fresh.load([user.info() for user in self.table.users()], self.table.acls())
        assert remembered == fresh.not_authorized(name, HERE, SEND, lambda _: (need("Topic:a"),))

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=examples(50), stateful_step_count=20)


def test_acls_travel_in_apache_s_shape():
    info = AclInfo("User:worker", [PolicyInfo("Custom", [PolicyEntryInfo("Topic:a", ["Pub"], None, "Allow")])])
    assert info.encode() == (
        b'{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:a"}],"policyType":"Custom"}],'
        b'"subject":"User:worker"}'
    )


def test_a_reply_needs_a_consumer_whom_no_policy_denies_it():
    wanted = Need("Topic", "DefaultCluster_REPLY_TOPIC", REPLY)
    assert acl(entry("Group:g", "Sub")).refusal(wanted, HERE) is None
    assert acl(entry("Topic:a", "Pub")).refusal(wanted, HERE)
    assert acl(entry("Topic:a", "Sub", "Allow", "10.9.9.9")).refusal(wanted, HERE), "a consumer from elsewhere"
    assert acl(entry("Topic:a", "Sub", "Deny")).refusal(wanted, HERE)
    denied = acl(entry("Group:g", "Sub"), entry("Topic:DefaultCluster_REPLY_TOPIC", "Pub", "Deny"))
    assert denied.refusal(wanted, HERE) is not None


def test_the_cache_of_decisions_of_an_account_is_bounded(table):
    table.update_acl("worker", [PolicyInfo("Custom", [PolicyEntryInfo("Topic:a*", ["Pub"], None, "Allow")])])
    for number in range(10_000):
        asked = lambda _, n=number: (need(f"Topic:a{n}"),)  # noqa: E731
        assert table.not_authorized("worker", HERE, SEND, asked, lambda _, n=number: (310, f"a{n}")) is None
        assert table.not_authorized("worker", HERE, SEND, lambda _, n=number: (need(f"Topic:b{n}"),)) is not None
    long = "a" + "x" * 1_000_000
    assert table.not_authorized("worker", HERE, SEND, lambda _: (need(f"Topic:{long}"),), lambda _: (310, long)) is None
    refused = table.not_authorized("worker", HERE, SEND, lambda _: (need("Topic:b" + "x" * 1_000_000),)) or ""
    assert len(refused) < 1_000
    assert len(table._allowed) <= 4_096
    assert max(len(one.name if isinstance(one, Need) else one[1]) for _, _, one in table._allowed) <= 255


@pytest.mark.parametrize("field", ["username", "password"])
def test_no_user_has_a_name_or_password_longer_than_any_text(table, field):
    long = {"username": "other", "password": "other-password", field: "x" * 1_025}
    for change in (table.create_user, table.update_user):
        with pytest.raises(ConfigurationError, match=field if change == table.create_user else f"{field}|exist"):
            change(UserInfo(**long))
    table.create_user(UserInfo(**{**long, field: "x" * 1_024}))
