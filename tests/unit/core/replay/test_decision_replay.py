# SPDX-License-Identifier: Apache-2.0
"""core.decision_record, decision_tape and decision_replay: whatever machines do, their record does it again."""

from __future__ import annotations

import inspect
import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.core.consume import pull_cursor
from sprocketmq.core.consume.consume_progress import ConsumeFromWhere, ConsumeProgress, decide_start
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout
from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.core.consume.orderly_turn import ConsumeBatch, ConsumeOrderlyStatus, DeadLetterNeeded, OrderlyTurn
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor, PullDue, PullEvent, PullStatus
from sprocketmq.core.group import allocation
from sprocketmq.core.group.rebalance import DropReason, RebalanceTable
from sprocketmq.core.replay.decision_record import MACHINES, Line, queue_text, read_lines, state_of
from sprocketmq.core.replay.decision_replay import Replay
from sprocketmq.core.replay.decision_tape import Tape
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records.message import MessageExt, MessageQueue

from ..messages import QUEUE, message, messages

QUEUES = [MessageQueue("flights", "broker-a", number) for number in range(3)]
HEADER: Line = {"record": 1, "run": "test", "part": 0, "group": "delays", "settings": {}}
# What is only looked at: everything else that a machine can be told to do has to be in its record.
LOOKS = {
    "ProcessQueue": {"in_flight", "is_in_flight", "is_pull_expired", "snapshot", "check_invariants"},
    "LocalQueueLock": {"is_expired", "is_ours", "is_valid"},
    "PullCursor": set(),
    "RebalanceTable": {"get", "active", "life", "check_invariants"},
    "ConsumeProgress": {"read", "snapshot", "check_invariants"},
    "ConsumeTimeout": {"next_deadline_ms", "check_invariants"},
    "OrderlyTurn": set(),
}


class Recording:
    """A tape whose lines go through JSON, as they do in a file."""

    def __init__(self) -> None:
        self.lines: list[Line] = [HEADER]
        self.tape = Tape(self.write, lambda: None)

    def write(self, line: Line) -> None:
        self.lines.append(json.loads(json.dumps({"at": 0, **line})))

    def replayed(self, lines: list[Line] | None = None) -> Replay:
        replay = Replay()
        for _ in replay.run(self.lines if lines is None else lines):
            pass
        return replay


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.mark.parametrize("name", MACHINES)
def test_everything_that_changes_a_machine_is_recorded(name):
    kind = MACHINES[name].machine
    verbs = {verb for verb, _ in inspect.getmembers(kind, inspect.isfunction) if not verb.startswith("_")}
    assert verbs == {*MACHINES[name].calls, *LOOKS[name]}, "a new method: is it an input (MACHINES) or a look?"


def test_a_record_holds_no_body_and_no_user_property(recording):
    queue = recording.tape.recorded(ProcessQueue)(QUEUE, 0)
    secret = MessageExt("flights", b"secret body", queue_offset=3, keys="k1", tags="UA", properties={"card": "secret"})
    queue.put([secret])
    text = json.dumps(recording.lines)
    assert "secret" not in text
    assert "card" not in text
    (spelt,) = recording.lines[-1]["with"][0]
    assert (spelt["message"]["size"], spelt["message"]["keys"], spelt["message"]["tags"]) == (11, ["k1"], "UA")


def test_a_message_is_spelt_out_once_and_stays_picklable(recording):
    queue = recording.tape.recorded(ProcessQueue)(QUEUE, 0)
    one = message(3)
    queue.put([one])
    queue.take(1, 5)
    assert recording.lines[-1]["gives"] == [{"message": 1}]
    assert pickle.loads(pickle.dumps(one)).queue_offset == 3


def test_a_message_has_another_number_than_the_one_that_was_where_it_is_in_memory(recording):
    queue = recording.tape.recorded(ProcessQueue)(QUEUE, 0)
    one = message(3)
    queue.put([one])
    queue.put([one])  # pulled a second time
    one.commit_log_offset = 7  # another record, which no machine has
    for _ in range(2):
        recording.tape.note("listener_began", messages=[one])
    spelt = [line.get("with", [line.get("messages")])[0][0]["message"] for line in recording.lines[2:]]
    assert [one if isinstance(one, int) else one["n"] for one in spelt] == [1, 2, 3, 3]


