# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import sprocketmq as rmq

if TYPE_CHECKING:
    from .conftest import Cli


def send(namesrv_addr: str, count: int) -> None:
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_topic("orders", queues=2)
    with rmq.Producer("ops", namesrv_addr=namesrv_addr) as producer:
        for number in range(count):
            producer.send(rmq.Message("orders", b"order %d" % number))


def test_lag_and_topics_are_seen_from_another_process(cli: Cli) -> None:
    namesrv_addr = cli.serve().addresses["namesrv"]
    send(namesrv_addr, 10)
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_group("billing")
        for queue in admin.queues("orders"):
            admin.set_consumer_offset("billing", queue, 3)

    ended = cli.run("lag", "billing", "--namesrv-addr", namesrv_addr, "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert (answer["group"], answer["lag"]) == ("billing", 4)
    assert [(queue["topic"], queue["queue_id"], queue["consumer_offset"]) for queue in answer["queues"]] == [
        ("orders", 0, 3),
        ("orders", 1, 3),
    ]
    text = cli.run("lag", "billing", "--namesrv-addr", namesrv_addr).out
    assert re.search(r"^orders +broker-a +0 +5 +3 +2$", text, re.MULTILINE)
    assert re.search(r"\nlag of billing: 4, the oldest for [\d.]+ m?s\n$", text)

    (row,) = json.loads(cli.run("topic", "list", "--namesrv-addr", namesrv_addr, "--json").out)
    assert (row["topic"], row["queues"], row["messages"]) == ("orders", 2, 10)


def test_an_unknown_group_and_an_absent_cluster_are_one_sentence(cli: Cli) -> None:
    namesrv_addr = cli.serve().addresses["namesrv"]
    ended = cli.run("lag", "nobody", "--namesrv-addr", namesrv_addr)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("sprocketmq: code 26: no broker knows the consumer group 'nobody'")
    assert len(ended.err.splitlines()) == 1
    ended = cli.run("dead-letters", "list", "nobody", "--namesrv-addr", namesrv_addr)
    assert (ended.code, ended.out) == (1, "")
    assert "no broker knows the consumer group 'nobody'" in ended.err
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_group("billing")
        admin.create_topic("orders")
    ended = cli.run("lag", "billing", "--namesrv-addr", namesrv_addr)
    assert ended.err.startswith(
        "sprocketmq: group 'billing' has no progress on any broker yet, and no member holds messages"
    )
    with rmq.Producer("shop", namesrv_addr=namesrv_addr) as producer:
        producer.send(rmq.Message("orders", b"1"))
    ended = cli.run("lag", "billing", "--topic", "orders", "--namesrv-addr", namesrv_addr)
    assert "\nlag of billing: 1, the oldest for " in ended.out  # as the sentence proposes
    ended = cli.run("dead-letters", "list", "billing", "--namesrv-addr", namesrv_addr)
    assert (ended.code, ended.out) == (0, "0 shown, group billing has 0 dead letters\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = f"127.0.0.1:{listening.getsockname()[1]}"
    ended = cli.run("topics", "--namesrv-addr", closed)
    assert (ended.code, ended.out) == (1, "")
    assert closed in ended.err
    assert len(ended.err.splitlines()) == 1


def test_what_was_acknowledged_survives_kill_9_and_the_store_is_sound(cli: Cli, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    server = cli.serve("--store", store)
    send(server.addresses["namesrv"], 20)
    assert server.end(signal.SIGKILL).code == -signal.SIGKILL

    server = cli.serve("--store", store)
    assert server.ready_line
    (row,) = json.loads(cli.run("topics", "--namesrv-addr", server.addresses["namesrv"], "--json").out)
    assert (row["topic"], row["queues"], row["messages"]) == ("orders", 2, 20)
    assert server.end().code == 0

    checked = cli.run("store", "check", store)
    assert (checked.code, checked.err) == (0, "")
    assert f"{store}: sound; 20 records" in checked.out


def test_store_check_names_a_broken_record_and_ends_with_one(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "store"
    server = cli.serve("--store", str(store))
    send(server.addresses["namesrv"], 5)
    assert server.end().code == 0
    (log,) = (store / "commitlog").iterdir()
    with log.open("r+b") as file:
        at = file.read(4096).index(b"order 0")
        file.seek(at)
        file.write(b"ORDER 0")
    checked = cli.run("store", "check", str(store))
    assert checked.code == 1, checked.out
    assert "problem" in checked.out


def test_store_check_of_another_folder_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    checked = cli.run("store", "check", str(tmp_path))
    assert (checked.code, checked.out) == (2, "")
    assert checked.err.startswith(f"sprocketmq: {tmp_path} is not a store directory")
