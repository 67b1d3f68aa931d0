# SPDX-License-Identifier: Apache-2.0
"""A group of Java and Python members through random joins, leaves and kills, under load; everything seen goes into a `History`.

Each step sends a burst, lets one thing happen to the group, and goes on when some more messages were consumed. A member that may be killed
has a process of its own; Java members that only leave share one JVM. Orderly queues of a killed member stay locked at the broker for up to
60 s: meanwhile the storm goes on with the others.

A slow machine only makes it slow: a wait fails when for _PATIENCE_S nothing at all was consumed or shared out anew, and a send that is
refused or gets no answer is followed by another message, never by the same once more. Apache's own client may give up when it starts and a
broker does not take its request in time: such a member is taken out of the group, and counted.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import sprocketmq as rmq
from interop.child import HANG_S, Child, JsonLines, poll_until
from interop.group_history import History
from interop.java_program import JavaProgram

_PATIENCE_S: Final = 240.0
_SEND_TIMEOUT_MS: Final = 20_000
_MOST_MEMBERS: Final = 6  # fewer than queues
_NO_ANSWER: Final = re.compile(r"Remoting(?:SendRequest|Timeout|Connect|TooMuchRequest)Exception")
_PROGRAM: Final = Path(__file__).with_name("group_member.py")


class _Python(JsonLines):
    """group_member.py in a process of its own."""

    def __init__(self, log_path: Path, *args: str) -> None:
        super().__init__()
        self.child = Child([sys.executable, str(_PROGRAM), *args], log_path)

    def read_line(self, timeout_s: float = HANG_S) -> str:
        return self.child.read_line(timeout_s)


class Member:
    """One member, of either language. ``queues`` is what it last said it has; ``gave_up``: Apache's client could not start."""

    def __init__(self, name: str, program: JavaProgram | _Python, history: History, *, mortal: bool) -> None:
        self.name, self.mortal = name, mortal
        self.queues: set[int] = set()
        self._program, self._history = program, history
        self._is_over = self.gave_up = self._consumes = False

    def look(self) -> None:
        """Take in what it has said since the last look."""
        with contextlib.suppress(TimeoutError):
            while not self._is_over:
                self._take(self._program.read(0))

    def leave(self) -> None:
        """End in the orderly way, and take in the last words."""
        program = self._program
        if isinstance(program, JavaProgram):
            program.close_input()
        else:
            program.child.close_input()
        self._read_to_the_end()
        code = program.stop() if isinstance(program, JavaProgram) else program.child.stop()
        assert code == 0 or self.gave_up, program.read_line

    def kill(self) -> None:
        """SIGKILL; what it had said before is still read."""
        program = self._program
        run: Any = program._run if isinstance(program, JavaProgram) else program.child
        assert isinstance(run, Child), "a shared JVM is not killed"
        run.kill()
        at = time.monotonic_ns()
        self._read_to_the_end()
        self._history.died(self.name, at)
        if isinstance(program, JavaProgram):
            program.stop()

    def _read_to_the_end(self) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(EOFError):
            while True:
                self._take(self._program.read(end_s - time.monotonic()))
        self._is_over = True

    def _take(self, line: dict[str, Any]) -> None:
        event = line["event"]
        self._consumes |= event in ("ready", "begin")
        if event == "begin":
            self._history.began(self.name, (line["queueId"], line["offset"]), line["body"], line["at"])
        elif event == "end":
            self._history.ended(self.name, (line["queueId"], line["offset"]), line["at"])
        elif event == "allocated":
            self.queues = {int(number) for number in line["queues"].split(",") if number}
        elif event == "failed":
            assert isinstance(self._program, JavaProgram), line
            assert not self._consumes, line
            assert _NO_ANSWER.search(line["why"]), line
            self.queues, self.gave_up, self._is_over = set(), True, True