def test_what_a_machine_does_inside_of_another_is_not_recorded_twice(recording):
    queue = recording.tape.recorded(ProcessQueue)(QUEUE, 0)
    cursor = recording.tape.recorded(PullCursor)(queue, 0)
    before = len(recording.lines)
    cursor.handle(pull_cursor.PullReturned(PullStatus.FOUND, 2, messages(0, 1)), 5)
    assert [line["on"] for line in recording.lines[before:]] == ["flights/broker-a/0#1 cursor"]
    machines = recording.replayed().machines
    assert machines["flights/broker-a/0#1"].count == 2


def test_looks_at_a_queue_that_is_held_back_are_recorded_as_one(recording):
    queue = recording.tape.recorded(ProcessQueue)(QUEUE, 0)
    cursor = recording.tape.recorded(PullCursor)(queue, 0, limits=FlowLimits(max_count=1))
    queue.put(messages(0, 1, 2))
    before = len(recording.lines)
    for now_ms in range(0, 5_000, 50):
        cursor.handle(PullDue(), now_ms)
    queue.take(2, 5_000)
    looks = [line for line in recording.lines[before:] if line.get("do") == "handle"]
    assert [line.get("again", 0) for line in looks] == [0, 99]
    assert recording.replayed().machines["flights/broker-a/0#1"].last_pull_ms == 4_950


def test_an_assignment_that_repeats_itself_is_recorded_once(recording):
    table = recording.tape.recorded(RebalanceTable)()
    table.assigned("flights", QUEUES[:1], 0)
    table.added(QUEUES[0], 0)
    before = len(recording.lines)
    for now_ms in range(0, 100_000, 20_000):
        assert table.assigned("flights", QUEUES[:1], now_ms) == []
    assert len(recording.lines) == before
    table.assigned("flights", QUEUES[:2], 0)
    assert len(recording.lines) == before + 2  # the new process queue and the assignment
    assert recording.replayed().differences == []


def takes_away_by_subscription(table: RebalanceTable) -> None:
    table.subscribed([])


def takes_away_by_shutdown(table: RebalanceTable) -> None:
    table.drop_all()


@pytest.mark.parametrize("takes_away", [takes_away_by_subscription, takes_away_by_shutdown])
def test_an_assignment_is_recorded_again_when_it_was_taken_away_meanwhile(recording, takes_away):
    """It has no effect while the queue is still being dropped, but decides what becomes of the queue then."""
    table = recording.tape.recorded(RebalanceTable)()
    table.assigned("flights", QUEUES[:1], 0)
    table.added(QUEUES[0], 0)
    takes_away(table)
    assert table.assigned("flights", QUEUES[:1], 1) == []
    assert [str(effect.queue) for effect in table.removed(QUEUES[0], 2)] == ["flights/broker-a/0"]
    assert recording.replayed().differences == []


def test_a_subscription_is_recorded_again_when_it_takes_something_away(recording):
    table = recording.tape.recorded(RebalanceTable)()
    table.subscribed(["flights"])
    for number in (1, 2):
        table.assigned("others", [MessageQueue("others", "broker-a", 0)], number)
        table.add_failed(MessageQueue("others", "broker-a", 0))
        assert table.subscribed(["flights"]) == []
    replay = recording.replayed()
    assert replay.differences == []
    assert replay.machines["table"].is_balanced
    assert table.is_balanced


def test_an_input_is_recorded_again_when_the_machine_has_changed_it(recording):
    cursor = recording.tape.recorded(PullCursor)(recording.tape.recorded(ProcessQueue)(QUEUE, 0), 0)
    cursor.next_offset = 5
    cursor.handle(pull_cursor.PullReturned(PullStatus.FOUND, 7, messages(5, 6)), 1)
    cursor.next_offset = 5
    cursor.next_offset = 5
    assert [line["to"] for line in recording.lines if "set" in line] == [5, 5]
    assert recording.replayed().machines["flights/broker-a/0#1 cursor"].next_offset == 5


