# SPDX-License-Identifier: Apache-2.0
"""Commands that show, changes with ``--dry-run`` and pages of a console change nothing in the cluster: no group, no topic, no progress."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import click
import httpx
import pytest
from starlette.routing import Route

import sprocketmq as rmq
from cli_run import CommandLine, commands
from console_server import RunningConsole
from sprocketmq.console.app import make_app
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode

BROKER: Final = "broker-a"
GROUPS: Final = ("known", "deleted", "never-there")
TOPICS: Final = ("orders", "no-such-topic")
# Commands that send or serve, or change what a Spark query left.
ACTS: Final = {
    "send", "request", "bench", "run", "cluster up", "cluster down", "serve", "console", "namesrv",
    "broker run", "handover", "demo", "settle", "merge-ledger",
    "spark-checkpoint drop", "spark-checkpoint finish", "spark-checkpoint rewind", "spark-checkpoint skip", "context add",
    "context use", "context delete",
}  # fmt: skip
WRITES: Final = {
    code.value
    for code in RequestCode
    if code.name.startswith(("SEND_", "UPDATE_", "DELETE_", "CREATE_", "RESET_", "INVOKE_BROKER_TO_RESET", "AUTH_CREATE", "AUTH_UPDATE",
                             "AUTH_DELETE", "REGISTER_TOPIC", "WIPE_", "ADD_WRITE", "PUT_", "CONSUMER_SEND", "END_", "HEART_BEAT", "LOCK_",
                             "CLEAN_", "CLONE_", "SET_"))
}  # fmt: skip


USEFUL: Final = {
    "topic": "orders",
    "key": "k-1",
    "queues": "2",
    "retry_max_times": "3",
    "place": "latest",
    "password_file": "-",
}
"""Options without which a command says only that something is missing."""


class Recorded:
    """A server with a topic, dead letters of a group that is there and of one that was deleted, and the requests that it gets."""

    def __init__(self, server: EmbeddedRocketMQ) -> None:
        self.server, self.codes = server, set[int]()
        with server.admin() as admin:
            admin.create_topic("orders", queues=1)
        with server.producer() as producer:
            sent = producer.send(rmq.Message("orders", b"hello", keys="k-1", tags="A"))
        self.message_id, self.offset_message_id = sent.message_id, sent.offset_message_id
        for group in ("known", "deleted"):
            consumer = server.push_consumer(
                group, consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume_times=0
            )
            consumer.subscribe("orders")
            consumer.on_message(self._fail)
            with consumer:
                server.wait_until(lambda group=group: f"%DLQ%{group}" in server.broker.topics.table)
        # The group's last requests end with its client, some of them without an answer.
        server.wait_until(
            lambda: not server.broker.consumers.get("deleted") and not server.broker.consumers.get("known")
        )
        server._on_loop(lambda: server.broker.groups.delete("deleted", 0))  # its dead letters stay
        self.before = self.state()
        for service in (server._namesrv, server._broker):
            service.intercept = self._noting(service.intercept)

    @staticmethod
    def _fail(message: rmq.MessageExt) -> None:
        raise ValueError("no")

    def _noting(self, intercept: Any) -> Any:
        def noting(connection: Any, command: Any, handler: Any) -> Any:
            self.codes.add(command.code)
            return intercept(connection, command, handler)

        return noting

    def state(self) -> dict[str, Any]:
        broker = self.server.broker
        return {
            "topics": sorted(broker.topics.table),
            "groups": sorted(broker.groups.table),
            "progress": broker.offsets.content(0).offset_table,
            "log": broker.store.max_physical_offset,
        }

    def check(self, what: str) -> None:
        written = {RequestCode(code).name for code in self.codes & WRITES}
        self.codes.clear()
        assert written == set(), what
        before, self.before = self.before, self.state()
        assert {name for name in before if before[name] != self.before[name]} == set(), what


@pytest.fixture(scope="module")
def recorded(server: EmbeddedRocketMQ) -> Recorded:
    return Recorded(server)


def values_of(path: str, name: str, recorded: Recorded) -> tuple[str, ...]:
    """What is given for an argument or a required option of a command. A new one needs a line here."""
    if name == "name":
        return {"topic": TOPICS, "group": GROUPS, "broker": (BROKER,)}.get(path.split()[0], ("somebody",))
    return {
        "topic": TOPICS,
        "group": GROUPS,
        "message_id": (recorded.message_id, recorded.offset_message_id),
        "source": ("known", "never-there"),
        "destination": ("never-there",),
        "message_ids": (recorded.message_id,),
        "client_id": ("a-client",),
        "keys": ("k-1",),
        "perm_": ("rw",),
        "settings": ("brokerPermission=6",),
        "decision": ("allow",),
        "actions": ("Pub",),
        "resources": ("Topic:orders",),
    }[name]


def lines(path: str, command: click.Command, recorded: Recorded) -> Iterator[list[str]]:
    """The command with each of its values, without and with the arguments that it does not need."""
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    needed = [one for one in arguments if one.required]
    given = [one for one in command.params if one.required and not isinstance(one, click.Argument)]
    for chosen in (needed, arguments) if len(needed) < len(arguments) else (needed,):
        names = [one.name or "" for one in (*chosen, *given)]
        for values in itertools.product(*(values_of(path, name, recorded) for name in names)):
            options = [
                word for one, value in zip(given, values[len(chosen) :], strict=True) for word in (one.opts[0], value)
            ]
            for one in command.params:
                if isinstance(one, click.Option) and not one.required and one.name in USEFUL:
                    options += [one.opts[0], USEFUL[one.name]]
            yield [*path.split(), *values[: len(chosen)], *options]


SHOWING: Final = {" ".join(words): command for words, command in commands() if " ".join(words) not in ACTS}


@pytest.mark.parametrize(
    "path", [path for path, one in SHOWING.items() if "namesrv_addr" in {p.name for p in one.params}]
)
def test_a_command_that_shows_writes_nothing(path, recorded):
    command = SHOWING[path]
    changes = "dry_run" in {param.name for param in command.params}
    line = CommandLine(recorded.server.namesrv_addr)
    has_asked = False
    for words in lines(path, command, recorded):
        ended = line.words(*words, *(["--dry-run"] if changes else []), stdin=b"a-password-9\n")
        has_asked |= ended.code != 2 or bool(
            recorded.codes
        )  # 2: the command line is wrong, or what it names is not there
        assert "Traceback" not in ended.err
        recorded.check(" ".join(words))
    assert has_asked, f"{path}: {ended}"


def test_a_page_writes_nothing(recorded):
    with RunningConsole(recorded.server.namesrv_addr) as console:
        parts = console.server._parts
        assert parts is not None
        routes = [one for one in make_app(parts).routes if isinstance(one, Route) and "GET" in (one.methods or ())]
        assert len(routes) > 20
        console.until("known", "/")
        found = 0
        for route, group in itertools.product(routes, GROUPS):
            name = {"group": group, "broker": BROKER}.get(route.path.split("/")[1], "orders")
            place = {
                "topic": "orders" if group == "known" else f"%DLQ%{group}",
                "broker": BROKER,
                "queue": 0,
                "offset": 0,
            }
            found += (
                visited(
                    console, route.path, {"name": name, "group": group, "q": "k-1", "by": "key", "client": "c", **place}
                )
                == 200
            )
        for route in routes:
            for given in ({}, {"name": "no-such-topic", "topic": "no-such-topic", "q": recorded.message_id}):
                found += visited(console, route.path, given) == 200
        assert found > len(routes)
    recorded.check("pages")


def visited(console: RunningConsole, path: str, given: dict[str, Any]) -> int:
    with console.browser.stream("GET", path, params=given) as page:
        if page.headers.get("content-type", "").startswith("text/event-stream"):
            next(page.iter_lines(), None)
        else:
            page.read()
        assert page.status_code != httpx.codes.INTERNAL_SERVER_ERROR, (path, given)
        return page.status_code
