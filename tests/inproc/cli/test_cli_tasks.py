# SPDX-License-Identifier: Apache-2.0
"""The 25 tasks at our own servers, and the guide that prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_tasks import TASKS, Story
from sprocketmq.testing import EmbeddedRocketMQ

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/command-line.md"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with EmbeddedRocketMQ(clock="system", messageDelayLevel="1s 5s 10s") as mq:
        story = Story(mq.namesrv_addr, "ours", tmp_path_factory.mktemp("tasks"))
        with story.told():
            yield story


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.wish)
def test_a_task_is_one_line(task, story):
    story.do(task)


def test_there_are_twenty_five_and_the_guide_prints_each_with_its_command():
    rows = re.findall(
        r"^\| (\d+) \| (.+?) \| `sprocketmq (.+?)` \|$", GUIDE.read_text("utf-8").replace("\\|", "|"), re.MULTILINE
    )
    assert [(int(number), wish, command) for number, wish, command in rows] == [
        (number, task.wish, task.command) for number, task in enumerate(TASKS, 1)
    ]
    assert len(TASKS) == 25
