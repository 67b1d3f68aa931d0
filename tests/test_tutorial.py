# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, walked word by word. Its last part, with Spark, is walked by tests/system/spark/test_tutorial_table.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from walked_page import Walk, fences_of

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs/tutorial.md"
SPARK = "6. Read the orders as a table"


@pytest.mark.timeout(300)
def test_the_tutorial_as_far_as_spark(tmp_path: Path) -> None:
    fences = fences_of(PAGE)
    with Walk(tmp_path) as reader:
        for fence in fences:
            if fence.section != SPARK:
                reader.step(fence)
    assert len(fences) > 15
