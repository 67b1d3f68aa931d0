# SPDX-License-Identifier: Apache-2.0
"""Every mqadmin command of each version that applies to one master and its name server prints the same at Apache's servers and at ours.

One JVM per version runs all commands, first against Apache, then against ours (`mqadmin_commands` says which, and which not and why).
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from interop.comparison import SETTINGS, Conversation
from interop.compatibility_page import PAGE, CommandRow, command_table, with_commands
from interop.compatibility_requests import GROUP, MEMBER, PRODUCERS, TOPIC
from interop.mqadmin_commands import COMMANDS, SKIPPED, Command
from interop.mqadmin_output import printed_lines
from interop.mqadmin_session import MqadminSession
from interop.peers import ALL_VERSIONS, ApacheCluster, Server, SprocketServer, poll_until
from interop.remoting import ask
from sprocketmq.wire.codes import RequestCode

WRITE = os.environ.get("SPROCKETMQ_WRITE_PAGE") == "1"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        bool(os.environ.get("SPROCKETMQ_INTEROP_SERVER")), reason="it compares our server with Apache's"
    ),
]

TOOLS: Final = ("tool-readers", "TOOLS_CONSUMER")
FAILED: Final = re.compile(r"Exception|CODE: ")


class Printed(NamedTuple):
    """One command at both servers."""

    command: Command
    theirs: str
    ours: str

    @property
    def difference(self) -> str:
        theirs, ours = (printed_lines(text, self.command.rates) for text in (self.theirs, self.ours))
        if self.command.fails:
            return ""
        lines = difflib.unified_diff(theirs, ours, "Apache", "ours", lineterm="", n=0)
        return "\n".join(lines)


class Found(NamedTuple):
    """What one version's tools found."""

    version: str
    printed: list[Printed]
    commands: list[str]


# A heartbeat that Apache's threads handle after the connection closed leaves its client behind; it is forgotten after 120 s.
_FORGOTTEN_S = 150.0


def _run_all(session: MqadminSession, server: Server, folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    made = {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG", "order": False}
    (folder / "topics.json").write_text(json.dumps([{**made, "topicName": "compared-listed"}]), "utf-8")
    (folder / "groups.json").write_text(json.dumps([{"groupName": "made-listed", "consumeEnable": True}]), "utf-8")
    with Conversation(server, session.version) as prepared:
        prepared.prepare()
        given = {"namesrv": server.namesrv_addr, "broker": server.broker_addr, "folder": str(folder), "topic": TOPIC}
        given.update(group=GROUP, producers=PRODUCERS, member=MEMBER, message=prepared.words["message_id"])
        for queue_id in "23":  # 4.9 resets only who has progress in every queue
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "commitOffset": "0"}
            assert ask(server.broker_addr, 15, fields).code == 0
        prepared.words.update(given, unique="7F0000010001" + "0" * 20)
        printed: list[str] = []
        last = "what came before"
        for command in COMMANDS:
            if session.version in command.versions:
                ended = f"mqadmin {session.version}: {server.broker_addr} knows that this one ended: {last}"
                poll_until(partial(_tools_are_gone, prepared, server.broker_addr), ended, _FORGOTTEN_S, 0.2)
                printed.append(session.run(*(prepared.filled(word) for word in command.words.split(" "))))
                last = command.words
        return printed


def _tools_are_gone(prepared: Conversation, broker_addr: str) -> bool:
    """Commands list clients; one that ended just now is none, and the one that stands by is one however long that takes."""
    prepared.stay()
    producers = ask(broker_addr, RequestCode.GET_ALL_PRODUCER_INFO).body
    readers = [ask(broker_addr, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": name}) for name in TOOLS]
    return b"CLIENT_INNER_PRODUCER" not in producers and all(answer.code for answer in readers)


def _found(session: MqadminSession, folder: Path) -> Found:
    asked = [command for command in COMMANDS if session.version in command.versions]
    with ApacheCluster(session.version, **SETTINGS) as apache:
        theirs = _run_all(session, apache, folder / "apache")
    with SprocketServer(**SETTINGS) as server:
        ours = _run_all(session, server, folder / "ours")
    printed = [Printed(*one) for one in zip(asked, theirs, ours, strict=True)]
    return Found(session.version, printed, session.commands())


Find = Callable[[str], Found]


@pytest.fixture(scope="module")
def find(tools: Callable[[str], MqadminSession], tmp_path_factory: pytest.TempPathFactory) -> Find:
    """All commands of a version, at Apache's servers and at ours, run when they are first asked for."""
    return cache(lambda version: _found(tools(version), tmp_path_factory.mktemp("mqadmin")))


@pytest.fixture(params=ALL_VERSIONS)
def found(request: pytest.FixtureRequest, find: Find) -> Found:
    return find(request.param)


def test_every_command_prints_what_it_prints_at_apaches_servers(found):
    unexplained = [
        f"{one.command.words}\n{one.difference}" for one in found.printed if one.difference and not one.command.reason
    ]
    assert not unexplained, "\n\n".join(unexplained)


def test_every_reason_still_explains_something(find):
    differing = {one.command for version in ALL_VERSIONS for one in find(version).printed if one.difference}
    assert not [command.words for command in COMMANDS if command.reason and command not in differing]


def test_a_command_that_works_at_apaches_works_at_ours(found):
    assert not [
        f"{one.command.words}\n{one.ours}" for one in found.printed if FAILED.search(one.ours) and not one.command.fails
    ]
    # Otherwise two failures would count as the same output.
    assert not [
        f"{one.command.words}\n{one.theirs}"
        for one in found.printed
        if bool(FAILED.search(one.theirs)) != bool(one.command.fails)
    ]


def test_every_command_there_is_was_run_or_is_left_out_for_a_reason(found):
    known = {command.name for command in COMMANDS} | SKIPPED.keys()
    assert not set(found.commands) - known


def test_the_page_tells_which_commands_work(find):
    before = PAGE.read_text("utf-8")
    now = with_commands(before, command_table(_rows({version: find(version) for version in ALL_VERSIONS})))
    if WRITE:
        PAGE.write_text(now, "utf-8")
    assert now == before or WRITE, (
        "docs/internals/compatibility.md tells something else; SPROCKETMQ_WRITE_PAGE=1 make interop writes it anew"
    )


def _rows(found: dict[str, Found]) -> list[CommandRow]:
    rows = []
    for name in sorted({name for here in found.values() for name in here.commands}):
        cells, reasons = {}, dict.fromkeys([SKIPPED[name]] if name in SKIPPED else [])
        for version, here in found.items():
            mine = [one for one in here.printed if one.command.name == name]
            if name in here.commands:
                cells[version] = _cell(mine)
            reasons.update(dict.fromkeys(one.command.reason for one in mine if one.difference and one.command.reason))
            reasons.update({one.command.fails: None for one in mine if one.command.fails})
        rows.append(CommandRow(name, cells, "; ".join(reasons)))
    return rows


def _cell(printed: list[Printed]) -> str:
    if not printed:
        return "not run"
    if all(one.command.fails for one in printed):
        return "fails at both"
    return "differs" if any(one.difference for one in printed) else "same"