def test_progress_that_was_removed_and_set_again_is_recorded_again(recording):
    progress = recording.tape.recorded(ConsumeProgress)()
    progress.update(QUEUE, 3)
    progress.update(QUEUE, 3)
    progress.to_persist([])
    progress.update(QUEUE, 3)
    assert [line["do"] for line in recording.lines[2:]] == ["update", "to_persist", "update"]
    assert recording.replayed().machines["progress"].read(QUEUE) == 3


def test_an_exception_of_a_machine_is_part_of_its_record(recording):
    timeouts = recording.tape.recorded(ConsumeTimeout)(1_000)
    with pytest.raises(ValueError):
        timeouts.sent_back(message(0))
    assert recording.lines[-1]["raises"] == "ValueError"
    assert recording.replayed().differences == []


def test_pure_decisions_are_made_again(recording):
    args = (allocation.AVG, "delays", "b", QUEUES, ["a", "b"])
    asked = (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "flights", -1, 0)
    for _ in range(2):  # a rebalance of nothing new is written once
        assert recording.tape.recorded(allocation.allocate)(*args) == allocation.allocate(*args)
        recording.tape.recorded(decide_start)(*asked)
    assert [line["ask"] for line in recording.lines[1:]] == ["allocate", "decide_start", "decide_start"]
    replay = recording.replayed()
    assert (replay.calls, replay.differences) == (3, [])
    recording.lines[1]["gives"] = []
    assert [one.what for one in recording.replayed().differences] == ["allocate"]


def test_the_recorded_result_of_a_users_strategy_is_used(recording):
    recording.tape.recorded(allocation.allocate)(lambda *_: QUEUES[:1], "delays", "b", QUEUES, ["a", "b"])
    steps = list(Replay().run(recording.lines))
    assert steps[-1].result == QUEUES[:1]


@pytest.mark.parametrize(
    ("kind", "do", "broken"),
    [
        (ProcessQueue, "done", lambda self, messages: 7),
        (PullCursor, "handle", lambda self, event, now_ms: []),
        (RebalanceTable, "assigned", lambda self, topic, allocated, now_ms: []),
    ],
)
def test_a_machine_that_decides_otherwise_is_reported(recording, kind, do, broken, monkeypatch):
    table = recording.tape.recorded(RebalanceTable)()
    table.assigned("flights", QUEUES[:1], 0)
    queue = table.added(QUEUES[0], 0)
    assert queue is not None
    recording.tape.recorded(PullCursor)(queue, 0).handle(PullDue(), 1)
    queue.put(messages(0, 1))
    queue.done(queue.take(1, 2))
    assert recording.replayed().differences == []
    monkeypatch.setattr(kind, do, broken)
    first = recording.replayed().differences[0]
    assert first.what.startswith(do)
    assert "when it was recorded" in str(first)


def test_a_torn_last_line_costs_itself_only():
    whole = [b'{"record": 1}\n', b'{"note": "x"}\n']
    assert len(list(read_lines([*whole, b'{"on": "pro']))) == 2
    with pytest.raises(ProtocolError):
        list(read_lines([whole[0], b'{"on": "pro\n', whole[1]]))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([{"note": "x"}], "does not begin with the header"),
        ([{"record": 99}], "format 99"),
        ([HEADER, {"what": 1}], "nothing that this version knows"),
        ([HEADER, {"on": "x", "do": "take", "with": []}], "never created it"),
        ([HEADER, {"on": "x", "new": "Machine", "with": []}], "knows no machine"),
        ([HEADER, {"ask": "decide_start", "with": [{"Unheard": {}}], "gives": None}], "knows no Unheard"),
    ],
)
def test_a_file_that_is_not_a_record_is_refused_with_one_sentence(lines, sentence):
    with pytest.raises(ProtocolError, match=sentence):
        Recording().replayed(lines)


