# SPDX-License-Identifier: Apache-2.0
"""Machines that record what they do: subclasses that pass each input and its effects to a :class:`Tape`.

    driver --call--> recorded machine --the same call--> the machine itself --effects--> driver
                            |                                                    |
                            `---- {"on", "do", "with": input, "gives": effects} -'--> write(line)

A driver that records makes its machines here instead of by their classes; nothing else differs. So a consumer that does not record uses
the machines' own classes, at no cost.

Laws
1. Only the outermost call is recorded: calls that a machine makes to another one (a cursor puts messages into its process queue) are
   repeated when the outer call is replayed.
2. Input is written down as it was before the call, effects as they were right after it.
3. A call that repeats the one before and changed nothing is left out: an empty take, the same assignment again, one more look at a
   queue that is held back (the last one of these is recorded, with their number).
4. ``state`` is complete: a record that begins with it can be replayed without what came before.

Not thread-safe but for ``note``: machines belong to the consumer's loop, listeners run in workers.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from sprocketmq.core.consume.consume_progress import ConsumeProgress
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout
from sprocketmq.core.consume.orderly_turn import OrderlyTurn
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor, PullDue, PullLater
from sprocketmq.core.consume.queue_lock import LocalQueueLock
from sprocketmq.core.group.rebalance import RebalanceTable
from sprocketmq.core.replay.decision_record import MACHINES, Codec, Line, Recorded, state_of
from sprocketmq.wire.records.message import MessageQueue

M = TypeVar("M")


class Tape:
    """Makes the machines of one consumer, and writes down what they do. ``write``: takes one line (without ``at``, which the caller
    adds: core has no clock). ``between``: called after each outermost call: all machines are at rest, ``state`` may be asked
    for."""

    def __init__(self, write: Callable[[Line], None], between: Callable[[], None]) -> None:
        self._write, self._between = write, between
        self._codec = Codec(_name_of)
        self._machines: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._inside = False
        self._times_taken_up: dict[MessageQueue, int] = {}
        self._turns = 0
        self._same: dict[object, object] = {}
        self._wants: dict[str, Any] = {}  # of each topic the last assignment that still counts
        self._progress: dict[str, Line] = {}  # the last call about a queue's progress; under "", about all
        self._held: dict[str, Line] = {}  # subject -> the last look at a queue that is held back, not written yet

    # -- machines --------------------------------------------------------------------------------------------------------------

    def rebalance_table(self) -> RebalanceTable:
        return self._new(RebalanceTable, "table", "", new_process_queue=self.process_queue)

    def process_queue(self, queue: MessageQueue, now_ms: int) -> ProcessQueue:
        """One more life of a queue: ``topic/broker/id#1``, ``#2``, ..., each with its lock."""
        self._times_taken_up[queue] = times = self._times_taken_up.get(queue, 0) + 1
        name = f"{queue}#{times}"
        process_queue = self._new(ProcessQueue, name, name, queue, now_ms)
        process_queue.lock = self._make(LocalQueueLock, f"{name} lock", name, (), {})
        return process_queue

    def pull_cursor(self, process_queue: ProcessQueue, next_offset: int, **settings: Any) -> PullCursor:
        name = _name_of(process_queue) or "?"
        return self._new(PullCursor, f"{name} cursor", name, process_queue, next_offset, **settings)

    def consume_progress(self) -> ConsumeProgress:
        return self._new(ConsumeProgress, "progress", "")

    def consume_timeout(self, limit_ms: int) -> ConsumeTimeout[Any]:
        return self._new(ConsumeTimeout, "timeouts", "", limit_ms)

    def orderly_turn(self, process_queue: ProcessQueue, **settings: Any) -> OrderlyTurn:
        self._turns += 1
        name = _name_of(process_queue) or "?"
        return self._new(OrderlyTurn, f"{name} turn {self._turns}", name, process_queue, **settings)

    def _new(self, kind: type[M], name: str, subject: str, /, *args: Any, **named: Any) -> M:
        line: Line = {"on": name, "new": kind.__name__, "with": [self._codec.encode(arg) for arg in args]}
        known = {key: self._codec.encode(value) for key, value in named.items() if not callable(value)}
        if known:
            line["named"] = known
        self._settle(subject)
        self._write(line)
        return self._make(kind, name, subject, args, named)

    def _make(self, kind: type[M], name: str, subject: str, args: Sequence[Any], named: Mapping[str, Any]) -> M:
        recorded: Any = _RECORDED[kind]
        machine = recorded.__new__(recorded)
        inside, self._inside = self._inside, True  # what the constructor sets is not an input
        machine._record_tape, machine._record_name, machine._record_subject = self, name, subject
        try:
            machine.__init__(*args, **named)
        finally:
            self._inside = inside
        self._machines[name] = machine
        return machine  # type: ignore[no-any-return]

    # -- what happens ----------------------------------------------------------------------------------------------------------

    def ask(self, decision: str, args: Sequence[object], answer: object) -> None:
        """A pure decision was made: ``allocate`` or ``decide_start``."""
        line: Line = {
            "ask": decision,
            "with": [self._codec.encode(arg) for arg in args],
            "gives": self._codec.encode(answer),
        }
        # A rebalance of nothing new comes every 20 s for each topic.
        if decision == "allocate" and self._is_the_same((decision, str(args[3:4])), line):
            return
        self._write(line)

    def note(self, fact: str, **details: object) -> None:
        """Something happened outside of the machines; may be called from any thread."""
        self._write({"note": fact, **{name: self._codec.encode(value) for name, value in details.items()}})

    def state(self) -> Line:
        """All living machines as they are now; ends the numbering of messages that was valid so far."""
        self._settle(_ALL)
        self._codec.new_part()
        machines = []
        for name, machine in list(self._machines.items()):
            kind = _kind_of(machine)
            state = {key: self._codec.encode(value) for key, value in state_of(machine, kind).items()}
            machines.append([name, kind.__name__, state])
        return {"state": machines}

    def call(
        self, machine: Any, do: str, original: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        """Call the method of ``machine``, and record it. Used by the recorded machines only."""
        if self._inside:
            return original(machine, *args, **named)
        args = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]
        name: str = machine._record_name
        line: Line = {"on": name, "do": do, "with": [self._codec.encode(arg) for arg in args]}
        if named:
            line["named"] = {key: self._codec.encode(value) for key, value in named.items()}
        self._inside = True
        try:
            result = original(machine, *args, **named)
            line["gives"] = self._codec.encode(result)
        except Exception as error:
            line["raises"] = type(error).__name__
            raise
        finally:
            self._inside = False
            self._take(machine, do, args, line)
        self._between()
        return result

    def given(self, machine: Any, attribute: str, value: object) -> None:
        """A driver sets an attribute. Used by the recorded machines only."""
        if not self._inside:
            name: str = machine._record_name
            line: Line = {"on": name, "set": attribute, "to": self._codec.encode(value)}
            self._settle(machine._record_subject)
            self._write(line)

    # -- law 3 -----------------------------------------------------------------------------------------------------------------

    def _take(self, machine: Any, do: str, args: Sequence[Any], line: Line) -> None:
        if do == "handle" and isinstance(args[0], PullDue) and _only_waits(line):
            self._look(machine._record_subject, line, args[1])
        elif not self._changed_nothing(do, line):
            self._settle(_ALL if _kind_of(machine) is RebalanceTable else machine._record_subject)
            self._write(line)

    def _changed_nothing(self, do: str, line: Line) -> bool:
        given, gives = line["with"], line.get("gives")
        if do in ("take", "expired"):
            return gives == []
        if line["on"] == "table":
            return self._wants_stayed(do, given, gives)
        if line["on"] == "progress":
            return self._progress_stayed(do, line)
        return False

    def _wants_stayed(self, do: str, given: Sequence[Any], gives: object) -> bool:
        """Whether the table wants what it wanted before. Without an effect, too, an assignment may put back what a subscription took."""
        known = self._wants
        if do == "assigned":
            topic, queues = given[0], given[1]
            stayed: bool = known.get(topic) == queues
            known[topic] = queues
            return stayed and gives == []
        if do == "subscribed":
            gone = [topic for topic in known if topic not in given[0]]
            for topic in gone:
                del known[topic]
            return self._is_the_same(do, given[0]) and not gone and gives == []
        if do == "drop_all":
            known.clear()
        return False

    def _progress_stayed(self, do: str, line: Line) -> bool:
        known = self._progress
        if do == "to_persist":
            # The same twice in a row forgets nothing more; after anything else it may forget a queue that is not owned.
            stayed = known == {"": line}
            known.clear()
            known[""] = line
            return stayed
        if do == "load":
            known.clear()
            return False
        queue = line["with"][0]["queue"]
        if known.get(queue) == line:
            return True
        known.pop("", None)
        known[queue] = line
        return False

    def _look(self, subject: str, line: Line, now_ms: int) -> None:
        before = self._held.get(subject)
        if before is not None and _look_key(before) == _look_key(line):
            line["again"] = before.get("again", 0) + 1
            self._held[subject] = {**line, "at": now_ms}
        else:
            self._settle(subject)
            self._write(line)
            self._held[subject] = {**line, "written": True}

    def _settle(self, subject: str) -> None:
        """Write the look that was kept back, before anything else happens to its queue (the table of queues looks at all)."""
        if not self._held:
            return
        for name in list(self._held) if subject == _ALL else [subject]:
            line = self._held.pop(name, None)
            if line is not None and "written" not in line:
                self._write(line)

    def _is_the_same(self, key: object, value: object) -> bool:
        if self._same.get(key) == value:
            return True
        self._same[key] = value
        return False


