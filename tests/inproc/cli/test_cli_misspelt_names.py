# SPDX-License-Identifier: Apache-2.0
"""A misspelt topic or group: each command names the one that was meant, and no code of the protocol."""

from __future__ import annotations

import pytest

from cli_run import CommandLine

OF_A_TOPIC = (
    *("topic show NAME", "topic alter NAME --queues 2", "topic perm NAME r", "topic delete NAME --yes", "tail NAME"),
    *(
        "message find NAME --key k",
        "message show C0000264 --topic NAME",
        "lag baristas --topic NAME",
        "group list --topic NAME",
    ),
    "group reset baristas --topic NAME --to 5m --yes",
)
OF_A_GROUP = (
    *(
        "lag NAME",
        "lag NAME --topic orders",
        "group show NAME",
        "group doctor NAME",
        "group members NAME",
        "group stack NAME",
    ),
    *("group alter NAME --disable", "group delete NAME --yes", "group reset NAME --topic orders --to 5m --yes"),
    *("group clone NAME other --yes", "dead-letters list NAME"),
)


@pytest.fixture(scope="module")
def names(line: CommandLine) -> None:
    line.ok("topic create orders")
    line.ok("group create baristas")


@pytest.mark.parametrize("command", OF_A_TOPIC)
def test_the_topic_that_was_meant_is_named(line, names, command):
    ended = line.run(command.replace("NAME", "order"))
    assert (ended.code, ended.err) == (1, "sprocketmq: topic 'order' does not exist; did you mean 'orders'?\n")


@pytest.mark.parametrize("command", OF_A_GROUP)
def test_the_group_that_was_meant_is_named(line, names, command):
    ended = line.run(command.replace("NAME", "barista"))
    assert ended.code == 1
    assert ended.err == "sprocketmq: no broker knows the consumer group 'barista'; did you mean 'baristas'?\n"


def test_a_name_that_is_like_no_other_gets_no_hint(line, names):
    assert line.run("topic show weather").err == "sprocketmq: topic 'weather' does not exist\n"
    assert "did you mean" not in line.run("lag weather").err
