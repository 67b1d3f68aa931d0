# SPDX-License-Identifier: Apache-2.0
"""Each form in which official clients send is answered, stored and delivered as by Apache's brokers. See ``sent_forms``.

Where the two generations of Apache differ, ours does as 5.4.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from interop.peers import APACHE_4, APACHE_5, VERSIONS, ApacheCluster, SprocketServer
from interop.remoting import create_topic, trusting_anybody
from interop.sent_forms import FORMS, TOPICS, Outcome, differences, look
from interop.shared_servers import FAST, SharedServers

Looks = Callable[[str], dict[str, Outcome]]


class Known(NamedTuple):
    """A difference that is there on purpose. ``where`` is a pattern for the form, ``what`` one for the difference."""

    version: str
    where: str
    what: str
    reason: str


KNOWN: Final = (
    Known(APACHE_5, "ROCKETMQ", r"answer type: 0, ours 1$", "we answer in the type of the request, 5.4.0 answers sends in its own"),
    Known(APACHE_4, "", r"only ours \('(MSG_REGION|TRACE_ON)'", "5.4.0 marks every message with them"),
    Known(APACHE_4, "forwarded", r"\('(MSG_REGION|TRACE_ON)', .*not ours", "5.4.0 puts its own over another broker's"),
    Known(APACHE_4, "", r"only ours \('WAIT'", "5.4.0 stores it"),
    Known(APACHE_4, "", r"answer transactionId: None", "5.4.0 answers with the UNIQ_KEY"),
    Known(APACHE_4, "", r"ends_in_separator: False, ours True", "5.4.0 writes the last separator"),
    Known(APACHE_4, "", r"\d+ properties, ours \d+$", "so the numbers differ"),
    Known(APACHE_4, "TRAN_MSG", r"only ours \('__transactionId__'", "5.4.0 notes it in a half message"),
    Known(APACHE_4, "TRAN_MSG", r"delivered 0: \('REAL_(TOPIC|QID)', .*not ours", "5.4.0 takes them out of a committed message"),
    Known(APACHE_4, "batch", r"\('(CLUSTER|UNIQ_KEY|WAIT|TAGS)', .*not ours", "5.4.0 stores a batch's messages as they came"),
    Known(APACHE_4, "batch", r"as_it_came", "5.4.0 stores a batch's messages as they came"),
    Known(APACHE_4, "reply", r"answer push properties", "5.4.0 marks every message with MSG_REGION and TRACE_ON"),
    Known(APACHE_4, "TIMER_DELIVER_MS", "", "4.9 has no timer messages"),
)  # fmt: skip


@pytest.fixture(scope="module")
def sprocket() -> Iterator[SprocketServer]:
    """Speaks TLS to who does."""
    tls: dict[str, Any] = {"tls.server.mode": "permissive", "tls.test.mode.enable": True}
    with SprocketServer(**tls, **FAST) as server:
        yield server


@pytest.fixture(scope="module")
def ours(sprocket: SprocketServer) -> dict[str, Outcome]:
    return _look(sprocket)


@pytest.fixture(scope="module")
def theirs(java_peers: None, shared_servers: SharedServers) -> Looks:
    """What a version's broker did; asked once."""
    return cache(lambda version: _look(shared_servers.apache(version)))


def _look(server: ApacheCluster | SprocketServer, address: str = "", **options: Any) -> dict[str, Outcome]:
    address = address or server.broker_addr
    for topic in TOPICS:
        create_topic(address, topic, 4)
    return look(address, **options)


def _all_unexplained(version: str, theirs: dict[str, Outcome], ours: dict[str, Outcome]) -> dict[str, list[str]]:
    found = {}
    for name, outcome in theirs.items():
        apart = differences(outcome, ours[name])
        if unexplained := [one for one in apart if not any(_explains(known, version, name, one) for known in KNOWN)]:
            found[name] = unexplained
    return found


def _explains(known: Known, version: str, name: str, difference: str) -> bool:
    return known.version == version and bool(re.search(known.where, name) and re.search(known.what, difference))


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("client", VERSIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_form_is_answered_stored_and_delivered_as_by_apache(theirs, ours, version, client, serialize):
    forms = {name: outcome for name, outcome in theirs(version).items() if name.startswith(f"{client} {serialize} ")}
    assert len(forms) > 20
    assert all(outcome.delivered or "push body" in outcome.answer for outcome in forms.values()), "nothing was compared"
    assert _all_unexplained(version, forms, ours) == {}


# -- what carries a request ---------------------------------------------------------------------------------------------------------

AT_ONCE: Final = tuple(form for form in FORMS if not form.later)


def test_over_tls_everything_is_as_by_apache(servers, sprocket):
    both = servers.apache(APACHE_5), sprocket
    theirs, ours = (_look(one, context=trusting_anybody(), forms=AT_ONCE) for one in both)
    assert _all_unexplained(APACHE_5, theirs, ours) == {}


@pytest.mark.nightly
def test_what_an_ipv6_client_sends_to_an_ipv4_broker_is_stored_as_by_apache_4(servers):
    """4.9.7 listens on all addresses, whatever it calls itself."""
    with SprocketServer(**FAST, bindAddress="::1", brokerIP1="127.0.0.1") as server:
        ours, theirs = (_look(one, f"::1:{_port(one)}", forms=AT_ONCE) for one in (server, servers.apache(APACHE_4)))
    assert {record.born_ip for outcome in ours.values() for record in outcome.delivered} == {"::1"}
    assert _all_unexplained(APACHE_4, theirs, ours) == {}


@pytest.mark.nightly
def test_a_broker_with_an_ipv6_address_stores_as_apache_5(java_peers):
    conf = {**FAST, "brokerIP1": "::1"}
    with SprocketServer(**conf, bindAddress="::1") as server:
        ours = _look(server, f"::1:{_port(server)}", forms=AT_ONCE)
    with ApacheCluster(APACHE_5, **conf, bindAddress="::") as apache:  # Java takes both families then
        theirs = _look(apache, f"::1:{_port(apache)}", forms=AT_ONCE)
    assert {(record.born_ip, record.store_ip) for outcome in ours.values() for record in outcome.delivered} == {
        ("::1", "::1")
    }
    assert _all_unexplained(APACHE_5, theirs, ours) == {}


def _port(server: ApacheCluster | SprocketServer) -> int:
    return int(server.broker_addr.rsplit(":", 1)[1])


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.version} {known.what}")
def test_every_known_difference_is_still_one(theirs, ours, known):
    assert any(
        _explains(known, known.version, name, one)
        for name, outcome in theirs(known.version).items()
        for one in differences(outcome, ours[name])
    )


@pytest.mark.nightly
def test_apache_4_gives_the_messages_of_a_batch_of_5_one_id_and_5_does_not(theirs, ours):
    """What all this began with; when it is no longer so, the decision can go."""
    (name,) = [form.name for form in FORMS if form.name == "5.4.0 JSON batch"]

    def ids(outcome: Outcome) -> list[str]:
        # Of two values of a name the last counts (Java: MessageDecoder.string2messageProperties).
        texts = [record.as_it_came or b"" for record in outcome.delivered]
        return [re.findall(rb"UNIQ_KEY\x01([^\x02]*)", text)[-1].decode() for text in texts]

    assert len(set(ids(theirs(APACHE_4)[name]))) == 1
    assert len(set(ids(theirs(APACHE_5)[name]))) == len(ids(ours[name])) > 1
    assert ids(ours[name]) == ids(theirs(APACHE_5)[name])
