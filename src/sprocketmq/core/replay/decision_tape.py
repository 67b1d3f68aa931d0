# SPDX-License-Identifier: Apache-2.0
"""Recording what the machines of one consumer do. A driver that records has each machine behind a :class:`Door`:

    driver --call--> Door --the same call--> machine --effects--> driver
                      |                                  |
                      `-- {"on", "do", "with": input, "gives": effects} --> write(line)

Rules
1. Only the outermost call is recorded: calls that a machine makes to another one (a cursor puts messages into its process queue) are
   repeated when the outer call is replayed.
2. Input is written down as it was before the call, effects as they were right after it.
3. A call that repeats the one before and changed nothing is left out: an empty take, the same assignment again, one more poll of a
   queue that is held back (the last one of these is recorded, with their number).
4. ``state`` is complete: a record that begins with it can be replayed without what came before.

Not thread-safe but for ``note``: machines belong to the consumer's loop, listeners run in workers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from sprocketmq.core.consume.orderly_turn import OrderlyTurn
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor, PullDue, PullLater, PullReturned
from sprocketmq.core.group.allocation import allocate
from sprocketmq.core.group.rebalance import RebalanceTable
from sprocketmq.core.replay.decision_record import MACHINES, Codec, Line, state_of
from sprocketmq.wire.records.message import MessageQueue

C = TypeVar("C", bound=Callable[..., Any])

_NAMES: Final = {"RebalanceTable": "table", "ConsumeProgress": "progress", "ConsumeTimeout": "timeouts"}


class Door:
    """A machine as its driver has it while decisions are recorded: calls that change it, and inputs, pass the tape."""

    __slots__ = ("__weakref__", "_machine", "_name", "_recorded", "_subject", "_tape")

    def __init__(self, tape: Tape, machine: Any, name: str, subject: str) -> None:
        self._tape: Tape
        self._machine: Any
        for slot, value in zip(
            ("_tape", "_machine", "_name", "_subject", "_recorded"),
            (tape, machine, name, subject, MACHINES[type(machine).__name__]),
            strict=True,
        ):
            object.__setattr__(self, slot, value)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._machine, name)
        return partial(self._tape.call, self, name, value) if name in self._recorded.calls else value

    def __setattr__(self, name: str, value: object) -> None:
        changed = name in self._recorded.inputs and getattr(self._machine, name) != value
        setattr(self._machine, name, value)
        if changed:
            self._tape.given(self, name, value)

    def __contains__(self, key: object) -> bool:
        return key in self._machine


class Tape:
    """Writes down what the machines of one consumer do. ``write``: takes one line (without ``at``, which the caller
    adds: core has no clock). ``between``: called after each outermost call: all machines are at rest, ``state`` may be asked
    for."""

    def __init__(self, write: Callable[[Line], None], between: Callable[[], None]) -> None:
        self._write, self._between = write, between
        self._codec = Codec(_name_of)
        self._doors: weakref.WeakValueDictionary[str, Door] = weakref.WeakValueDictionary()
        self._inside = False
        self._times_taken_up: dict[MessageQueue, int] = {}
        self._turns = 0
        self._same: dict[object, object] = {}
        self._wants: dict[str, Any] = {}  # of each topic the last assignment that still counts
        self._progress: dict[str, Line] = {}  # the last call about a queue's progress; under "", about all
        self._held: dict[str, Line] = {}  # subject -> the last poll of a queue that is held back, not written yet

    def recorded(self, decides: C) -> C:
        """``decides``, a class of machines or a pure decision, such that what it makes and gives is written down."""
        made: object = partial(self._make, decides) if isinstance(decides, type) else partial(self._ask, decides)
        return cast(C, made)

    def _make(self, kind: type[Any], *args: Any, **named: Any) -> Door:
        name, subject = self._named(kind, args)
        line: Line = {"on": name, "new": kind.__name__, "with": [self._codec.encode(arg) for arg in args]}
        known = {key: self._codec.encode(value) for key, value in named.items()}
        if known:
            line["named"] = known
        self._write_held(subject)
        self._write(line)
        machine = kind(*args, **named)
        if isinstance(machine, RebalanceTable):
            machine.new_process_queue = self.recorded(ProcessQueue)
        elif isinstance(machine, ProcessQueue):
            machine.lock = cast(Any, self._door(machine.lock, f"{name} lock", name))
        return self._door(machine, name, subject)

    def _named(self, kind: type[Any], args: Sequence[Any]) -> tuple[str, str]:
        """The name of a new machine, and its subject: the name of the process queue that it is about."""
        if kind is ProcessQueue:  # one more life of a queue: ``topic/broker/id#1``, ``#2``, ..., each with its lock
            queue = args[0]
            self._times_taken_up[queue] = times = self._times_taken_up.get(queue, 0) + 1
            return f"{queue}#{times}", f"{queue}#{times}"
        if kind not in (PullCursor, OrderlyTurn):
            return _NAMES[kind.__name__], ""
        subject = _name_of(args[0]) or "?"
        if kind is PullCursor:
            return f"{subject} cursor", subject
        self._turns += 1
        return f"{subject} turn {self._turns}", subject

    def _door(self, machine: Any, name: str, subject: str) -> Door:
        self._doors[name] = door = Door(self, machine, name, subject)
        return door

    # -- what happens ----------------------------------------------------------------------------------------------------------

    def _ask(self, decide: Callable[..., Any], *args: object) -> Any:
        answer = decide(*args)
        line: Line = {
            "ask": decide.__name__,
            "with": [self._codec.encode(arg) for arg in args],
            "gives": self._codec.encode(answer),
        }
        # A rebalance of nothing new comes every 20 s for each topic.
        if decide is not allocate or not self._is_the_same(str(args[3:4]), line):
            self._write(line)
        return answer

    def note(self, fact: str, **details: object) -> None:
        """Something happened outside of the machines; may be called from any thread."""
        self._write({"note": fact, **{name: self._codec.encode(value) for name, value in details.items()}})

    def state(self) -> Line:
        """All living machines as they are now; ends the numbering of messages that was valid so far."""
        self._write_held(_ALL)
        self._codec.new_part()
        machines = []
        for name, door in list(self._doors.items()):
            state = {key: self._codec.encode(value) for key, value in state_of(door._machine).items()}
            machines.append([name, type(door._machine).__name__, state])
        return {"state": machines}

    def call(self, door: Door, do: str, method: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call the method of a machine, and record it."""
        if self._inside:
            return method(*args, **named)
        given = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]
        if do == "put":
            self._codec.arrived(given[0])
        elif do == "handle" and isinstance(given[0], PullReturned):
            self._codec.arrived(given[0].messages)
        line: Line = {"on": door._name, "do": do, "with": [self._codec.encode(arg) for arg in given]}
        if named:
            line["named"] = {key: self._codec.encode(value) for key, value in named.items()}
        self._inside = True
        try:
            result = method(*given, **named)
            line["gives"] = self._codec.encode(result)
        except Exception as error:
            line["raises"] = type(error).__name__
            raise
        finally:
            self._inside = False
            self._called(door, do, given, line)
        self._between()
        return result

    def given(self, door: Door, attribute: str, value: object) -> None:
        """A driver has set an input."""
        if not self._inside:
            line: Line = {"on": door._name, "set": attribute, "to": self._codec.encode(value)}
            self._write_held(door._subject)
            self._write(line)

    # -- rule 3 -----------------------------------------------------------------------------------------------------------------

    def _called(self, door: Door, do: str, args: Sequence[Any], line: Line) -> None:
        if do == "handle" and isinstance(args[0], PullDue) and _only_waits(line):
            self._polled(door._subject, line, args[1])
        elif not self._changed_nothing(do, line):
            self._write_held(_ALL if line["on"] == "table" else door._subject)
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

    def _polled(self, subject: str, line: Line, now_ms: int) -> None:
        before = self._held.get(subject)
        if before is not None and _poll_key(before) == _poll_key(line):
            line["again"] = before.get("again", 0) + 1
            self._held[subject] = {**line, "at": now_ms}
        else:
            self._write_held(subject)
            self._write(line)
            self._held[subject] = {**line, "written": True}

    def _write_held(self, subject: str) -> None:
        """Write the poll that was held back, before anything else happens to its queue (the table is about all of them)."""
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


def _poll_key(line: Line) -> tuple[object, object, object]:
    later = line["gives"][0][PullLater.__name__]
    # A reason with numbers in it changes with each message that is settled; its cause does not.
    return line["with"][0], later["delay_ms"], later["cause"] or later["reason"]


def _name_of(machine: object) -> str | None:
    return machine._name if isinstance(machine, Door) else None
