# SPDX-License-Identifier: Apache-2.0
"""The 25 tasks that operators and developers do most, each one line: run by tests at our servers and at Apache's, printed by the guide.

They are one story. In the guide the topic is ``orders``, the group ``billing``; a run gives both names of its own. A member of the group is
online from the task on that needs it; it takes what is tagged ``paid`` and gives up what is tagged ``bad``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sprocketmq as rmq
from cli_run import CommandLine, Ended
from sprocketmq.cli import cheat
from sprocketmq.net.process.engine import Engine


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        wish: what somebody wants.
        command: what is typed behind ``sprocketmq``.
        said: regular expressions, each of which finds something in what is printed.
        before: the part of the story that comes before it: a method of Story.
    """

    wish: str
    command: str
    said: tuple[str, ...]
    before: str = ""


# By what is wished: what each line has to print, and what comes before it.
_SAID: dict[str, tuple[tuple[str, ...], str]] = {
    "create a topic": ((r"^created topic orders with 4 queues on broker-a$",), ""),
    "list the topics": (
        (
            r"^topic +queues +messages$",
            r"^orders +4 +0$",
        ),
        "",
    ),
    "send a message": ((r"^sent \w+ to orders/broker-a/\d offset 0$",), ""),
    "send a file of messages": ((r"^5 sent to orders$",), ""),
    "print the last messages (-f: follow)": (
        (
            r"\A(.+\n){3}\Z",
            r"\[bad\] order-6 ",
        ),
        "can_be_read",
    ),
    "print messages with a tag from the last 5 minutes": ((r"\A(.+ \[paid\] order-\d .+\n){5}\Z",), ""),
    "copy messages to another topic, or cluster": ((r"^6 sent to orders-copy$",), "has_a_second_topic"),
    "send a message that is delivered later": ((r"^sent \w+ to \S*orders, at its time$",), ""),
    "find a message by its key": ((r"\A\w+  .+\[paid\] order-1 {\"id\": 1}\n\Z",), "is_indexed"),
    "show a message": (
        (
            r"^keys +order-1$",
            r"^tag +paid$",
            r'"id": 1',
        ),
        "",
    ),
    "list the members of a group that are online": (
        (
            r"^client id +address +language",
            r"PYTHON|OTHER",
        ),
        "is_consumed",
    ),
    "see which groups have consumed a message": ((r"^billing +CONSUMED +consumed$",), ""),
    "have one member consume a message again": ((r"CR_SUCCESS after \d+ ms$",), ""),
    "print the stacks of a group's threads": (
        (
            r"^-- \S+@\S+",
            r"STATE: ",
        ),
        "",
    ),
    "see how far a group is behind": (
        (
            r"^topic +broker +queue +broker offset +consumer offset +lag$",
            r"^lag of billing: 0$",
        ),
        "",
    ),
    "exit code 3 if it is too far behind, for alarms": ((r"^lag of billing: 0$",), ""),
    "find out why a group makes no progress": ((r"^(nothing waits|only retries wait|moving): ",), ""),
    "consume the last hour again": (
        (r"^group billing continues in orders at .+ messages are consumed again, 0 are skipped$",),
        "",
    ),
    "list the dead letters of a group, with reasons": (
        (
            r"  orders  1 try  .+tags=bad keys=order-6 reason=no such account$",
            r"group billing has \d dead letters?",
        ),
        "is_consumed_again",
    ),
    "send the dead letters again": ((r"^\d replayed; the dead letters themselves remain$",), ""),
    "disable a group (--enable: enable it)": ((r"^changed group billing: consume_enable false, on broker-a$",), ""),
    "give a topic more queues": ((r"^changed topic orders: read queues 8, write queues 8, on broker-a$",), ""),
    "see which brokers are up, and which are gone": ((r"^broker-a +master +\S+:\d+ +yes +V\d_\d+_\d+ ",), ""),
    "change a setting of a running broker": ((r"^changed broker broker-a: maxMessageSize 4194305$",), ""),
    "delete a topic": ((r"^deleted topic orders with \d+ messages$",), ""),
}
TASKS = tuple(Task(one.wish, one.command, *_SAID[one.wish]) for one in cheat.TASKS[:25])


