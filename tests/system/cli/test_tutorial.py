"""docs/tutorial.md, walked word by word: what it says is saved, run, and printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from walked_page import Walk, fences_of

PAGE = Path(__file__).resolve().parents[3] / "docs/tutorial.md"
SPARK = "6. Read the orders as a table"
FENCES = fences_of(PAGE)


@pytest.mark.timeout(300)
def test_the_tutorial_as_far_as_spark(tmp_path: Path) -> None:
    with Walk(tmp_path) as reader:
        for fence in FENCES:
            if fence.section != SPARK:
                reader.step(fence)
    assert len(FENCES) > 15


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_whole_tutorial(tmp_path: Path) -> None:
    assert SPARK in {fence.section for fence in FENCES}
    with Walk(tmp_path) as reader:
        for fence in FENCES:
            reader.step(fence)