class GroupStorm:
    """The driver. ``with`` ends whatever still runs.

    Args:
        namesrv_addr, topic, group: where; the topic has ``queues`` queues and is the storm's alone.
        java_version: of the Java members' client library.
        seed: of everything random here.
        kills: whether members are killed, too.
    """

    def __init__(
        self,
        namesrv_addr: str,
        topic: str,
        group: str,
        *,
        queues: int,
        orderly: bool,
        java_version: str,
        seed: int,
        kills: bool = True,
    ) -> None:
        self.history = History(queues=queues, orderly=orderly)
        self.happened: Counter[str] = Counter()
        self.refused_sends = 0
        self._namesrv_addr, self._topic, self._group = namesrv_addr, topic, group
        self._java_version, self._kills = java_version, kills
        self._dice = random.Random(seed)
        self._members: list[Member] = []
        self._numbers, self._bodies = itertools.count(1), itertools.count(1)
        self._logs = tempfile.TemporaryDirectory(prefix="group-storm-")
        self._producer = rmq.Producer(f"storm-{group}", namesrv_addr=namesrv_addr, send_msg_timeout_ms=_SEND_TIMEOUT_MS)

    def __enter__(self) -> GroupStorm:
        self._producer.start()
        self._join("java")
        self._join("python")
        return self

    def __exit__(self, *failure: object) -> None:
        for member in self._members:
            with contextlib.suppress(Exception):
                (member.kill if member.mortal else member.leave)()
        self._producer.shutdown()
        self._logs.cleanup()

    # -- the storm ---------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A burst, one event, and a little progress."""
        self._send(self._dice.randint(20, 60))
        self._happen()
        wanted = len(self.history.finished) + self._dice.randint(5, 25)
        self._wait(
            lambda: len(self.history.finished) >= min(wanted, len(self.history.sent)), "some messages are consumed"
        )

    def settle(self) -> None:
        """No more events: everything is consumed, every queue has one owner, and each owner still consumes what is sent then."""
        self._wait(lambda: self.history.sent.keys() <= self.history.finished, "every message is consumed")
        self._wait(self._is_shared_out, "each queue has one owner")
        self._send(4 * self.history.queues)
        self._wait(lambda: self.history.sent.keys() <= self.history.finished, "every message is consumed")
        self.history.settled = {member.name: sorted(member.queues) for member in self._members}

    def _is_shared_out(self) -> bool:
        """Each member has its part. With fewer members than queues nobody's is empty once everybody knows of everybody, and not before."""
        return all(member.queues for member in self._members) and sorted(
            itertools.chain(*(member.queues for member in self._members))
        ) == list(range(self.history.queues))

    def _happen(self) -> None:
        mortal = [member for member in self._members if member.mortal]
        choices: dict[str, Callable[[], None]] = {}
        if len(self._members) < _MOST_MEMBERS:
            choices["join"] = lambda: self._join(self._dice.choice(("java", "python")))
        if len(self._members) > 1:
            choices["leave"] = lambda: self._take_out(self._dice.choice(self._members)).leave()
            if mortal and self._kills:
                choices["kill"] = lambda: self._take_out(self._dice.choice(mortal)).kill()
        what = self._dice.choice(sorted(choices))
        self.happened[what] += 1
        choices[what]()

    def _take_out(self, member: Member) -> Member:
        self._members.remove(member)
        return member

    def _join(self, language: str) -> None:
        name = f"{language}-{next(self._numbers)}"
        kind = "orderly" if self.history.orderly else "concurrent"
        # Only who may be killed needs a JVM of its own, which takes seconds to start.
        mortal = language == "python" or (self._kills and self._dice.random() < 0.3)
        self.happened[f"{language} members"] += 1
        program: JavaProgram | _Python
        if language == "python":
            log_path = Path(self._logs.name) / f"{name}.log"
            program = _Python(log_path, self._namesrv_addr, self._group, self._topic, kind, "2")
        else:
            program = JavaProgram(
                self._java_version,
                "GroupMember",
                jvm_flags=("-Xms32m",) if mortal else (),
                namesrv=self._namesrv_addr,
                group=self._group,
                topic=self._topic,
                instance=f"{self._group}-{name}",
                orderly=self.history.orderly,
                work_ms=2,
            )
        self._members.append(Member(name, program, self.history, mortal=mortal))

    # -- load and waiting --------------------------------------------------------------------------------------------------------

    def _send(self, count: int) -> None:
        queues = self._producer.publish_queues(self._topic)
        for _ in range(count):
            queue = self._dice.choice(queues)
            poll_until(partial(self._try_to_send, queue), "a send succeeds", _PATIENCE_S)

    def _try_to_send(self, queue: rmq.MessageQueue) -> bool:
        body = f"message {next(self._bodies)}"
        try:
            result = self._producer.send(rmq.Message(self._topic, body.encode()), queue=queue)
        except (rmq.RemoteError, rmq.ConnectFailed, rmq.TooMuchRequest):
            # Not stored: an Apache broker on a busy machine refuses what waited 200 ms.
            self.refused_sends += 1
            return False
        except (rmq.RequestTimeout, rmq.ConnectionLost):
            self.history.doubtful.add(body)
            return False
        self.history.sent[result.message_queue.queue_id, result.queue_offset] = body
        return True

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until the condition holds; what has been reached already renews the patience, deliveries that come again do not."""

        def holds() -> bool:
            for member in self._members.copy():
                member.look()
                if member.gave_up:
                    self.happened["gave up"] += 1
                    self._take_out(member).leave()
            return condition() or self._reached() != reached

        while not condition():
            reached = self._reached()
            try:
                poll_until(holds, what, _PATIENCE_S)
            except TimeoutError as late:
                missing = sorted(self.history.sent.keys() - self.history.finished)[:20]
                raise TimeoutError(
                    f"{late}; members {reached[1]}, first missing {missing}, so far {dict(self.happened)}"
                ) from None

    def _reached(self) -> tuple[int, dict[str, list[int]]]:
        return len(self.history.finished), {member.name: sorted(member.queues) for member in self._members}