class Story:
    """The tasks at one cluster, in order.

    Args:
        name: what the names of topic and group begin with here.
        folder: where the file of messages goes.
        patience_s: how long a part of the story may take.
    """

    def __init__(self, namesrv_addr: str, name: str, folder: Path, patience_s: float = 60.0) -> None:
        self._line = CommandLine(namesrv_addr)
        self._namesrv_addr = namesrv_addr
        self._topic, self._group = f"{name}-orders", f"{name}-billing"
        self._patience_s = patience_s
        self._seen: list[str] = []
        self._file = folder / "orders.jsonl"
        rows = [
            {"body": {"id": number}, "key": f"order-{number}", "tag": "bad" if number == 6 else "paid"}
            for number in range(2, 7)
        ]
        self._file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._id = ""
        self._consumer: rmq.PushConsumer | None = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """As long as the story lasts: its member is shut down afterwards, and what it made is deleted."""
        try:
            yield
        finally:
            if self._consumer is not None:
                self._consumer.shutdown()
            with rmq.Admin(namesrv_addr=self._namesrv_addr, mq_client_api_timeout_ms=10_000) as admin:
                admin.update_broker_config({"maxMessageSize": 4_194_304}, broker="broker-a")
                admin.delete_group(self._group, remove_offsets=True)
                for topic in (self._topic, f"{self._topic}-copy"):
                    admin.delete_topic(topic)

    def do(self, task: Task) -> Ended:
        """Run a task, and hold it to what it says."""
        if task.before:
            getattr(self, task.before)()
        command = self._here(task.command)
        ended = self._line.ok(command)
        for pattern in task.said:
            assert re.search(self._here(pattern), ended.out, re.MULTILINE), (
                f"{pattern} is not in\n{ended.out}\n{ended.err}"
            )
        if task.wish == "send a message":
            self._id = ended.out.split()[1]
        return ended

    def _here(self, text: str) -> str:
        """With the names of this run."""
        text = text.replace("orders.jsonl", str(self._file)).replace(" ID ", f" {self._id} ")
        text = re.sub(r"(?<![\w./-])orders(?![\w.])", self._topic, text)
        return re.sub(r"(?<![\w-])billing(?![\w])", self._group, text)

    # -- what happens between the tasks ----------------------------------------------------------------------------------------------

    def has_a_second_topic(self) -> None:
        self._line.ok(f"topic create {self._topic}-copy --queues 1")

    def can_be_read(self) -> None:
        """Apache's brokers build their queues a moment behind."""
        self._wait(lambda: len(self._line.ok(f"tail {self._topic} --from-beginning").out.splitlines()) == 6)

    def is_indexed(self) -> None:
        """Brokers build their index a moment behind."""
        self._wait(lambda: self._line.run(f"message find {self._topic} --key order-1").code == 0)

    def is_consumed(self) -> None:
        self._line.ok(f"group create {self._group} --retry-max 3")
        consumer = rmq.PushConsumer(
            self._group,
            namesrv_addr=self._namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=100,
        )
        consumer.subscribe(self._topic)

        @consumer.on_message
        def take(message: rmq.MessageExt) -> None:
            self._seen.append(message.keys[0] if message.keys else message.body.decode())
            if message.tags == "bad":
                raise rmq.DeadLetter("no such account")

        consumer.start()
        self._consumer = consumer
        wanted = {f"order-{number}" for number in range(1, 7)} | {"later"}
        self._wait(lambda: wanted <= set(self._seen))
        running = consumer._async._running
        assert running is not None
        Engine.shared().run(running.persist_offsets())  # progress is first written after 10 s
        self._wait(lambda: self._line.ok(f"lag {self._group} --json").json["lag"] == 0)

    def is_consumed_again(self) -> None:
        self._wait(lambda: self._seen.count("order-6") >= 2 and self._seen.count("order-1") >= 3)
        letters = f"dead-letters list {self._group} --json"
        self._wait(lambda: len(self._line.ok(letters).json_lines) >= 2)

    def _wait(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + self._patience_s
        while not condition():
            assert time.monotonic() < deadline, f"it did not come about; consumed were {self._seen}"
            time.sleep(0.05)
