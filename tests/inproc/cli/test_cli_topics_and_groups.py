# SPDX-License-Identifier: Apache-2.0
"""``topic``, ``group`` and ``lag`` beyond the 25 tasks: what a dry run leaves alone, what is refused, what JSON says, exit codes."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from sprocketmq.cli.frame.target import _NAMES
from sprocketmq.cli.main import _BEFORE, app
from sprocketmq.testing import EmbeddedRocketMQ


def send(server: EmbeddedRocketMQ, topic: str, count: int) -> None:
    with server.producer() as producer:
        for number in range(count):
            producer.send(rmq.Message(topic, b"%d" % number))


def test_a_mistake_of_usage_changes_nothing(line):
    line.ok("topic create twice")
    line.ok("group create twice")
    for command, said in (
        ("topic create twice", "exists already; sprocketmq topic alter changes it"),
        ("group create twice", "exists already; sprocketmq group alter changes it"),
        ("topic create 'no name'", "has characters that are not allowed"),
        ("topic alter twice", "nothing to change is given"),
        ("group alter twice", "nothing to change is given"),
        ("topic create x --broker broker-z", "broker 'broker-z' is unknown"),
        ("group reset twice --topic twice --yes", "no new offset is given"),
        ("group reset twice --topic twice --to earliest --offset 3 --yes", "no new offset is given"),
        ("group reset twice --topic twice --queue broker-a/0 --offset 1 --yes", "ends at 0; 0 to 0 are allowed"),
        ("topic delete twice", "nothing was changed, because stdin is no terminal and --yes is not given"),
    ):
        ended = line.run(command)
        assert (ended.code, ended.out) == (2, ""), (command, ended)
        assert said in ended.err, (command, ended)


def test_a_topic_is_shown_with_its_queues_and_its_groups(server, line):
    line.ok("topic create shown --queues 2 --perm r --attribute message.type=NORMAL")
    line.ok("topic perm shown rw")
    send(server, "shown", 3)
    line.ok("group create reader")
    line.ok("group reset reader --topic shown --to earliest --yes")
    found = line.ok("topic show shown --json").json
    assert found["messages"] == 3
    assert found["brokers"] == [
        {
            "broker_name": "broker-a",
            "read_queues": 2,
            "write_queues": 2,
            "perm": 6,
            "order": False,
            "attributes": {"message.type": "NORMAL"},
        }
    ]
    assert sorted(row["max_offset"] for row in found["queues"]) == [1, 2]
    assert [(row["group"], row["lag"]) for row in found["groups"]] == [("reader", 3)]
    text = line.ok("topic show shown").out
    assert "message.type=NORMAL" in text
    assert re.search(r"^reader +3 ", text, re.MULTILINE)


def test_lists_hide_what_is_the_systems(line):
    line.ok("topic create listed-a")
    line.ok("topic create listed-b")
    topics = {row["topic"] for row in line.ok("topic list --json").json}
    every = {row["topic"] for row in line.ok("topic list --all --json").json}
    assert not {
        topic for topic in topics if topic.startswith(("%", "rmq_sys", "RMQ_SYS")) or topic in ("TBW102", "broker-a")
    }
    assert topics | {"TBW102", "SCHEDULE_TOPIC_XXXX"} <= every
    assert [row["topic"] for row in line.ok("topic list --match 'listed-*' --json").json] == ["listed-a", "listed-b"]
    line.ok("group create listed")
    groups = {row["group"] for row in line.ok("group list --json").json}
    assert "listed" in groups
    assert "TOOLS_CONSUMER" not in groups
    assert "TOOLS_CONSUMER" in {row["group"] for row in line.ok("group list --all --json").json}


def test_group_reset_sets_the_offsets(server, line):
    line.ok("topic create moved --queues 1")
    line.ok("group create moved")
    send(server, "moved", 10)
    line.ok("group reset moved --topic moved --to latest --yes")
    ended = line.ok("group reset moved --topic moved --queue broker-a/0 --offset 4 --yes --json").json
    assert ended["queues"] == [
        {"topic": "moved", "broker_name": "broker-a", "queue_id": 0, "from_offset": 10, "to_offset": 4}
    ]
    assert server.consumer_offset("moved", "moved") == {0: 4}
    ended = line.ok("group reset moved --topic moved --to earliest --yes")
    assert ended.out.endswith("4 messages are consumed again, 0 are skipped\n")
    assert server.consumer_offset("moved", "moved") == {0: 0}
    line.ok("group clone moved copied --yes")
    assert server.consumer_offset("copied", "moved") == {0: 0}
    line.ok("group delete moved --progress --yes")
    assert "moved" not in {row["group"] for row in line.ok("group list --json").json}


def test_lag_is_told_in_messages_and_time_and_fails_over_a_limit(server, line):
    line.ok("topic create behind --queues 2")
    line.ok("group create behind")
    line.ok("group reset behind --topic behind --to earliest --yes")
    send(server, "behind", 10)
    found = line.ok("lag behind --json").json
    assert found["lag"] == 10
    assert 0 < found["waiting_ms"] < 60_000
    assert all(row["consumer_offset"] == 0 and row["lag"] == 5 for row in found["queues"])
    for limit, code in (("10", 0), ("9", 3), ("1h", 0), ("1ms", 3)):
        ended = line.run(f"lag behind --fail-over {limit}")
        assert ended.code == code, (limit, ended)
        assert ("is further behind than" in ended.err) is (code == 3)
    assert line.run("lag behind --watch 1s --fail-over 3").code == 2


def test_all_groups_at_once(server, line):
    for group, messages in (("of-all-one", 3), ("of-all-two", 7), ("of-all-none", 0)):
        line.ok(f"topic create {group} --queues 1")
        line.ok(f"group create {group}")
        line.ok(f"group reset {group} --topic {group} --to earliest --yes")
        send(server, group, messages)

    def rows(command: str) -> list[dict[str, Any]]:
        return [row for row in line.run(command).json if row["group"].startswith("of-all-")]

    behind = {"of-all-two": 7, "of-all-one": 3, "of-all-none": 0}
    found = rows("lag --all --json")
    assert {row["group"]: row["lag"] for row in found} == behind
    assert [row["group"] for row in found] == list(behind)
    assert [row["waiting_ms"] > 0 for row in found] == [True, True, False]
    for limit, code in (("1000", 0), ("2", 3), ("10h", 0), ("1ms", 3)):
        assert line.run(f"lag --all --fail-over {limit}").code == code, limit
    assert line.ok("lag").out.splitlines()[0] == line.ok("lag --all").out.splitlines()[0]
    for wrong in (
        "lag --all of-all-one",
        "lag --all --watch 1s",
        "group doctor",
        "group doctor --all of-all-one",
    ):
        assert line.run(wrong).code == 2, wrong
    verdicts = {row["group"]: row["is_well"] for row in rows("doctor --all --watch-for 1ms --json")}
    assert verdicts.keys() == behind.keys()
    assert not verdicts["of-all-two"]
    assert line.run("group doctor --all --watch-for 1ms").code == 1
    names = {row["group"] for row in line.ok("group list --match of-all-* --json").json}
    assert names == behind.keys()


def test_options_of_the_cluster_may_stand_before_the_command(server, line):
    alone = CommandLine("127.0.0.1:1")
    for words in (
        ("-n", server.namesrv_addr, "topic", "list", "--json"),
        (f"--namesrv-addr={server.namesrv_addr}", "--timeout", "5s", "topic", "list", "--json"),
    ):
        ended = alone.words(*words)
        assert (ended.code, ended.err) == (0, "")
        assert isinstance(ended.json, list)
    assert alone.run("-n 127.0.0.1:1 no-such-command").code == 2
    assert alone.run("-n").code == 2
    command = app.get_command(click.Context(app), "lag")
    assert command is not None
    params = {one.name: one for one in command.params if isinstance(one, click.Option)}
    cluster = [params[name] for name in (*_NAMES,)]
    assert {name: not one.is_flag for one in cluster for name in one.opts} == _BEFORE


def test_members_and_stacks_of_a_group(server, line):
    line.ok("topic create manned --queues 4")
    line.ok("group create manned")
    assert line.ok("group members manned").err == "no member of group manned is online\n"
    consumer = server.push_consumer("manned")
    consumer.subscribe("manned")
    consumer.on_message(lambda message: None)
    with consumer:
        server.wait_until(lambda: line.ok("group members manned --json").json)
        (member,) = line.ok("group members manned --json").json
        assert member["client_id"] == consumer.client_id
        assert member["topics"] == ["%RETRY%manned", "manned"]
        assert member["version"].startswith("SprocketMQ ")
        (stack,) = line.ok(f"group stack manned {consumer.client_id} --json").json
        assert "STATE: " in stack["stack"]
        assert line.run("group stack manned nobody").code == 2
        (row,) = [row for row in line.ok("group list --json").json if row["group"] == "manned"]
        assert row["members"] == 1
        found = line.ok("group show manned --json").json
        assert (found["members"], found["message_model"]) == (1, "CLUSTERING")
        assert {"topic": "manned", "queues": 4, "lag": 0, "subscription": "*"} in found["topics"] or found["topics"][
            -1
        ]["subscription"] == "*"
        ended = line.run("group clone behind manned --yes")
        assert ended.code == 2
        assert "has members online" in ended.err


@pytest.mark.parametrize("noun", ["topics", "topic list"])
def test_an_old_name_is_understood(noun, line):
    assert isinstance(line.ok(f"{noun} --json").json, list)
