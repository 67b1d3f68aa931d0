# SPDX-License-Identifier: Apache-2.0
"""Programs of the pages for those who come from other clients: ours are run and print what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sprocketmq.testing import EmbeddedRocketMQ
from walked_page import Walk, fences_of

PAGES = sorted((Path(__file__).resolve().parents[3] / "docs/migrate").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of_a_page_do_what_it_says(page, tmp_path):
    with EmbeddedRocketMQ(clock="system") as mq, Walk(tmp_path, mq.namesrv_addr.rpartition(":")[2]) as reader:
        for fence in fences_of(page):
            reader.step(fence)


def test_there_are_three():
    assert len(PAGES) == 3
