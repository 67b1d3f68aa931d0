# SPDX-License-Identifier: Apache-2.0
"""Requests are declared once, and whole: what follows from a declaration can only be right if the declaration is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from sprocketmq.broker import Broker, NameServer
from sprocketmq.broker.security.name_checks import NAMES, TEXTS, refusal_of_names
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.access import AddressNeed, FieldNeed, ReplyNeed
from sprocketmq.wire.requests.declaration import Peer, Request

ROOT = Path(__file__).resolve().parents[4]
# Ours alone: Apache's servers do not know it, so nothing can be compared.
OURS = range(30_001, 40_000)
# Texts that name nothing: values, filters, addresses and ids, each read by its own handler; lists of names, which are taken apart first.
# bname is the broker that a sender chose, and nothing here reads it.
NO_NAMES = frozenset(
    (
        "accessKey", "aclFileFullPath", "attributes", "boundaryType", "brokerAddr", "clientAddr", "dataVersion", "defaultGroupPerm",
        "defaultTopicPerm", "expressionType", "filter", "filterGroups", "globalWhiteAddrs", "groupPerms", "haServerAddr", "i", "indexType",
        "masterAddress", "masterHaAddress", "msgId", "n", "originMsgId", "policyType", "properties", "proxyFrowardClientId", "recallHandle",
        "resource", "resourceFilter", "secretKey", "step", "subject", "subjectFilter", "subscription", "topicFilterType", "topicList",
        "topicPerms", "transactionId", "value", "whiteRemoteAddress",
    )
)  # fmt: skip
SERVED = [one for one in requests.declared() if one.served_by & (Peer.BROKER | Peer.NAME_SERVER)]


def test_every_code_is_declared_once_under_its_own_name():
    names = [
        (name, one.name)
        for family in requests.FAMILIES
        for name, one in vars(getattr(requests, family)).items()
        if isinstance(one, Request)
    ]
    assert [declared for name, declared in names if name != declared] == []
    undeclared = sorted(set(RequestCode.__members__).difference(declared for _, declared in names))
    assert undeclared == [], "declare them in wire/requests, or delete their numbers"
    assert [one.code for one in requests.declared()] == sorted(RequestCode)


@pytest.mark.parametrize("one", requests.declared(), ids=lambda one: one.name)
def test_a_need_names_a_field_that_the_header_has(one):
    assert one.access is not None
    fields = () if one.header is None else one.header.__struct_encode_fields__
    for need in one.access:
        if isinstance(need, FieldNeed | ReplyNeed):
            assert need.field in fields, need.field


@pytest.mark.parametrize("one", requests.declared(), ids=lambda one: one.name)
def test_accounts_are_of_brokers_and_addresses_of_name_servers(one):
    of_addresses = [isinstance(need, AddressNeed) for need in one.access or ()]
    assert all(of_addresses) if Peer.NAME_SERVER in one.served_by else not any(of_addresses)
    if Peer.NAME_SERVER in one.served_by:
        assert of_addresses, "whether it changes anything is not said"


def text_fields(one: Request[Any, Any, Any]) -> list[str]:
    """The header's fields that are texts, by their names on the wire."""
    if one.header is None:
        return []
    types = get_type_hints(one.header)
    fields = zip(one.header.__struct_fields__, one.header.__struct_encode_fields__, strict=True)
    return [wire for field, wire in fields if str in (types[field], *get_args(types[field]))]


@pytest.mark.parametrize("one", SERVED, ids=lambda one: one.name)
def test_each_text_of_a_header_is_looked_at_before_its_handler_or_known_to_name_nothing(one):
    for field in text_fields(one):
        answer = refusal_of_names(Command(one.code, ext_fields={field: "a\nb"}))
        assert (answer is not None) is (field not in NO_NAMES), (
            f"{field}: if it names something, list it in broker/security/name_checks.py, else in NO_NAMES of this test"
        )
        if field in NAMES:
            assert refusal_of_names(Command(one.code, ext_fields={field: "../x"})) is not None, field


def test_the_lists_of_fields_hold_nothing_that_no_header_has():
    known = {field for one in SERVED for field in text_fields(one)}
    assert sorted((NAMES | TEXTS | NO_NAMES) - known) == []


def test_a_server_has_a_handler_for_what_it_serves_and_for_nothing_else():
    for peer in (Peer.BROKER, Peer.NAME_SERVER):
        codes = {int(one.code) for one in requests.served_by(peer)}
        requests.check_handlers(peer, codes)
        with pytest.raises(ConfigurationError, match="request codes 4711 have a handler and no declaration"):
            requests.check_handlers(peer, codes | {4711})
        with pytest.raises(ConfigurationError, match=f"request codes {min(codes)} are declared and have no handler"):
            requests.check_handlers(peer, codes - {min(codes)})


@pytest.mark.parametrize(("start", "code"), [(Broker, 26), (NameServer, 105)])
def test_no_server_starts_with_a_request_that_does_not_say_what_it_needs(monkeypatch, start, code):
    known = requests.declared()
    forgotten = tuple(
        Request(code=one.code, served_by=one.served_by, header=one.header) if one.code == code else one for one in known
    )
    monkeypatch.setattr(requests, "declared", lambda: forgotten)
    with pytest.raises(ConfigurationError, match=f"request codes {code} have no stated need"):
        start(port=0)


@pytest.mark.parametrize(
    ("title", "peer"),
    [
        ("Requests to a broker", Peer.BROKER),
        ("Requests to a name server", Peer.NAME_SERVER),
        ("Requests of a broker to its clients", Peer.CLIENT),
    ],
)
def test_the_page_on_compatibility_has_a_row_for_each_request_and_no_other(title, peer):
    page = (ROOT / "docs/internals/compatibility.md").read_text("utf-8")
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", section, re.MULTILINE)
    assert rows == [(str(int(one.code)), one.name) for one in requests.served_by(peer) if one.code not in OURS], (
        "add the request to tests/interop/compatibility_requests.py; `SPROCKETMQ_WRITE_PAGE=1 make interop` writes its row"
    )