def test_queue_names_are_read_back_with_any_broker_name():
    for queue in (QUEUE, MessageQueue("%RETRY%g", "a/b c", 12)):
        assert queue_text(str(queue)) == queue


class Driver:
    """Does at random what the consumer's parts do, in any order, sensible or not."""

    def __init__(self, recording: Recording, seed: int) -> None:
        self.tape, self.random = recording.tape, random.Random(seed)
        self.now_ms = 0
        self.table = self.tape.recorded(RebalanceTable)()
        self.progress = self.tape.recorded(ConsumeProgress)()
        self.timeouts = self.tape.recorded(ConsumeTimeout)(1_000)
        self.cursors: list[PullCursor] = []
        self.turns: dict[ProcessQueue, Any] = {}
        self.expired: list[MessageExt] = []

    def maybe(self) -> bool:
        return self.random.random() < 0.5

    def a_queue(self) -> MessageQueue:
        return self.random.choice(QUEUES)

    def some_queues(self) -> set[MessageQueue]:
        return {queue for queue in QUEUES if self.maybe()}

    def rebalance(self) -> None:
        match self.random.choice(
            ["assigned", "added", "added", "add_failed", "drop", "removed", "refused", "subscribed", "drop_all"]
        ):
            case "assigned":
                self.table.assigned("flights", self.some_queues(), self.now_ms)
            case "added":
                process_queue = self.table.added(self.a_queue(), self.now_ms)
                if process_queue is not None:
                    limits = FlowLimits(max_count=self.random.randint(1, 4))
                    self.cursors.append(
                        self.tape.recorded(PullCursor)(process_queue, 0, orderly=self.maybe(), limits=limits)
                    )
            case "add_failed":
                self.table.add_failed(self.a_queue())
            case "drop":
                self.table.drop(self.a_queue(), self.random.choice(list(DropReason)))
            case "removed":
                self.table.removed(self.a_queue(), self.now_ms)
            case "refused":
                self.table.removal_refused(self.a_queue())
            case "subscribed":
                self.table.subscribed(self.random.choice([[], ["flights"]]))
            case "drop_all" if self.random.random() < 0.1:
                self.table.drop_all()

    def pull(self) -> None:
        if not self.cursors:
            return
        cursor = self.random.choice(self.cursors)
        begin = cursor.next_offset + self.random.randint(-2, 2)
        found = [message(begin + number, b"x" * number) for number in range(self.random.randint(0, 4))]
        event: PullEvent = self.random.choice(
            [
                PullDue(running=self.random.random() < 0.9, paused=self.random.random() < 0.1),
                pull_cursor.OffsetRead(self.random.randint(-1, 5)),
                pull_cursor.PullReturned(self.random.choice(list(PullStatus)), self.random.randint(0, 9), found),
                pull_cursor.PullReturned(PullStatus.FOUND, begin + 4, found),
                pull_cursor.PullFailed("no answer", self.maybe()),
            ]
        )
        cursor.handle(event, self.now_ms)
        if self.random.random() < 0.2:
            cursor.limits = FlowLimits(max_count=self.random.randint(1, 2))
        if self.random.random() < 0.1:
            cursor.next_offset = self.random.randint(0, 3)

    def consume(self) -> None:
        if not self.cursors:
            return
        queue = self.random.choice(self.cursors).process_queue
        some = queue.in_flight()[: self.random.randint(0, 3)]
        match self.random.choice(["take", "done", "put_back", "rollback", "commit", "granted", "lost", "clear"]):
            case "take":
                queue.take(self.random.randint(1, 3), self.now_ms)
            case "done":
                offset = queue.done(one for one in some)
                if offset is not None and queue.queue is not None:
                    self.progress.update(queue.queue, offset)
            case "put_back":
                queue.put_back(some)
            case "granted":
                queue.lock.granted(self.now_ms)
            case "lost":
                queue.lock.lost()
            case "clear" if not queue.dropped:
                pass
            case other:
                getattr(queue, other)()

    def in_order(self) -> None:
        if not self.cursors:
            return
        queue = self.random.choice(self.cursors).process_queue
        turn = self.turns.get(queue)
        if turn is None or self.maybe():
            turn = self.turns[queue] = self.tape.recorded(OrderlyTurn)(queue, batch_size=2, max_reconsume_times=1)
        effect = turn.next(self.now_ms)
        if isinstance(effect, ConsumeBatch):
            status = self.random.choice(list(ConsumeOrderlyStatus))
            for settled in turn.settle(effect.messages, status, auto_commit=self.maybe()):
                if isinstance(settled, DeadLetterNeeded):
                    turn.dead_lettered(settled.messages[:1], settled.messages[1:])

    def time_out(self) -> None:
        match self.random.choice(["started", "finished", "expired", "sent_back", "failed", "forget", "limit"]):
            case "started":
                running = [one for cursor in self.cursors for one in cursor.process_queue.in_flight()]
                for one in running[:2]:
                    if one not in self.timeouts:
                        self.timeouts.started(one, self.now_ms)
            case "expired":
                self.expired += self.timeouts.expired(self.now_ms)
            case "limit":
                self.timeouts.limit_ms = self.random.choice([0, 500, 1_000])
            case what if self.expired:
                one = self.expired.pop()
                if what == "sent_back":
                    self.timeouts.sent_back(one)
                elif what == "failed":
                    self.timeouts.send_back_failed(one, self.now_ms)
                else:
                    self.timeouts.finished(one)
                    self.timeouts.forget(one)

    def progress_moves(self) -> None:
        match self.random.choice(["update", "freeze", "remove", "persist", "load"]):
            case "update":
                self.progress.update(self.a_queue(), self.random.randint(0, 9), increase_only=self.maybe())
            case "freeze":
                self.progress.update_and_freeze(self.a_queue(), self.random.randint(0, 9))
            case "remove":
                self.progress.remove(self.a_queue())
            case "persist":
                self.progress.to_persist(self.some_queues())
            case "load":
                self.progress.load({self.a_queue(): self.random.randint(0, 9)})

    def run(self, steps: int) -> None:
        acts = [self.rebalance, self.pull, self.consume, self.in_order, self.time_out, self.progress_moves]
        for _ in range(steps):
            self.now_ms += self.random.choice([0, 1, 600, 130_000])
            self.random.choice([*acts, self.pull, self.consume])()


