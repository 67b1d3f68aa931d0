# SPDX-License-Identifier: Apache-2.0
"""Each change of the console has its command, and each command that changes a cluster is in the console or listed as not there."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.routing import Route

from cli_run import commands
from sprocketmq.console.app import make_app

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "console.md"
COMMANDS = {
    "/topic/send": "send",
    "/topic/create": "topic create",
    "/group/create": "group create",
    "/group/reset": "group reset",
    "/group/enable": "group alter",
    "/dead-letters/replay": "dead-letters replay",
}
NO_CHANGES = {"/sign-in", "/sign-out"}


def test_changes_of_the_console_have_commands_and_the_other_way_round(console):
    routes = make_app(console.server._parts).routes
    posts = {one.path for one in routes if isinstance(one, Route) and "POST" in (one.methods or ())}
    assert posts == COMMANDS.keys() | NO_CHANGES, "give each its command, in COMMANDS and in docs/guides/console.md"
    section = PAGE.read_text("utf-8").partition("## Changes, and their commands")[2].partition("\n## ")[0]
    table, _, others = section.partition("Only on the command line")
    told = sorted(re.findall(r"`sprocketmq ([^`]+)` \|", table))
    assert told == sorted(COMMANDS.values()), "the table of changes in docs/guides/console.md"
    changing = {" ".join(words) for words, one in commands() if any("--dry-run" in param.opts for param in one.params)}
    listed = set(re.findall(r"`([a-z -]+)`", others))
    assert changing | {"send"} == set(COMMANDS.values()) | listed, (
        'name each command that is not in the console under "Only on the command line" in docs/guides/console.md'
    )
