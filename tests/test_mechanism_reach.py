# SPDX-License-Identifier: Apache-2.0
"""What `make mechanisms` goes by: each mechanism has statements that must run, and only tests of the public API are run for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.page import MECHANISMS
from mechanisms.public_face import ROOT, WHOLE, Source, scenarios
from mechanisms.reach import BARRIERS, anchors_of, unreached
from mutants.all_mutants import MUTANTS

pytestmark = pytest.mark.slow

PUBLIC = """
import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

def test_it(rocketmq: EmbeddedRocketMQ) -> None:
    with rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"x"))
"""
BEHIND = {
    "a module behind it": "from sprocketmq.client.consume.rebalancer import Rebalancer\ndef test_it(): Rebalancer",
    "a module as a name": "from sprocketmq.client import rebalancer\ndef test_it(): rebalancer",
    "a private attribute": "def test_it(consumer): consumer._async",
    "by a function beside it": "def peek(consumer): return consumer._async\ndef test_it(consumer): peek(consumer)",
    "by a constant beside it": "from sprocketmq.core.coalesced_runs import CoalescedRuns\nPACE = CoalescedRuns(1)\ndef test_it(): PACE",
    "by a fixture of its own": "import pytest\n@pytest.fixture\ndef peek(consumer): return consumer._async\ndef test_it(peek): peek",
}


def test_each_mechanism_has_statements_that_have_to_run() -> None:
    anchors = {mechanism.what: anchors_of(mechanism, MUTANTS) for mechanism in MECHANISMS}
    assert [what for what, found in anchors.items() if not found] == []
    assert [anchor.what for found in anchors.values() for anchor in found if not anchor.places] == []
    assert {anchor.what for found in anchors.values() for anchor in found} >= BARRIERS


def test_a_mechanism_is_reached_when_a_statement_of_each_mutant_has_run() -> None:
    mechanism = next(mechanism for mechanism in MECHANISMS if len(anchors_of(mechanism, MUTANTS)) == 2)
    first, second = anchors_of(mechanism, MUTANTS)
    assert unreached(mechanism, MUTANTS, {}) == [first, second]
    lines: dict[str, set[int]] = {}
    for anchor in (first, second):
        file, _, last = anchor.places[-1]
        lines.setdefault(file, set()).add(last)
    assert unreached(mechanism, MUTANTS, lines) == []


def test_an_ordinary_test_uses_the_public_face(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PUBLIC)
    assert not Source(tmp_path / "test_it.py").uses_internals("test_it")


@pytest.mark.parametrize("how", BEHIND)
def test_a_test_that_uses_internals_does_not_count(tmp_path: Path, how: str) -> None:
    (tmp_path / "test_it.py").write_text(BEHIND[how])
    assert Source(tmp_path / "test_it.py").uses_internals("test_it")


def test_fixtures_and_modules_beside_a_test_count_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def peek(consumer): return consumer._async")
    (tmp_path / "beside.py").write_text("from sprocketmq.core.coalesced_runs import CoalescedRuns")
    (tmp_path / "test_it.py").write_text(
        "from beside import CoalescedRuns\ndef test_a(peek): peek\ndef test_b(): CoalescedRuns\ndef test_c(): 1"
    )
    source = Source(tmp_path / "test_it.py")
    assert [name for name in source.tops if source.uses_internals(name)] == ["test_a", "test_b"]


def test_the_tests_of_the_public_face_are_there_and_many() -> None:
    tests = scenarios(MECHANISMS)
    assert len(tests) > 100
    files = {test.partition("::")[0].removeprefix("tests/") for test in tests}
    assert files >= WHOLE
    assert all((ROOT / "tests" / file).is_file() for file in files)
