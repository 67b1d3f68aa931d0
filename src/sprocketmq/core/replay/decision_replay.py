# SPDX-License-Identifier: Apache-2.0
"""A decision record run again: recorded inputs go through the machines of this version, effects are compared with the recorded ones.

    line --"new", "state"--> machine          line --"with"--> that machine, here --effects--> equal to "gives"? else a Difference

Rules
1. A record of the same version replays without a difference: machines use no clock, no random numbers and no threads, so the record
   contains all of their input.
2. A difference is reported with both answers and never hidden; what follows it may be its consequence, so the first one counts.
3. Replaying touches nothing outside: no network, no file, no listener.

A difference says that the machine of this version decides otherwise than the one that recorded: a change between two versions, or,
within one version, an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.core.consume.consume_progress import decide_start
from sprocketmq.core.consume.orderly_turn import OrderlyTurn
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.group import allocation
from sprocketmq.core.group.rebalance import RebalanceTable
from sprocketmq.core.replay.decision_record import FORMAT, MACHINES, Codec, Line
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records.message import MessageQueue

_DECISIONS: Final[Mapping[str, Callable[..., Any]]] = {"allocate": allocation.allocate, "decide_start": decide_start}


@dataclass(frozen=True, slots=True)
class Difference:
    """What a machine of this version answers otherwise, at which line of the record."""

    line: int
    at_ms: int
    what: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"line {self.line}: {self.what} gave {self.recorded!r} when it was recorded, and gives {self.replayed!r} here"


@dataclass(slots=True)
class Step:
    """One line, replayed.

    Attributes: ``kind`` is "header", "state", "new", "set", "call", "ask" or "note"; ``on`` the machine's name and ``machine`` its class;
    ``do`` what was called, set, asked or noted; ``args`` and ``result`` values of this process (``result`` the machine's own answer; of a
    state, ``args`` are the process queues it brought, with their names); ``facts`` those of a note or the header; ``again`` how many like
    it were left out before.
    """

    line: int
    at_ms: int
    kind: str
    on: str = ""
    machine: str = ""
    do: str = ""
    args: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    again: int = 0
    difference: Difference | None = None


class Replay:
    """The machines of one consumer, as its record makes them.

    Attributes: ``header`` (of the last part), ``machines`` by name, ``differences``, ``calls`` (how many were compared).
    """

    def __init__(self) -> None:
        self.header: Line = {}
        self.machines: dict[str, Any] = {}
        self.differences: list[Difference] = []
        self.calls = 0
        self._names: dict[int, str] = {}
        self._codec = Codec(lambda machine: self._names.get(id(machine)), self._machine)
        self._announced: dict[MessageQueue, deque[ProcessQueue]] = {}
        self._turns: dict[int, str] = {}

    def run(self, lines: Iterable[Line]) -> Iterator[Step]:
        """Replay ``lines`` one by one. Raises ProtocolError (the first line is no header of a format that this version reads, or a
        line is none at all)."""
        for number, line in enumerate(lines, 1):
            if not self.header and "record" not in line:
                raise ProtocolError("the file does not begin with the header of a decision record")
            yield self.step(line, number)

    def step(self, line: Line, number: int = 0) -> Step:
        at_ms = line.get("at", 0)
        if "do" in line:
            return self._call(line, number, at_ms)
        if "note" in line:
            facts = {name: self._codec.decode(value) for name, value in line.items() if name not in ("at", "note")}
            return Step(number, at_ms, "note", do=line["note"], facts=facts)
        if "set" in line:
            return self._set(line, number, at_ms)
        if "new" in line:
            args, named = self._codec.decode(line["with"]), self._decoded(line)
            self._make(line["on"], line["new"], args, named)
            return Step(number, at_ms, "new", line["on"], line["new"], line["new"], args, named)
        if "ask" in line:
            return self._ask(line, number, at_ms)
        if "state" in line:
            if self.machines:  # the part before is here as well, and its machines go on
                return Step(number, at_ms, "state")
            self._restore(line["state"])
            queues = [(name, one) for name, one in self.machines.items() if isinstance(one, ProcessQueue)]
            return Step(number, at_ms, "state", args=[(name, one) for name, one in queues if not one.dropped])
        if "record" in line:
            if line["record"] != FORMAT:
                raise ProtocolError(f"the record has format {line['record']!r}, this version reads {FORMAT}")
            self.header = line
            return Step(number, at_ms, "header", facts=line)
        raise ProtocolError(f"line {number} of the record says nothing that this version knows: {sorted(line)}")

    # -- machines ----------------------------------------------------------------------------------------------------------------

    def _machine(self, name: str) -> Any:
        try:
            return self.machines[name]
        except KeyError:
            raise ProtocolError(f"the record names {name!r} and never created it") from None

    def _make(self, name: str, kind: str, args: list[Any], named: dict[str, Any]) -> None:
        if kind not in MACHINES:
            raise ProtocolError(f"this version knows no machine {kind}")
        made = MACHINES[kind].machine
        if made is RebalanceTable:
            named["new_process_queue"] = self._next_announced
        machine = made(*args, **named)
        self._register(name, machine)
        if isinstance(machine, ProcessQueue):
            self._register(f"{name} lock", machine.lock)
            if machine.queue is not None:
                self._announced.setdefault(machine.queue, deque()).append(machine)
        elif isinstance(machine, OrderlyTurn):
            queue = id(machine.process_queue)
            self._forget(self._turns.get(queue))  # one at a time per queue: the one before is over
            self._turns[queue] = name

    def _register(self, name: str, machine: Any) -> None:
        self.machines[name] = machine
        self._names[id(machine)] = name

    def _forget(self, name: str | None) -> None:
        machine = self.machines.pop(name, None) if name is not None else None
        if machine is not None:
            del self._names[id(machine)]

    def _next_announced(self, queue: MessageQueue, now_ms: int) -> ProcessQueue:
        """The process queue that the record announced; a new one where this version's table takes up more than the recorded one."""
        waiting = self._announced.get(queue)
        return waiting.popleft() if waiting else ProcessQueue(queue, now_ms)

    def _restore(self, states: list[Any]) -> None:
        for name, kind, _ in states:
            if kind not in MACHINES:
                raise ProtocolError(f"this version knows no machine {kind}")
            machine: Any = MACHINES[kind].machine
            self._register(name, object.__new__(machine))
        for name, kind, state in states:
            machine = self.machines[name]
            attributes = {attribute: self._codec.decode(value) for attribute, value in state.items()}
            try:
                for attribute, value in attributes.items():
                    setattr(machine, attribute, value)
            except AttributeError as error:
                raise ProtocolError(
                    f"this version's {kind} cannot continue from the recorded state: {error}"
                ) from error
            if isinstance(machine, RebalanceTable):
                machine.new_process_queue = self._next_announced

    # -- what is compared --------------------------------------------------------------------------------------------------------

    def _call(self, line: Line, number: int, at_ms: int) -> Step:
        name, do = line["on"], line["do"]
        machine = self._machine(name)
        step = Step(number, at_ms, "call", name, type(machine).__name__, do, again=line.get("again", 0))
        step.args, step.named = self._codec.decode(line["with"]), self._decoded(line)
        self.calls += 1
        try:
            step.result = getattr(machine, do)(*step.args, **step.named)
            replayed = self._codec.encode(step.result)
        except Exception as error:  # noqa: BLE001 - whatever a machine raises is its answer, and compared as such
            replayed = {"raises": type(error).__name__}
        recorded = {"raises": line["raises"]} if "raises" in line else _by_number(line.get("gives"))
        self._compare(step, f"{do} of {name}", recorded, replayed)
        return step

    def _set(self, line: Line, number: int, at_ms: int) -> Step:
        machine, value = self._machine(line["on"]), self._codec.decode(line["to"])
        setattr(machine, line["set"], value)
        return Step(number, at_ms, "set", line["on"], type(machine).__name__, line["set"], [value])

    def _ask(self, line: Line, number: int, at_ms: int) -> Step:
        step = Step(number, at_ms, "ask", do=line["ask"])
        recorded = _by_number(line["gives"])
        if any(isinstance(arg, dict) and "unlike" in arg for arg in line["with"]) or line["ask"] not in _DECISIONS:
            # A strategy of the user's own cannot be in a file; its answer can.
            step.args = [
                None if isinstance(arg, dict) and "unlike" in arg else self._codec.decode(arg) for arg in line["with"]
            ]
            step.result = self._codec.decode(line["gives"])
            return step
        step.args = self._codec.decode(line["with"])
        self.calls += 1
        step.result = _DECISIONS[step.do](*step.args)
        self._compare(step, step.do, recorded, self._codec.encode(step.result))
        return step

    def _compare(self, step: Step, what: str, recorded: Any, replayed: Any) -> None:
        if recorded != replayed:
            step.difference = Difference(step.line, step.at_ms, what, recorded, replayed)
            self.differences.append(step.difference)

    def _decoded(self, line: Line) -> dict[str, Any]:
        return {name: self._codec.decode(value) for name, value in line.get("named", {}).items()}


def _by_number(value: Any) -> Any:
    """Replace messages that are written in full by their numbers, so that effects can be compared."""
    if isinstance(value, list):
        return [_by_number(item) for item in value]
    if isinstance(value, dict):
        message = value.get("message")
        if isinstance(message, dict):
            return {"message": message["n"]}
        return {key: _by_number(item) for key, item in value.items()}
    return value
