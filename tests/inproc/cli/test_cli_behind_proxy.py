# SPDX-License-Identifier: Apache-2.0
"""Each command at a proxy: it works, or says in one sentence what the proxy does not serve, and changes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import click
import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from embedded_proxy import embedded_proxy, second_broker_of
from sprocketmq.cli.main import app
from sprocketmq.testing import EmbeddedRocketMQ

DEADLINE_S = 60
# What works there, with a part of what is printed. {id} is a stored message, {letter} a dead letter, {file} holds messages.
WORKS = {
    "send orders again --key k --tag paid": r"^sent \w+ to orders/broker-[ab]/\d offset \d$",
    "send orders later --delay 7s": r"^sent \w+ to orders/",
    "send orders --file {file} --batch 2": r"^2 sent to orders$",
    "tail orders --last 2": r"\A(.+\n){2}\Z",
    "tail orders --from-beginning --tag paid": r"\[paid\] .*first",
    "message find orders --queue broker-b/1 --offset 0 --json": r'"body": "first 1"',
    "message find orders --since 1h": r"first 0",
    "dead-letters list billing": r"group billing has \d dead letters?$",
    "dead-letters show billing {letter}": r"^from topic +orders$",
    "dead-letters replay billing --all": r"^\d replayed; ",
    "topic show orders": r"(?s)^messages +\d+$.*^broker-b +2 +2 +rw +unknown +unknown$.*^broker-b +1 +0 +\d",
    "group show billing": r"(?s)^lag +\d+$.*^orders +4 +\d+ +\*$",
    "group members billing": r"PYTHON",
    "group reset idle --topic orders --to earliest --yes": r"^group idle continues in orders at earliest: ",
    "group reset idle --topic orders --queue broker-b/1 --offset 1 --yes": r"^group idle continues in queue orders/broker-b/1 at ",
    "group clone idle copy --topic orders --yes": r"^copied the offsets of group idle to group copy, in 4 queues$",
    "lag billing": r"^lag of billing: \d+",
    "lag idle --topic orders": r"^lag of idle: [1-9]\d*, the oldest for ",
    "bench orders --messages 20 --group copy": r"^consume +20 ",
    "bench orders --messages 20 --no-consume": r"^send +20 ",
}
# What does not, with a part of the sentence.
FAILS = {
    "request orders x --wait 1s": "passes no replies on; use a topic for the answers",
    "message find orders --key k": "does not serve QUERY_MESSAGE; read its queue from an offset or a time on",
    "message find orders --id {id}": "does not serve QUERY_MESSAGE; ",
    "message show {id} --topic orders": "finds no message by its id; sprocketmq message find TOPIC --queue",
    "message show {stored}": "finds no message by its id; ",
    "message track {id} --topic orders": "finds no message by its id; ",
    "message redeliver {id} --topic orders --group billing": "finds no message by its id; ",
    "message trace {id} --trace-topic orders": "does not serve QUERY_MESSAGE; ",
    "dead-letters list": "does not serve GET_ALL_TOPIC_LIST_FROM_NAMESERVER; name each topic",
    "dead-letters purge billing --yes": "does not serve DELETE_TOPIC_IN_BROKER; ",
    "topic list": "does not serve GET_ALL_TOPIC_LIST_FROM_NAMESERVER; ",
    "topic create new": "does not serve ",
    "topic alter orders --queues 4": "does not serve ",
    "topic alter orders --type FIFO": "does not serve ",
    "topic perm orders r": "does not serve ",
    "topic delete orders --yes": "does not serve ",
    "group list": "does not serve ",
    "group create new": "does not serve ",
    "group alter billing --disable": "does not serve ",
    "group delete billing --yes": "does not serve ",
    "group stack billing": "does not serve GET_CONSUMER_RUNNING_INFO; ",
    "group reset billing --topic orders --to earliest --yes": "members of group 'billing' are online (",
    "lag idle": "so name the topic",
    "bench": "give a TOPIC, and --group or --no-consume",
    "bench orders": "give a TOPIC, and --group or --no-consume",
    "broker list": "does not serve ",
    "broker show broker-a": "does not serve ",
    "broker config get broker-a": "does not serve ",
    "broker config set broker-a maxMessageSize=1024": "does not serve ",
    "broker drain broker-a --yes": "does not serve ",
    "user list": "does not serve ",
    "user show ann": "does not serve ",
    "user create ann --password-file {file}": "does not serve ",
    "user alter ann --disable": "does not serve ",
    "user delete ann --yes": "does not serve ",
    "acl list": "does not serve ",
    "acl show ann": "does not serve ",
    "acl set ann allow Pub Topic:orders": "does not serve ",
    "acl delete ann --yes": "does not serve ",
}
SEE_BELOW = {"group doctor"}
# They ask no server, start one, or are Spark's (tests/system/spark).
ELSEWHERE = {"serve", "console", "namesrv", "handover", "demo", "store", "replay", "context", "completion", "version"}
ELSEWHERE |= {"broker run", "settle", "merge-ledger", "spark-checkpoint"}


@dataclass
class Shop:
    line: CommandLine
    proxy_addr: str
    at_brokers: rmq.Admin
    names: dict[str, str]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "messages.jsonl").write_text('{"body": "a"}\n{"body": "b"}\n')
    with (
        EmbeddedRocketMQ(clock="system") as rocketmq,
        second_broker_of(rocketmq) as second,
        embedded_proxy(rocketmq, [rocketmq.broker, second]) as proxy_addr,
        rmq.Admin(namesrv_addr=rocketmq.namesrv_addr) as at_brokers,
    ):
        at_brokers.create_topic("orders", queues=2)
        for group in ("billing", "idle", "copy"):
            at_brokers.create_group(group)
        sent = []
        with rmq.Producer("shop", namesrv_addr=proxy_addr) as producer:
            for number, queue in enumerate(at_brokers.queues("orders")):
                sent.append(producer.send(rmq.Message("orders", b"first %d" % (number % 2), tags="paid"), queue=queue))
                at_brokers.set_consumer_offset("idle", queue, 0)
            producer.send(rmq.Message("orders", b"bad", tags="bad"))
        letters = rmq.DeadLetters("billing", namesrv_addr=proxy_addr)
        member = rmq.PushConsumer(
            "billing",
            namesrv_addr=proxy_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=100,
        )
        member.subscribe("orders")

        @member.on_message
        def take(message: rmq.MessageExt) -> None:
            if message.tags == "bad":
                raise rmq.DeadLetter("no such account")

        names = {"id": sent[0].message_id, "stored": sent[0].offset_message_id, "file": str(folder / "messages.jsonl")}
        with member, letters:
            deadline = time.monotonic() + DEADLINE_S
            while letters.count() != 1 or at_brokers.lag("billing", "orders"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            names["letter"] = next(letters.read()).message_id
            contexts = {"SPROCKETMQ_CONTEXTS": str(folder / "contexts.json")}
            yield Shop(CommandLine(proxy_addr, contexts), proxy_addr, at_brokers, names)


def leaves(command: click.Command, path: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, f"{path} {name}".strip())


def test_each_command_is_in_a_table() -> None:
    every = set(leaves(app))
    local = {leaf for leaf in every if any(f"{leaf} ".startswith(f"{name} ") for name in ELSEWHERE)}
    shown = {leaf for leaf in every for command in (*WORKS, *FAILS) if f"{command} ".startswith(f"{leaf} ")}
    assert every - local == shown | SEE_BELOW
    assert not local & shown


@pytest.mark.parametrize("command", WORKS)
def test_it_works(shop: Shop, command: str) -> None:
    ended = shop.line.ok(command.format(**shop.names))
    assert re.search(WORKS[command], ended.out, re.MULTILINE), ended
    assert all(note.startswith("sprocketmq: ") for note in ended.err.splitlines()), ended.err


@pytest.mark.parametrize("command", FAILS)
def test_it_says_why_it_does_not(shop: Shop, command: str) -> None:
    admin = shop.at_brokers
    before = admin.topics(), admin.topic_config("orders"), admin.groups(), admin.users("broker-a")
    ended = shop.line.run(command.format(**shop.names))
    assert ended.code == 1, ended
    assert FAILS[command] in ended.err, ended
    assert len(ended.err.splitlines()) == 1, ended.err
    assert shop.proxy_addr in ended.err or "Apache's proxy" in ended.err
    assert before == (admin.topics(), admin.topic_config("orders"), admin.groups(), admin.users("broker-a"))


def test_what_is_known_of_a_group_that_is_not_online_there(shop: Shop) -> None:
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


def test_the_doctor_of_a_group_that_is_online(shop: Shop) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (doctor := shop.line.run("group doctor billing --watch-for 0s")).code:  # messages of other tests may wait
        assert time.monotonic() < deadline, doctor
    assert "  not known: whether the group may consume, and how many retries wait: the proxy at " in doctor.out
    assert " did not report its state: the proxy at " in doctor.out
