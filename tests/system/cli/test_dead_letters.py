# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq dead-letters``: list, show and replay from another process."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import sprocketmq as rmq

if TYPE_CHECKING:
    from .conftest import Cli


def _give_up(namesrv_addr: str, bodies: list[bytes]) -> list[str]:
    """Send to ``orders``, and let group ``billing`` give each up; their message ids, in the order in which they died."""
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_topic("orders", queues=1)
    with rmq.Producer("ops", namesrv_addr=namesrv_addr) as producer:
        for number, body in enumerate(bodies):
            producer.send(rmq.Message("orders", body, tags="A" if number else "B", keys=f"k{number}"))
    consumer = rmq.PushConsumer(
        "billing", namesrv_addr=namesrv_addr, consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe("orders")

    @consumer.on_message
    def refuse(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter

    with consumer, rmq.DeadLetters("billing", namesrv_addr=namesrv_addr) as letters:
        for _ in range(600):
            if letters.count() == len(bodies):
                return [letter.message_id for letter in letters.read()]
            threading.Event().wait(0.05)
    raise AssertionError("the letters did not die")


def test_letters_are_listed_shown_and_replayed(cli: Cli) -> None:
    namesrv_addr = cli.serve().addresses["namesrv"]
    at = ("--namesrv-addr", namesrv_addr)
    dead = _give_up(namesrv_addr, [b"first\x1b[31m", "zweite \u00fc".encode(), b"\xff\xfe"])

    listed = cli.run("dead-letters", "list", "billing", *at, "--json")
    assert listed.code == 0, listed.err
    rows = [json.loads(line) for line in listed.out.splitlines()]
    assert [(row["message_id"], row["topic"], row["deliveries"]) for row in rows] == [
        (one, "orders", 1) for one in dead
    ]
    text = cli.run("dead-letters", "list", "billing", *at, "--limit", "2").out
    assert len(text.splitlines()) == 3
    assert text.endswith("2 shown, group billing has 3 dead letters, give --limit to see more\n")
    (only,) = cli.run("dead-letters", "list", "billing", *at, "--tags", "B", "--json").out.splitlines()

    first = json.loads(only)["message_id"]
    shown = cli.run("dead-letters", "show", "billing", first, *at)
    assert shown.code == 0, shown.err
    assert "from topic  orders" in shown.out
    assert "keys        k0" in shown.out
    assert shown.out.endswith("first\\x1b[31m\n")  # what would steer the terminal does not

    dry = cli.run("dead-letters", "replay", "billing", "--all", "--dry-run", *at)
    assert dry.out.endswith("3 would be replayed\n")
    one = cli.run("dead-letters", "replay", "billing", first, "--to-topic", "again", *at)
    assert (one.code, one.out.splitlines()[-1]) == (0, "1 replayed; the dead letters themselves remain")
    some = cli.run("dead-letters", "replay", "billing", "--tags", "A", "--json", *at)
    assert {json.loads(line)["to"] for line in some.out.splitlines()} == {"orders/broker-a/0"}
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        assert sum(offsets.max_offset for offsets in admin.topic_stats("orders").values()) == 5
        assert sum(offsets.max_offset for offsets in admin.topic_stats("again").values()) == 1


def test_invalid_arguments_are_one_sentence(cli: Cli) -> None:
    namesrv_addr = cli.serve().addresses["namesrv"]
    at = ("--namesrv-addr", namesrv_addr)
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_group("billing")
    for arguments, sentence in (
        (("show", "billing", "AB"), "has no dead letter with the id 'AB'"),
        (("replay", "billing"), "no dead letters are chosen"),
        (("replay", "billing", "AB", "--all"), "message ids and conditions are both given"),
    ):
        ended = cli.run("dead-letters", *arguments, *at)
        assert (ended.code, ended.out) == (2, ""), ended
        assert sentence in ended.err
        assert len(ended.err.splitlines()) == 1
    ended = cli.run("dead-letters", "list", "billing", "--since", "yesterday", *at)
    assert (ended.code, ended.out) == (2, "")
    assert "the time is 'yesterday'" in ended.err
    ended = cli.run("dead-letters", "list", "billing", *at)
    assert (ended.code, ended.out) == (0, "0 shown, group billing has 0 dead letters\n")