_ALL: Final = "*"


def _only_waits(line: Line) -> bool:
    gives = line.get("gives")
    return isinstance(gives, list) and len(gives) == 1 and PullLater.__name__ in gives[0]


def _look_key(line: Line) -> tuple[object, object, object]:
    later = line["gives"][0][PullLater.__name__]
    # A reason with numbers in it changes with each message that is settled; its cause does not.
    return line["with"][0], later["delay_ms"], later["cause"] or later["reason"]


def _name_of(machine: object) -> str | None:
    return getattr(machine, "_record_name", None)


def _kind_of(machine: object) -> type[Any]:
    return type(machine).__mro__[1]


def _recorded(recorded: Recorded) -> type[Any]:
    kind = recorded.machine

    def tapped(do: str) -> Callable[..., Any]:
        original = getattr(kind, do)

        @functools.wraps(original)
        def call(self: Any, *args: Any, **named: Any) -> Any:
            return self._record_tape.call(self, do, original, args, named)

        return call

    members: dict[str, Any] = {do: tapped(do) for do in recorded.calls}
    if recorded.inputs:

        def set_attribute(self: Any, name: str, value: object) -> None:
            changed = name in recorded.inputs and getattr(self, name, None) != value
            object.__setattr__(self, name, value)
            if changed:
                self._record_tape.given(self, name, value)

        members["__setattr__"] = set_attribute
    return type(f"Recorded{kind.__name__}", (kind,), members)


_RECORDED: Final = {recorded.machine: _recorded(recorded) for recorded in MACHINES.values()}
