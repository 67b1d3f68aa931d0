# SPDX-License-Identifier: Apache-2.0
"""docs/guides/replay.md shows what its example's record really says; SPROCKETMQ_WRITE_PAGE=1 writes the page anew."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from sprocketmq.cli.main import app

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/guides/replay.md"
BLOCK = re.compile(r"^```console\n\$ sprocketmq (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)
# What is another in each run: ids, times of day, and spans that a busy machine draws out by a step of the clock.
VARYING = re.compile(
    r"[0-9A-F]{32}|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d\.\d{3}|\d+ min \d+ s|\d+\.\d s|\d+ ms|\S+@\S+#\d+|\d+ decisions|SprocketMQ \S+"
)


def test_the_guides_case_is_what_its_example_records(tmp_path, monkeypatch):
    example = [sys.executable, str(ROOT / "examples/replay_a_stuck_message.py"), "stuck.jsonl"]
    done = subprocess.run(
        example, cwd=tmp_path, env={**os.environ, "TZ": "UTC"}, text=True, capture_output=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    outputs = [said(block["command"]) for block in BLOCK.finditer(page)]
    assert len(outputs) == 3
    if os.environ.get("SPROCKETMQ_WRITE_PAGE"):
        rest = iter(outputs)
        PAGE.write_text(BLOCK.sub(lambda block: f"```console\n$ sprocketmq {block['command']}\n{next(rest)}```", page))
        page = PAGE.read_text()
    for block, output in zip(BLOCK.finditer(page), outputs, strict=True):
        assert VARYING.sub("~", block["output"]) == VARYING.sub("~", output), block["command"]


def said(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    return result.output
