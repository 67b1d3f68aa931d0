# SPDX-License-Identifier: Apache-2.0
"""SQL92 filters against Apache's own parser and evaluator, of both versions, on thousands of made-up cases."""

from __future__ import annotations

import json
from pathlib import Path

from interop.filter_cases import Case, interesting, random_cases
from interop.peers import APACHE_4, JavaProgram
from sprocketmq.core.sql92 import compile_sql92
from sprocketmq.errors import ConfigurationError

GOLDEN = Path(__file__).parent.parent / "golden" / "sql92.json"


def ours(case: Case, version: str) -> str:
    try:
        predicate = compile_sql92(case.sql, text_operators=version != APACHE_4)
    except ConfigurationError:
        return "R"
    return "T" if predicate(case.properties.encode()) else "F"


def apache(cases: list[Case], version: str, directory: Path) -> str:
    file = directory / "cases"
    file.write_text("".join(f"{case.line()}\n" for case in cases), "ascii")
    with JavaProgram(version, "FilterOracle", cases=str(file)) as program:
        return str(program.read_events("answers", 1)[0]["letters"])


def differences(cases: list[Case], answers: str, version: str) -> list[str]:
    assert len(answers) == len(cases)
    return [
        f"{case!r}: Apache {answer}, ours {mine}"
        for case, answer in zip(cases, answers, strict=True)
        if answer != (mine := ours(case, version))
    ]


def test_ours_refuses_and_matches_what_apache_does(java_peers, java_version, tmp_path):
    cases = random_cases(20_240_607, 12_000)
    answers = apache(cases, java_version, tmp_path)
    assert min(answers.count(letter) for letter in "RTF") > 800, "the cases are too much alike to prove anything"
    assert differences(cases, answers, java_version) == []


def test_the_frozen_answers_are_still_those_of_apache(java_peers, java_version, tmp_path):
    cases = list(interesting())
    answers = apache(cases, java_version, tmp_path)
    assert differences(cases, answers, java_version) == []
    frozen = json.loads(GOLDEN.read_text("utf-8"))
    assert frozen["cases"] == [list(case) for case in cases], "run this file as a program to freeze the cases anew"
    assert frozen["answers"][java_version] == answers


if __name__ == "__main__":
    import tempfile

    from interop.peers import VERSIONS

    frozen_cases = list(interesting())
    with tempfile.TemporaryDirectory() as scratch:
        found = {version: apache(frozen_cases, version, Path(scratch)) for version in VERSIONS}
    GOLDEN.write_text(
        json.dumps({"answers": found, "cases": frozen_cases}, ensure_ascii=True, indent=0) + "\n", "utf-8"
    )
    print(f"{len(frozen_cases)} cases frozen in {GOLDEN}")
