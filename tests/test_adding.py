# SPDX-License-Identifier: Apache-2.0
"""How many files an addition touches (docs/adding.md): each kind is made in a copy of the sources, used, and its files are counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from additions import ADDITIONS, PACKAGE, ROOT, Addition, added, run

PAGE = ROOT / "docs/adding.md"


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda one: one.name)
def test_an_addition_works_and_touches_few_files(addition: Addition, tmp_path: Path) -> None:
    folder = added(addition, tmp_path / "copy")
    (tmp_path / "copy/proof.py").write_text(addition.proof, "utf-8")
    run(folder, "proof.py")
    assert len(addition.files) <= addition.most_files


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda one: one.name)
def test_the_proof_of_an_addition_fails_without_it(addition: Addition, tmp_path: Path) -> None:
    """Else a proof would prove nothing."""
    folder = added(Addition(addition.name, 0, (), "", addition.scripts), tmp_path / "copy")
    (tmp_path / "copy/proof.py").write_text(addition.proof, "utf-8")
    with pytest.raises(AssertionError):
        run(folder, "proof.py")


def test_the_page_names_the_files_of_each_addition_and_their_number() -> None:
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (.+?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    told = {name: (int(now), set(re.findall(r"`([^`]+\.py)`", files))) for name, _, now, files in rows}
    assert told == {one.name: (len(one.files), set(one.files)) for one in ADDITIONS}
    for one in ADDITIONS:
        assert [path for path in one.files if not (ROOT / PACKAGE / path).exists()] in (
            [],
            ["cli/commands/clusters.py"],
        )


@pytest.mark.parametrize(
    ("source", "page"),
    [("broker/observe/metrics.py", "broker.md"), ("client/metrics.py", "watching.md")],
)
def test_the_guide_names_every_metric(source: str, page: str) -> None:
    named = set(re.findall(r'"((?:sprocketmq|rocketmq)_\w+)"', (ROOT / PACKAGE / source).read_text("utf-8")))
    guide = (ROOT / "docs/guides" / page).read_text("utf-8")
    assert named, "no metric was found"
    assert sorted(name for name in named if f"`{name}`" not in guide) == []
