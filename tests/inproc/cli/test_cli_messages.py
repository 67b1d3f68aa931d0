# SPDX-License-Identifier: Apache-2.0
"""``send``, ``tail``, ``request``, ``message`` and ``dead-letters`` beyond the 25 tasks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@contextmanager
def consuming(server: EmbeddedRocketMQ, group: str, topic: str, listener: Any) -> Iterator[rmq.PushConsumer]:
    consumer = server.push_consumer(group, consume_from_where=FIRST, persist_consumer_offset_interval_ms=100)
    consumer.subscribe(topic)
    consumer.on_message(listener)
    with consumer:
        yield consumer


def bodies(line: CommandLine, command: str) -> list[str]:
    return [row.get("body") for row in line.ok(f"{command} --json").json_lines]


def test_a_message_is_sent_with_all_that_is_given(server, line):
    line.ok("topic create sent --queues 4")
    told = line.ok(
        "send sent - --key a --key b --tag T --property region=eu --property x=y --sharding-key s --json",
        b"from \xff stdin",
    ).json
    (stored,) = server.messages("sent")
    assert (stored.body, stored.keys, stored.tags) == (b"from \xff stdin", ["a", "b"], "T")
    assert (stored.properties["region"], stored.properties["x"]) == ("eu", "y")
    assert (told["message_id"], told["queue_id"], told["status"]) == (stored.message_id, stored.queue_id, "SEND_OK")
    (row,) = line.ok("tail sent --json").json_lines
    assert row["body_base64"] == "ZnJvbSD/IHN0ZGlu"
    assert row["sharding_key"] == "s"


def test_a_topic_that_a_send_makes_is_named(server, line):
    assert "ordrs" in line.ok("send ordrs hello").err
    assert line.ok("send ordrs hello").err == ""
    assert "delayed-ordrs" in line.ok("send delayed-ordrs hello --delay 1s").err


def test_a_message_waits_for_its_time(server, line):
    line.ok("topic create later --queues 1")
    line.ok("send later soon --delay 1s")
    line.ok("send later then --at +1s")
    assert server.messages("later") == []
    server.wait_until(lambda: len(server.messages("later")) == 2)


def test_a_file_is_sent_in_batches_up_to_its_first_mistake(server, line):
    line.ok("topic create filed --queues 1")
    rows = [json.dumps({"body": {"n": number}, "tag": "T"}) for number in range(7)]
    assert line.ok("send filed --file - --batch 3", "\n".join(rows).encode()).out == "7 sent to filed\n"
    assert [json.loads(body) for body in bodies(line, "tail filed --from-beginning")] == [
        {"n": number} for number in range(7)
    ]
    ended = line.run("send filed --file -", f"{rows[0]}\n\n{rows[1]}\nno json\n{rows[2]}\n".encode())
    assert ended.code == 4
    assert "2 messages were sent; those from line 4 on were not: line 4 is not a message" in ended.err
    assert len(server.messages("filed")) == 9
    ended = line.run("send filed --file -", b'{"body": "x", "colour": 1}')
    assert (ended.code, "a message has no 'colour'" in ended.err) == (2, True)


def test_a_line_that_the_broker_refuses_is_named(line):
    line.ok("topic create small --queues 1")
    line.ok("broker config set broker-a maxMessageSize=1000")
    try:
        rows = [json.dumps({"body": "x" * size}) for size in (10, 10, 2_000, 10)]
        ended = line.run("send small --file -", "\n".join(rows).encode())
    finally:
        line.ok("broker config set broker-a maxMessageSize=4194304")
    assert (ended.code, ended.out) == (4, "")
    assert "2 messages were sent; those from line 3 on were not" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("send sent", "one of BODY and --file is needed"),
        ("send sent x --file -", "one of BODY and --file is needed"),
        ("send sent --file - --tag T", "set them in each line of the file"),
        ("send sent x --batch 3", "--batch needs --file"),
        ("send sent x --delay 1s --at 5m", "keep one"),
        ("send sent x --delay soon", "the duration is 'soon'"),
        ("send sent x --property x", "NAME=VALUE is allowed"),
        ("send sent ''", "body"),
        ("tail sent --since 1h --last 3", "one of --since, --from-beginning and --last"),
        ("tail sent --tag A --sql 'a > 1'", "give one of the two"),
        ("message find sent --key a --id b", "one of --key and --id"),
        ("message find sent --offset 1", "--offset needs --queue"),
        ("dead-letters list --topic x", "conditions are given without a group"),
        ("dead-letters list g --since yesterday", "the time is 'yesterday'"),
        ("dead-letters replay g", "no dead letters are chosen"),
        ("dead-letters replay g AB --all", "message ids and conditions are both given"),
    ],
)
def test_a_mistake_of_usage_sends_and_reads_nothing(words, said, line):
    ended = line.run(words)
    assert (ended.code, ended.out) == (2, ""), ended
    assert said in ended.err


def test_a_topic_is_read_by_time_queue_filter_and_count(server, line):
    line.ok("topic create read --queues 2")
    with server.producer() as producer:
        for number in range(40):
            queue = rmq.MessageQueue("read", "broker-a", number % 2)
            tags, properties = "even" if number % 4 == 0 else "odd", {"n": str(number)}
            producer.send(rmq.Message("read", b"%d" % number, tags=tags, properties=properties), queue=queue)
    everything = [str(number) for number in range(40)]
    # In the order of the broker's log, also those of one millisecond.
    assert bodies(line, "tail read") == everything[-10:]
    assert bodies(line, "tail read --last 3") == everything[-3:]
    assert sorted(bodies(line, "tail read --from-beginning"), key=int) == everything
    assert bodies(line, "tail read --from-beginning --queue broker-a/1") == everything[1::2]
    assert bodies(line, "tail read --from-beginning --queue broker-a/0 --count 3") == everything[0:6:2]
    assert bodies(line, "tail read --tag even --last 100") == everything[::4]
    assert bodies(line, "tail read --sql 'n > 35' --last 100") == everything[36:]
    assert bodies(line, "tail read --since 1h --tag even") == everything[::4]
    assert bodies(line, "tail read --since 2100-01-01") == []
    assert line.ok("tail read --last 0").out == ""
    assert line.run("tail nowhere").code == 1


def test_tail_follows_new_messages_up_to_a_count(server, line):
    line.ok("topic create followed --queues 4")
    line.ok("send followed before")
    ended: list[Any] = []
    follower = threading.Thread(
        target=lambda: ended.append(line.run("tail followed -f --from-beginning --count 6 --json"))
    )
    follower.start()
    with server.producer() as producer:
        while follower.is_alive():
            producer.send(rmq.Message("followed", b"after"))
            follower.join(0.05)
    assert [row["body"] for row in ended[0].json_lines] == ["before", *["after"] * 5]


def test_a_request_gets_its_reply(server, line):
    line.ok("topic create prices --queues 1")
    with server.producer("answers") as producer:

        def answer(message: rmq.MessageExt) -> None:
            producer.reply(message, b'{"price": 7}')

        with consuming(server, "answers", "prices", answer):
            assert json.loads(line.ok("request prices '{\"id\": 1}' --wait 20s").out) == {"price": 7}
            assert line.ok("request prices x --wait 20s --json").json["body"] == '{"price": 7}'
    ended = line.run("request prices x --wait 100ms")
    assert (ended.code, ended.out) == (1, "")


def test_a_message_is_found_by_key_id_place_and_time(server, line):
    line.ok("topic create found --queues 1")
    ids = [line.ok(f"send found {number} --key k{number % 2} --json").json["message_id"] for number in range(6)]
    server.wait_until(lambda: len(line.run("message find found --key k1 --json").json) == 3)
    assert [row["body"] for row in line.ok("message find found --key k1 --json").json] == ["1", "3", "5"]
    assert [row["body"] for row in line.ok("message find found --key k1 --limit 1 --json").json] == ["5"]
    assert [row["body"] for row in line.ok(f"message find found --id {ids[2]} --json").json] == ["2"]
    assert [row["body"] for row in line.ok("message find found --queue broker-a/0 --offset 4 --json").json] == [
        "4",
        "5",
    ]
    assert len(line.ok("message find found --since 1h --json").json) == 6
    for nothing in ("--key other", "--until 2000-01-01", "--id ABC", "--since 2100-01-01"):
        ended = line.run(f"message find found {nothing}")
        assert (ended.code, ended.out, ended.err) == (1, "", "no message found\n")
    first = line.ok(f"message show {ids[0]} --topic found --json").json
    assert (first["body"], first["keys"], first["body_bytes"]) == ("0", ["k0"], 1)
    assert line.ok(f"message show {first['offset_message_id']} --body raw").out == "0"
    assert line.ok(f"message show {ids[0]} --topic found --body hex").out.endswith("00000000  30" + " " * 47 + "0\n")
    for words, said in ((ids[0], "needs --topic"), ("ABC --topic found", "has no message with the id 'ABC'")):
        ended = line.run(f"message show {words}")
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err


def test_a_message_is_traced_and_delivered_once_more(server, line):
    line.ok("topic create traced --queues 1")
    seen: list[int] = []

    def take(message: rmq.MessageExt) -> None:
        seen.append(1)
        if len(seen) > 1:
            raise ValueError("not again")

    with server.producer("tracing", enable_trace=True) as producer:
        sent = producer.send(rmq.Message("traced", b"x"))
    server.wait_until(lambda: line.run(f"message trace {sent.message_id}").code == 0)
    (row,) = line.ok(f"message trace {sent.message_id} --json").json
    assert (row["what"], row["group"], row["topic"], row["success"]) == ("Pub", "tracing", "traced", True)
    line.ok("group create takes")
    redeliver = f"message redeliver {sent.message_id} --topic traced --group takes"
    assert "no member of group 'takes' is online" in line.run(redeliver).err
    with consuming(server, "takes", "traced", take):
        server.wait_until(lambda: seen)
        assert line.ok(f"{redeliver} --dry-run").out.startswith(f"would deliver {sent.message_id} to ")
        ended = line.run(f"{redeliver} --json")
        assert ended.code == 1
        assert (ended.json["result"], "not again" in ended.json["remark"]) == ("CR_THROW_EXCEPTION", True)


def test_dead_letters_of_all_groups_are_counted_shown_with_a_reason_and_forgotten(server, line):
    line.ok("topic create died --queues 1")

    def refuse(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter("too late" if message.body == b"0" else "")

    for number in range(3):
        line.ok(f"send died {number} --tag T{number}")
    with consuming(server, "gives-up", "died", refuse):
        server.wait_until(lambda: len(line.ok("dead-letters list gives-up --json").json_lines) == 3)
    assert {"group": "gives-up", "dead_letters": 3} in [
        {key: row[key] for key in ("group", "dead_letters")} for row in line.ok("dead-letters list --json").json
    ]
    assert [row["reason"] for row in line.ok("dead-letters list gives-up --tag T0 --json").json_lines] == ["too late"]
    text = line.ok("dead-letters list gives-up").out
    assert "reason=too late\n" in text
    assert "      1  too late\n" in text
    letter = line.ok("dead-letters list gives-up --json").json_lines[0]["message_id"]
    shown = line.ok(f"dead-letters show gives-up {letter}").out
    assert "reason      too late\n" in shown
    assert "body        1 byte\n" in shown
    dry = line.ok("dead-letters replay gives-up --since 1h --dry-run --json")
    assert {row["to"] for row in dry.json_lines} == {"died"}
    assert line.run("dead-letters show gives-up AB").code == 2
    assert line.ok(f"dead-letters replay gives-up {letter} --to-topic again").out.endswith(" remain\n")
    (again,) = line.ok("dead-letters replay gives-up --tags T0 --json").json_lines
    assert (again["to"], len(server.messages("again"))) == ("died/broker-a/0", 1)
    assert line.run("dead-letters purge gives-up").code == 2
    assert line.ok("dead-letters purge gives-up --yes").out == "deleted 3 dead letters of group gives-up\n"
    assert line.ok("dead-letters list gives-up --json").out == ""
