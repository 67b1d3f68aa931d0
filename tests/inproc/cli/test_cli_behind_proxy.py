# SPDX-License-Identifier: Apache-2.0
"""Each command at a proxy: it works, or says in one sentence what the proxy does not serve, and changes nothing."""

from __future__ import annotations

import time

import pytest

from cli_run import commands
from proxy_shop import FAILS, WORKS

DEADLINE_S = 60
SEE_BELOW = {"group doctor"}
# They ask no server, start one, or are Spark's (tests/system/spark).
ELSEWHERE = {
    "run",
    "cluster",
    "cheat",
    "serve",
    "console",
    "namesrv",
    "handover",
    "demo",
    "store",
    "replay",
    "context",
    "completion",
    "version",
}
ELSEWHERE |= {"broker run", "settle", "merge-ledger", "spark-checkpoint"}


def test_each_command_is_in_a_table():
    every = {" ".join(words) for words, _ in commands()}
    local = {leaf for leaf in every if any(f"{leaf} ".startswith(f"{name} ") for name in ELSEWHERE)}
    shown = {leaf for leaf in every for command in (*WORKS, *FAILS) if f"{command} ".startswith(f"{leaf} ")}
    assert every - local == shown | SEE_BELOW
    assert not local & shown


@pytest.mark.parametrize("command", WORKS)
def test_it_works(shop, command):
    shop.check_works(command)


@pytest.mark.parametrize("command", FAILS)
def test_it_says_why_it_does_not(shop, command):
    before = shop.stored()
    shop.check_fails(command)
    assert shop.stored() == before


def test_what_is_known_of_a_group_that_is_not_online_there(shop):
    shown = shop.line.ok("group show idle --json")
    assert shown.json == {
        "group": "idle",
        "members": None,
        "message_model": None,
        "consume_type": None,
        "lag": None,
        "brokers": None,
        "topics": [],
    }
    assert "its settings cannot be shown: " in shown.err
    assert "its progress cannot be shown: " in shown.err
    elsewhere = f"is connected to the proxy at {shop.proxy_addr}, which does not see others"
    assert elsewhere in shop.line.ok("group members idle").err
    assert elsewhere in shop.line.ok("group stack idle").err
    doctor = shop.line.run("group doctor idle --watch-for 0s")
    assert (doctor.code, elsewhere in doctor.out) == (1, True)


def test_the_doctor_of_a_group_that_is_online(shop):
    deadline = time.monotonic() + DEADLINE_S
    while (doctor := shop.line.run("group doctor billing --watch-for 0s")).code:  # messages of other tests may wait
        assert time.monotonic() < deadline, doctor
    assert "  not known: whether the group may consume, and how many retries wait: the proxy at " in doctor.out
    assert " did not report its state: the proxy at " in doctor.out
