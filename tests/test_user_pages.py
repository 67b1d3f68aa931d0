# SPDX-License-Identifier: Apache-2.0
"""Pages for users say what is true: sentences of the program are its own, options and commands are there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import sprocketmq as rmq
from code_texts import OMITTED, not_in_the_code
from sprocketmq.broker import BrokerConfig
from sprocketmq.broker.settings.live_config import _OF_BROKER, _OF_STORE
from sprocketmq.client import keyword_options
from sprocketmq.spark.options.option_table import OPTIONS
from sprocketmq.spark.options.source_columns import COLUMNS
from walked_page import Walk, fences_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TROUBLES = DOCS / "troubleshooting.md"


def test_each_heading_of_troubleshooting_is_a_sentence_of_the_program() -> None:
    quoted = re.findall(r"^### `(.+)`$", TROUBLES.read_text("utf-8"), re.MULTILINE)
    assert len(quoted) >= 25
    assert not_in_the_code(quoted) == [], (
        "no text of src says this any more: change the heading of docs/troubleshooting.md"
    )


def test_a_sentence_that_the_program_does_not_say_is_found() -> None:
    quoted = [f"cannot connect to {OMITTED}; is a server listening there?", f"cannot reach {OMITTED}; try again"]
    assert not_in_the_code(quoted) == quoted[1:]


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name)
def test_the_first_page_shows_ten_lines_that_work(page: Path, tmp_path: Path) -> None:
    """Of the fences those that are programs or terminals; README's part for Spark is run by tests/system/spark/test_pages.py."""
    fences = [fence for fence in fences_of(page) if fence.saved_as or fence.language == "console"]
    (ten,) = (fence for fence in fences if fence.saved_as == "hello.py")
    assert len([line for line in ten.text.splitlines() if line]) <= 10
    with Walk(tmp_path) as reader:
        for fence in fences:
            reader.step(fence)


def test_options_that_the_page_on_performance_names_are_there() -> None:
    text = (DOCS / "performance.md").read_text("utf-8")
    kinds = (getattr(keyword_options, name) for name in keyword_options.__all__)
    listener = inspect.signature(rmq.PushConsumer.concurrent_listener).parameters
    ours = {name for kind in kinds for name in kind.__annotations__} | set(listener) | {row.name for row in OPTIONS}
    named = set(re.findall(r"`(\w+)=", text))
    assert len(named) >= 15
    assert named - ours == set()
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert len(rows) >= 4
    assert set(rows) - BrokerConfig.keys() == set()


@pytest.mark.parametrize(
    ("source", "page"),
    [("broker/observe/metrics.py", "broker.md"), ("client/metrics.py", "watching.md")],
)
def test_the_guide_names_every_metric(source: str, page: str) -> None:
    named = set(re.findall(r'"((?:sprocketmq|rocketmq)_\w+)"', (ROOT / "src/sprocketmq" / source).read_text("utf-8")))
    guide = (DOCS / "guides" / page).read_text("utf-8")
    assert named, "no metric was found"
    assert sorted(name for name in named if f"`{name}`" not in guide) == [], (
        f"docs/guides/{page} does not name these metrics"
    )


def test_the_guide_names_the_settings_that_change_while_a_broker_runs() -> None:
    guide = (DOCS / "guides/broker.md").read_text("utf-8")
    paragraph = guide.partition("These keys can change:")[2].partition("Any other key is refused")[0]
    named = set(re.findall(r"`(\w+)`", paragraph))
    assert named == _OF_BROKER | _OF_STORE, 'change the list under "Settings while running" in docs/guides/broker.md'


def test_the_page_names_every_column_of_the_source() -> None:
    section = (DOCS / "spark/index.md").read_text("utf-8").partition("## Columns of the source")[2]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)))
    assert named == list(COLUMNS), "the table in docs/spark/index.md needs a row for each column, in this order"