def _states(names: set[str], replay: Replay, recorded: Tape) -> list[tuple[str, Any, Any]]:
    """Of each machine its state as it is, and as it was replayed."""
    pairs = []
    for name, _, state in json.loads(json.dumps(recorded.state()))["state"]:
        if name in names and name in replay.machines:
            own = {key: replay._codec.encode(value) for key, value in state_of(replay.machines[name]).items()}
            pairs.append((name, json.loads(json.dumps(own)), state))
    return pairs


def _plain(value: Any) -> Any:
    """Messages as the offsets they have: numbers begin anew in each replay, and a state spells them out."""
    if isinstance(value, dict):
        return {
            key: _plain(item["n"] if key == "message" and isinstance(item, dict) else item)
            for key, item in value.items()
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 100))
def test_whatever_machines_do_their_record_does_it_again(seed, steps):
    recording = Recording()
    Driver(recording, seed).run(steps)
    recording.tape._write_held("*")
    replay = recording.replayed()
    assert replay.differences == []
    for name, replayed, recorded in _states(set(replay.machines), replay, recording.tape):
        assert _plain(replayed) == _plain(recorded), name


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 1 << 32), before=st.integers(0, 60), after=st.integers(1, 60))
def test_a_record_that_begins_in_the_middle_goes_on_from_its_state(seed, before, after):
    recording = Recording()
    driver = Driver(recording, seed)
    driver.run(before)
    state = json.loads(json.dumps(recording.tape.state()))
    begin = len(recording.lines)
    driver.run(after)
    later = [{**HEADER, "part": 1}, {"at": 0, **state}, *recording.lines[begin:]]
    assert recording.replayed(later).differences == []
