# SPDX-License-Identifier: Apache-2.0
"""Every request code that Apache's servers know: the same requests to Apache 4.9.7, 5.4.0, 5.5.0 and to ours get the same answers, or
`known_differences` says why not. What was found is docs/compatibility.md."""

from __future__ import annotations

import os
import re

import pytest

from interop.answer_shape import CLOSED, SILENT, shape_of
from interop.comparison import SETTINGS, Compared, Seen, compared, look
from interop.compatibility_page import PAGE, Judged, judged, sections, with_requests
from interop.known_differences import KNOWN, NOT_SERVED
from interop.peers import ALL_VERSIONS, APACHE_5, ApacheCluster, SprocketServer
from interop.remoting import Answer, ask

WRITE = os.environ.get("SPROCKETMQ_WRITE_PAGE") == "1"

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("SPROCKETMQ_INTEROP_SERVER")), reason="it compares our server with Apache's"
)


def _answer(code: int, body: str, **fields: str) -> Answer:
    return Answer({"code": code, "extFields": fields, "remark": None}, body.encode())


def test_apaches_three_dialects_of_json_have_one_shape() -> None:
    plain = _answer(0, '{"table":{"0":"a"},"more":[{"n":1},{"n":2}]}')
    bare = _answer(0, '{"more":[{"n":7}],"table":{0:"b"}}')
    assert shape_of(plain) == shape_of(bare)
    assert shape_of(_answer(0, '{{"queueId":0,"topic":"t"}:5}')).body == {'{"queueId": 0, "topic": "t"}': "number"}


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (_answer(1, '{"a":1}', offset="3"), "code 0, ours 1"),
        (_answer(0, '{"a":1}', offset="4"), "offset=3, ours 4"),
        (_answer(0, '{"a":"1"}', offset="3"), 'body a "number", ours "text"'),
        (_answer(0, '{"a":1,"b":2}', offset="3"), "body b only ours"),
        (_answer(0, "", offset="3"), 'body all {"a": "number"}, ours null'),
    ],
    ids=["code", "field", "type", "key", "body"],
)
def test_what_is_not_the_same_is_seen(ours: Answer, words: str) -> None:
    assert shape_of(_answer(0, '{"a":1}', offset="3")).differs_in(shape_of(ours)) == words


def _both(version: str) -> list[Compared]:
    with SprocketServer(**SETTINGS) as ours:
        mine = look(ours, version, watch_state=True)
    with ApacheCluster(version, **SETTINGS) as apache:
        theirs = look(apache, version, watch_state=False)
    return compared(theirs, mine)


@pytest.fixture(scope="module")
def found(java_peers: None) -> dict[str, list[Judged]]:
    """All comparisons of all versions, one Apache cluster after the other."""
    newer = _both(APACHE_5)
    as_5 = {one.asked.key: one for one in newer}
    found = {version: newer if version == APACHE_5 else _both(version) for version in ALL_VERSIONS}
    return {version: judged(version, all_of, as_5) for version, all_of in found.items()}


def _ours(found: dict[str, list[Judged]]) -> list[Seen]:
    return [one.compared.ours for all_of in found.values() for one in all_of if one.compared.asked.to != "client"]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_answer_is_apaches_or_differs_for_a_reason(found: dict[str, list[Judged]], version: str) -> None:
    unexplained = [
        f"{one.compared.asked.key}: {one.compared.difference} (ours says {one.compared.ours.remark!r})"
        for one in found[version]
        if one.reason is None
    ]
    assert not unexplained, f"{len(unexplained)} answers are not {version}'s:\n" + "\n".join(unexplained)


def test_every_reason_still_explains_something(found: dict[str, list[Judged]]) -> None:
    used = {one.reason for all_of in found.values() for one in all_of}
    assert not [known for known in KNOWN if known.reason not in used]


def test_refused_requests_change_nothing(found: dict[str, list[Judged]]) -> None:
    assert not [f"{seen.asked.key}: {seen.changed}" for seen in _ours(found) if seen.changed]


def test_a_refusal_is_one_sentence(found: dict[str, list[Judged]]) -> None:
    wordless = [seen.asked.key for seen in _ours(found) if seen.shape.code > 0 and not seen.remark]
    traced = [seen.asked.key for seen in _ours(found) if re.search(r"\n|Traceback|Exception|Error:", seen.remark)]
    assert not wordless
    assert not traced


def test_no_request_goes_unanswered_or_costs_its_connection(found: dict[str, list[Judged]]) -> None:
    lost = [seen.asked.key for seen in _ours(found) if seen.shape.code in (SILENT, CLOSED)]
    # That the sender does not know yet how its transaction ends is never answered.
    assert lost == []


def test_codes_that_are_not_served_are_answered_with_code_3(java_peers: None) -> None:
    with SprocketServer() as ours:
        assert {ask(ours.broker_addr, known.code).code for known in NOT_SERVED} == {3}


def test_the_page_is_what_was_found(found: dict[str, list[Judged]]) -> None:
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    now = with_requests(before, sections(found))
    if WRITE:
        PAGE.write_text(now, "utf-8")
    assert now == before or WRITE, (
        "docs/compatibility.md tells something else; SPROCKETMQ_WRITE_PAGE=1 make interop writes it anew"
    )
