# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, walked word by word."""

from __future__ import annotations

from pathlib import Path

import pytest

from walked_page import Walk, fences_of

PAGE = Path(__file__).resolve().parents[3] / "docs/tutorial.md"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_tutorial_to_its_end(tmp_path: Path) -> None:
    fences = fences_of(PAGE)
    assert any("pyspark" in fence.text for fence in fences)
    with Walk(tmp_path) as reader:
        for fence in fences:
            reader.step(fence)
