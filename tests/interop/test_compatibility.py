# SPDX-License-Identifier: Apache-2.0
"""Every request code that Apache's servers know: the same requests to Apache 4.9.7, 5.4.0, 5.5.0 and to ours get the same answers, or
`known_differences` says why not. What was found is docs/internals/compatibility.md."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from interop.answer_shape import CLOSED, SILENT
from interop.comparison import SETTINGS, Compared, Seen, compared, look
from interop.compatibility_page import PAGE, Judged, judged, sections, with_requests
from interop.compatibility_requests import asked_in_order
from interop.known_differences import KNOWN, NOT_SERVED
from interop.peers import ALL_VERSIONS, APACHE_5, ApacheCluster, SprocketServer
from interop.remoting import ask
from sprocketmq.wire.codes import RequestCode

WRITE = os.environ.get("SPROCKETMQ_WRITE_PAGE") == "1"

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("SPROCKETMQ_INTEROP_SERVER")), reason="it compares our server with Apache's"
)


def _both(version: str) -> list[Compared]:
    def mine() -> list[Seen]:
        with SprocketServer(**SETTINGS) as ours:
            return look(ours, version, watch_state=True)

    def theirs() -> list[Seen]:
        with ApacheCluster(version, **SETTINGS) as apache:
            return look(apache, version, watch_state=False)

    with ThreadPoolExecutor() as at_once:
        looks = [at_once.submit(theirs), at_once.submit(mine)]
    return compared(*(each.result() for each in looks))


Found = Callable[[str], list[Judged]]


@pytest.fixture(scope="module")
def found(java_peers: None) -> Found:
    """All comparisons with a version, made when they are first asked for."""
    both = cache(_both)
    return cache(lambda version: judged(version, both(version), {one.asked.key: one for one in both(APACHE_5)}))


@pytest.fixture(params=ALL_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ours(found: Found, version: str) -> list[Seen]:
    return [one.compared.ours for one in found(version) if one.compared.asked.to != "client"]


def test_every_answer_is_apaches_or_differs_for_a_reason(found, version):
    unexplained = [
        f"{one.compared.asked.key}: {one.compared.difference} (ours says {one.compared.ours.remark!r})"
        for one in found(version)
        if one.reason is None
    ]
    assert not unexplained, f"{len(unexplained)} answers are not {version}'s:\n" + "\n".join(unexplained)


@pytest.mark.nightly
def test_every_reason_still_explains_something(found):
    used = {one.reason for version in ALL_VERSIONS for one in found(version)}
    assert not [known for known in KNOWN if known.reason not in used]


def test_every_request_code_there_is_was_compared_or_is_not_served_for_a_reason(tools, version):
    compared = {asked.code for asked in asked_in_order(version)} | {39, 40, 220, 221, 326}
    known = compared | {known.code for known in NOT_SERVED}
    theirs = tools(version).request_codes()
    assert not {name: code for name, code in theirs.items() if code not in known}
    ours = {code.name: int(code) for code in RequestCode}
    assert not {name: code for name, code in theirs.items() if ours.get(name, code) != code}


def test_refused_requests_change_nothing(ours):
    assert not [f"{seen.asked.key}: {seen.changed}" for seen in ours if seen.changed]


def test_a_refusal_is_one_sentence(ours):
    wordless = [seen.asked.key for seen in ours if seen.shape.code > 0 and not seen.remark]
    traced = [seen.asked.key for seen in ours if re.search(r"\n|Traceback|Exception|Error:", seen.remark)]
    assert not wordless
    assert not traced


def test_no_request_goes_unanswered_or_costs_its_connection(ours):
    lost = [seen.asked.key for seen in ours if seen.shape.code in (SILENT, CLOSED)]
    # That the sender does not know yet how its transaction ends is never answered.
    assert lost == []


def test_codes_that_are_not_served_are_answered_with_code_3(java_peers):
    with SprocketServer() as ours:
        assert {ask(ours.broker_addr, known.code).code for known in NOT_SERVED} == {3}


@pytest.mark.nightly
def test_the_page_is_what_was_found(found):
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    now = with_requests(before, sections({version: found(version) for version in ALL_VERSIONS}))
    if WRITE:
        PAGE.write_text(now, "utf-8")
    assert now == before or WRITE, (
        "docs/internals/compatibility.md tells something else; SPROCKETMQ_WRITE_PAGE=1 make interop writes it anew"
    )
