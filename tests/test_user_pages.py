"""Pages for users say what is true: sentences of the program are its own, options and commands are there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import sprocketmq as rmq
from code_texts import OMITTED, not_in_the_code
from sprocketmq.broker import BrokerConfig
from sprocketmq.client import keyword_options
from sprocketmq.spark.options.option_table import OPTIONS

DOCS = Path(__file__).resolve().parents[1] / "docs"
TROUBLES = DOCS / "troubleshooting.md"


def test_each_heading_of_troubleshooting_is_a_sentence_of_the_program() -> None:
    quoted = re.findall(r"^### `(.+)`$", TROUBLES.read_text("utf-8"), re.MULTILINE)
    assert len(quoted) >= 25
    assert not_in_the_code(quoted) == []


def test_a_sentence_that_the_program_does_not_say_is_found() -> None:
    quoted = [f"cannot connect to {OMITTED}; is a server listening there?", f"cannot reach {OMITTED}; try again"]
    assert not_in_the_code(quoted) == quoted[1:]


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
