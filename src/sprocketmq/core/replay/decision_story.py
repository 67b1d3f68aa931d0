"""What a replayed record tells: of each message when and why it was consumed, retried or held back; of each queue whose it was.

    Step --Story.take--> Delivery   pulled -> taken -> begun -> ended -> settled                 one stored copy in one life of its queue
                     +-> Stall       a span in which a queue was not pulled, or its progress stood still, and why
                     +-> StoryEvent  at, what, why: the lines of a story, kept for those messages and queues that are asked for

Laws
1. A story is made of steps alone: what it says was recorded, or follows from the machines' laws, which the "why" names.
2. A message's story joins all deliveries of its id: the first one, its retry copies, and one more for each owner the queue had.
3. Memory: a delivery takes a few numbers; events are kept only where somebody asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.core.consume.consume_timeout import Settlement
from sprocketmq.core.consume.orderly_turn import Commit, ConsumeBatch, DeadLetterNeeded, LockLater, Suspended
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import DropQueue, PullLater, PullReturned
from sprocketmq.core.group.rebalance import Drop
from sprocketmq.core.replay.decision_record import state_of
from sprocketmq.core.replay.decision_replay import Step
from sprocketmq.core.retry.retry_schedule import (
    DEFAULT_DELAY_LEVELS,
    DEFAULT_MAX_RECONSUME_TIMES,
    is_retry_topic,
    max_reconsume_times,
    retry_level,
)
from sprocketmq.wire.records.message import MessageExt, MessageQueue

__all__ = ["Delivery", "QueueStory", "Stall", "Story", "StoryEvent", "duration"]

_WAITED_MS: Final = 10
_LATE_MS: Final = 1_000


def duration(span_ms: int) -> str:
    """A span as people read it: ``250 ms``, ``12.5 s``, ``15 min 0 s``."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 120_000:
        return f"{span_ms / 1000:.1f} s"
    return f"{span_ms // 60_000} min {span_ms // 1000 % 60} s"


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One line of a story; ``why`` may be empty."""

    at_ms: int
    what: str
    why: str = ""


@dataclass(slots=True)
class Delivery:
    """One stored copy of a message, in the hands of this consumer once.

    Attributes: times are None where it did not get there; ``status`` is the listener's last answer; ``sent_back``, ``dead_lettered``,
    ``timed_out``, ``given_up`` (with its queue) and ``late`` (the answer came when a retry copy was stored already) say what became of it.
    """

    life: str
    queue: str
    offset: int
    message_id: str
    keys: list[str]
    tags: str | None
    size: int
    tries: int
    born_ms: int
    stored_ms: int
    pulled_ms: int
    taken_ms: int | None = None
    begun_ms: int | None = None
    ended_ms: int | None = None
    settled_ms: int | None = None
    status: str | None = None
    sent_back: bool = False
    sent_back_ms: int | None = None
    level: int = 0
    dead_lettered: bool = False
    timed_out: bool = False
    given_up: bool = False
    late: bool = False
    story: list[StoryEvent] | None = None

    @property
    def running(self) -> bool:
        return self.begun_ms is not None and self.ended_ms is None

    @property
    def lost(self) -> bool:
        """It failed, and broadcasting retries nothing."""
        return (
            self.settled_ms is not None
            and self.status == "RECONSUME_LATER"
            and not self.sent_back
            and not self.dead_lettered
        )

    @property
    def consumed(self) -> bool:
        return self.settled_ms is not None and not (self.sent_back or self.dead_lettered or self.lost)


@dataclass(slots=True)
class Stall:
    """A span in which a queue stood still. ``kind`` is "pull", "progress" or "turn"; ``to_ms`` None: to the end of the record."""

    queue: str
    kind: str
    reason: str
    from_ms: int
    to_ms: int | None = None
    offset: int = -1
    done_behind: int = 0
    message_id: str = ""


@dataclass(slots=True)
class QueueStory:
    """One queue while this consumer had it. ``taken_up`` and ``given_up`` are times; ``committed`` its progress, ``persisted`` that of the
    broker (or the file)."""

    queue: str
    taken_up: list[int] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    committed: int = -1
    persisted: int = -1
    consumed: int = 0
    story: list[StoryEvent] = field(default_factory=list)


class Story:
    """Takes steps in their order, and knows the consumer's story up to the last one.

    Args:
        about: whether all events of a delivery are to be kept.

    Attributes: ``deliveries`` by the number of their message, ``queues`` by name, ``holds`` in the order they began, ``given_up_for``
    how many queues were given up for which reason, ``group_story`` what happened to the consumer as a whole.
    """

    def __init__(self, about: Callable[[Delivery], bool] = lambda delivery: False) -> None:
        self._about = about
        self.deliveries: dict[int, Delivery] = {}
        self.queues: dict[str, QueueStory] = {}
        self.stalls: list[Stall] = []
        self.given_up_for: Counter[str] = Counter()
        self.group_story: list[StoryEvent] = []
        self.first_ms = self.last_ms = 0
        self._max_tries = DEFAULT_MAX_RECONSUME_TIMES
        self._open: dict[str, dict[int, Delivery]] = {}  # life -> offset -> not settled yet
        self._held: dict[tuple[str, str], Stall] = {}  # (life, kind) -> the hold that goes on
        self._waiting: dict[
            str, list[Delivery]
        ] = {}  # queue -> settled ones that progress has not passed, where asked for
        self._takers: dict[str, Callable[[Step], None]] = {
            "PullCursor": self._cursor,
            "ProcessQueue": self._process_queue,
            "OrderlyTurn": self._turn,
            "ConsumeTimeout": self._timeouts,
            "RebalanceTable": self._table,
            "ConsumeProgress": self._progress,
            "LocalQueueLock": self._lock,
        }

    def take(self, step: Step) -> None:
        """One more step."""
        self.first_ms = self.first_ms or step.at_ms
        self.last_ms = max(self.last_ms, step.at_ms)
        if step.kind == "call":
            self._takers[step.machine](step)
        elif step.kind == "note":
            self._note(step)
        elif step.kind == "new" and step.machine == "PullCursor":
            self._taken_up(step)
        elif step.kind == "ask":
            self._asked(step)
        elif step.kind == "state":
            self._in_hand(step)
        elif step.kind == "header":
            settings = step.facts.get("settings", {})
            limit = settings.get("max_reconsume_times", -1)
            self._max_tries = max_reconsume_times(limit, orderly=bool(step.facts.get("orderly")))

    def of(self, wanted: str) -> list[Delivery]:
        """The deliveries of a message, by its id or one of its keys, in order."""
        return [one for one in self.deliveries.values() if one.message_id == wanted or wanted in one.keys]

    @property
    def stuck(self) -> list[Delivery]:
        """Those that ran into the consume timeout, and those whose listener runs at the end of the record."""
        return [one for one in self.deliveries.values() if one.timed_out or (one.running and one.settled_ms is None)]

    @property
    def unfinished(self) -> list[Delivery]:
        """Those in hand at the end of the record."""
        return [one for one in self.deliveries.values() if one.settled_ms is None and not one.given_up]

    # -- messages ----------------------------------------------------------------------------------------------------------------

    def _pulled(self, life: str, messages: Iterable[MessageExt], at_ms: int) -> None:
        for message in messages:
            number, queue = message._record_number[2], life.rpartition("#")[0]
            delivery = Delivery(
                life=life,
                queue=queue,
                offset=message.queue_offset,
                message_id=message.message_id,
                keys=message.keys,
                tags=message.tags,
                size=len(message.body),
                tries=message.reconsume_times,
                born_ms=message.born_timestamp_ms,
                stored_ms=message.store_timestamp_ms,
                pulled_ms=at_ms,
            )
            self.deliveries[number] = delivery
            self._open.setdefault(life, {})[delivery.offset] = delivery
            if self._about(delivery):
                delivery.story = []
                self._say(
                    delivery, at_ms, f"pulled from {queue} at offset {delivery.offset}", self._why_pulled(delivery)
                )

    def _in_hand(self, step: Step) -> None:
        """A part of the record begins without the one before it."""
        for life, process_queue in step.args:
            queue = self._queue(life.rpartition("#")[0])
            in_flight: list[MessageExt] = process_queue.in_flight()
            waiting: Iterable[MessageExt] = state_of(process_queue, ProcessQueue)["_pending"]
            in_hand = sorted([*in_flight, *waiting], key=lambda message: message.queue_offset)
            self._pulled(life, in_hand, step.at_ms)
            for delivery in self._known(in_flight):
                delivery.taken_ms = step.at_ms
            what = f"ours when this record begins, with {len(in_hand)} messages in hand"
            queue.story.append(StoryEvent(step.at_ms, what))

    def _why_pulled(self, delivery: Delivery) -> str:
        late_ms = delivery.pulled_ms - delivery.stored_ms
        if delivery.tries and is_retry_topic(delivery.queue):
            for before in reversed(self.of(delivery.message_id)):
                if before.sent_back_ms is not None and before is not delivery:
                    ago = duration(delivery.pulled_ms - before.sent_back_ms)
                    level = _level(before.level, before.tries)
                    return f"it is retry {delivery.tries}: sent back {ago} ago, and kept by the broker, {level}"
            return f"it is retry {delivery.tries}; it was sent back before this record begins, or by another member"
        if late_ms < _LATE_MS:
            return ""
        queue = self.queues.get(delivery.queue)
        if queue is not None and queue.taken_up and queue.taken_up[-1] > delivery.stored_ms:
            after = duration(queue.taken_up[-1] - delivery.stored_ms)
            return (
                f"it was stored {duration(late_ms)} before: this member took the queue up {after} after it was stored"
            )
        for hold in reversed(self.stalls):
            if (
                hold.queue == delivery.queue
                and hold.kind == "pull"
                and (hold.to_ms or self.last_ms) > delivery.stored_ms
            ):
                span = duration((hold.to_ms or self.last_ms) - hold.from_ms)
                return f"it was stored {duration(late_ms)} before: the queue was not pulled for {span}, because {hold.reason}"
        return f"it was stored {duration(late_ms)} before: the messages before it came first"

    def _taken(self, messages: Iterable[MessageExt], at_ms: int) -> None:
        for message in messages:
            delivery = self.deliveries.get(message._record_number[2])
            if delivery is None:
                continue
            again, delivery.tries = delivery.taken_ms is not None, message.reconsume_times
            delivery.taken_ms, delivery.begun_ms, delivery.ended_ms = at_ms, None, None
            self._say(delivery, at_ms, "handed to the listeners" + (" again" if again else ""))

    def _settled(self, life: str, deliveries: Iterable[Delivery], commit: int | None, at_ms: int) -> None:
        waiting = self._open.get(life, {})
        behind = 0
        for delivery in deliveries:
            if waiting.pop(delivery.offset, None) is None:
                continue
            delivery.settled_ms = at_ms
            queue = self._queue(delivery.queue)
            queue.consumed += delivery.consumed
            if commit is None:
                self._say(
                    delivery, at_ms, "done, and progress stays", "the queue was given up: its next owner gets it again"
                )
            elif delivery.offset < commit:
                by = _settled_by(delivery)
                self._say(delivery, at_ms, f"{by}: progress may go to {commit}")
            else:
                behind += 1
                blocker = waiting.get(commit)
                name = f"offset {commit}" + (f" ({blocker.message_id})" if blocker is not None else "")
                self._say(
                    delivery, at_ms, f"{_settled_by(delivery)}, and progress stays at {commit}",
                    f"{name} is not finished, and progress is the lowest unfinished offset: after a crash all from there on comes again",
                )  # fmt: skip
            if delivery.story is not None and commit is not None:
                self._waiting.setdefault(delivery.queue, []).append(delivery)
        if commit is not None:
            self._stands(life, commit, behind, at_ms)

    def _stands(self, life: str, commit: int, behind: int, at_ms: int) -> None:
        """Progress of a life is at ``commit`` now: whom does it wait for?"""
        hold = self._held.get((life, "progress"))
        if hold is not None and hold.offset != commit:
            self._release(life, "progress", at_ms)
            hold = None
        if behind and hold is None:
            blocker = self._open.get(life, {}).get(commit)
            reason = f"offset {commit} was not finished"
            hold = self._hold(life, "progress", reason, at_ms if blocker is None else blocker.pulled_ms)
            hold.offset, hold.message_id = commit, "" if blocker is None else blocker.message_id
        if hold is not None:
            hold.done_behind += behind

    def _given_up(self, queue: MessageQueue, reason: str, at_ms: int) -> None:
        self.given_up_for[reason] += 1
        story = self._queue(str(queue))
        story.given_up.append(at_ms)
        story.story.append(StoryEvent(at_ms, f"given up ({reason})"))
        life = f"{queue}#"
        for name in [name for name in self._open if name.startswith(life)]:
            for delivery in self._open.pop(name).values():
                delivery.given_up = True
                why = f"progress is {max(story.committed, 0)}: whoever reads the queue next begins there"
                self._say(delivery, at_ms, f"given up with its queue ({reason})", why)
            for kind in ("pull", "progress", "turn"):
                self._release(name, kind, at_ms)

    # -- machines ----------------------------------------------------------------------------------------------------------------

    def _cursor(self, step: Step) -> None:
        life, event, now_ms = step.on.removesuffix(" cursor"), step.args[0], step.args[1]
        if isinstance(event, PullReturned):
            self._pulled(life, event.messages, now_ms)
        for effect in step.result or ():
            if isinstance(effect, PullLater):
                if effect.reason != "pull_interval_ms":
                    self._hold(life, "pull", effect.reason, now_ms)
                return
            if isinstance(effect, DropQueue):
                self._tell(life, now_ms, f"the broker has no such offset any more: going on at {effect.offset}")
        self._release(life, "pull", now_ms)

    def _process_queue(self, step: Step) -> None:
        life, at_ms = step.on, step.at_ms
        if step.do == "put":
            self._pulled(life, step.args[0], at_ms)
        elif step.do == "take":
            self._taken(step.result or (), at_ms)
        elif step.do == "done":
            self._settled(life, self._known(step.args[0]), step.result, at_ms)
        elif step.do == "put_back":
            for delivery in self._known(step.args[0]):
                if delivery.begun_ms is not None:
                    self._say(delivery, at_ms, "back in its place, to be consumed again")

    def _turn(self, step: Step) -> None:
        life, at_ms = step.on.partition(" turn ")[0], step.at_ms
        if step.do == "next":
            if isinstance(step.result, LockLater):
                self._hold(life, "turn", "the queue's lock at the broker is not valid", at_ms)
            elif isinstance(step.result, ConsumeBatch):
                self._release(life, "turn", at_ms)
                self._taken(step.result.messages, at_ms)
            return
        # What ended before an offset is in the commit that follows from it.
        batch = [] if step.do == "ended_before" else list(self._known(step.args[0]))
        for effect in step.result or ():
            if isinstance(effect, Commit):
                done = [one for offset, one in self._open.get(life, {}).items() if offset < effect.offset]
                self._settled(life, done, effect.offset, at_ms)
            elif isinstance(effect, Suspended):
                for delivery in batch:
                    why = "order: what failed is tried again before anything behind it is consumed"
                    self._say(delivery, at_ms, f"the queue pauses for {duration(effect.delay_ms)}", why)
            elif isinstance(effect, DeadLetterNeeded):
                for delivery in self._known(effect.messages):
                    self._say(
                        delivery,
                        at_ms,
                        "given up: it goes to the dead-letter topic",
                        "it was tried as often as allowed",
                    )

    def _timeouts(self, step: Step) -> None:
        at_ms = step.at_ms
        if step.do == "expired":
            for delivery in self._known(step.result or ()):
                delivery.timed_out = True
                ran = duration(at_ms - (delivery.begun_ms or delivery.taken_ms or at_ms))
                why = "a listener that never returns would hold progress for ever, so a retry copy is made and progress passes it"
                self._say(delivery, at_ms, f"the consume timeout fires: in the listener for {ran}", why)
        elif step.do == "finished" and step.result is Settlement.IGNORE:
            for delivery in self._known(step.args):
                delivery.late = True
                self._say(
                    delivery,
                    at_ms,
                    "the listener's answer came too late and is ignored",
                    "the retry copy is stored: one delivery makes one copy",
                )
        elif step.do == "finished" and step.result is Settlement.WAIT:
            for delivery in self._known(step.args):
                self._say(delivery, at_ms, "the listener's answer waits for the send-back that is under way")

    def _table(self, step: Step) -> None:
        if step.do == "add_failed":
            why = "its lock or its start offset could not be had; the next round asks again"
            self._queue(str(step.args[0])).story.append(StoryEvent(step.at_ms, "not taken up", why))
        elif step.do == "removal_refused":
            why = "a listener still works on it in order: the lock is kept until it ends"
            self._queue(str(step.args[0])).story.append(StoryEvent(step.at_ms, "not handed over yet", why))
        for effect in step.result if isinstance(step.result, list) else ():
            if isinstance(effect, Drop):
                self._given_up(effect.queue, effect.reason.value, step.at_ms)

    def _progress(self, step: Step) -> None:
        if step.do == "to_persist":
            for queue, offset in (step.result or {}).items():
                self._queue(str(queue)).persisted = offset
            return
        if step.do not in ("update", "update_and_freeze") or step.result is False:
            return
        queue, offset = self._queue(str(step.args[0])), step.args[1]
        if offset == queue.committed:
            return
        queue.committed = offset
        frozen = "it was set by the broker or an administrator, and stays until the queue is taken up again"
        queue.story.append(
            StoryEvent(step.at_ms, f"progress is {offset}", frozen if step.do == "update_and_freeze" else "")
        )
        for delivery in [one for one in self._waiting.get(queue.queue, ()) if one.offset < offset]:
            self._waiting[queue.queue].remove(delivery)
            self._say(delivery, step.at_ms, f"progress passes it: {offset}")

    def _lock(self, step: Step) -> None:
        if step.do == "lost":
            self._tell(step.on.removesuffix(" lock"), step.at_ms, "its lock at the broker is gone")

    # -- the rest ----------------------------------------------------------------------------------------------------------------

    def _note(self, step: Step) -> None:
        facts, at_ms = step.facts, step.at_ms
        for delivery in self._known(facts.get("messages", ())):
            if step.do == "listener_began":
                waited = at_ms - (delivery.taken_ms or at_ms)
                why = f"all listeners were busy for {duration(waited)}" if waited >= _WAITED_MS else ""
                delivery.begun_ms, delivery.ended_ms = at_ms, None
                self._say(delivery, at_ms, f"a listener begins, try {delivery.tries + 1}", why)
            elif step.do == "listener_ended":
                delivery.ended_ms, delivery.status = at_ms, facts["status"]
                raised = f", it raised {facts['raised']}" if facts["raised"] else ""
                self._say(
                    delivery, at_ms, f"the listener ends after {duration(facts['spent_ms'])}: {facts['status']}{raised}"
                )
        for delivery in self._known((facts["message"],) if isinstance(facts.get("message"), MessageExt) else ()):
            self._sent_back(step, delivery)

    def _sent_back(self, step: Step, delivery: Delivery) -> None:
        facts, at_ms = step.facts, step.at_ms
        dead = step.do == "dead_lettered"
        if not facts["stored"]:
            facts["message"].reconsume_times += 1  # as whoever keeps it does: no machine counts this
            why = "neither the broker's send-back nor a copy sent by this client was taken"
            self._say(delivery, at_ms, "no retry copy could be stored: it is tried again here", why)
        elif dead or facts["delay_level"] < 0 or delivery.tries >= self._max_tries:
            delivery.dead_lettered = True
            why = (
                f"it was tried {delivery.tries + 1} times"
                if delivery.tries >= self._max_tries
                else "the listener asked for it"
            )
            self._say(delivery, at_ms, "a dead letter is stored", why)
        else:
            delivery.sent_back, delivery.sent_back_ms, delivery.level = True, at_ms, facts["delay_level"]
            why = "timed out" if delivery.timed_out and delivery.running else f"the listener answered {delivery.status}"
            self._say(
                delivery, at_ms, f"sent back: a retry copy is stored, {_level(delivery.level, delivery.tries)}", why
            )

    def _taken_up(self, step: Step) -> None:
        life, offset = step.on.removesuffix(" cursor"), step.args[1]
        queue = self._queue(life.rpartition("#")[0])
        queue.taken_up.append(step.at_ms)
        queue.story.append(StoryEvent(step.at_ms, f"taken up at offset {offset}"))

    def _asked(self, step: Step) -> None:
        if step.do == "allocate":
            queues, members = step.args[3], step.args[4]
            topic = queues[0].topic if queues else "?"
            what = f"{len(step.result)} of {len(queues)} queues of {topic} are this member's"
            self.group_story.append(StoryEvent(step.at_ms, what, f"members: {', '.join(members)}"))

    def _known(self, messages: Iterable[Any]) -> list[Delivery]:
        numbers = [message._record_number[2] for message in messages]
        return [self.deliveries[number] for number in numbers if number in self.deliveries]

    def _queue(self, name: str) -> QueueStory:
        return self.queues.setdefault(name, QueueStory(name))

    def _say(self, delivery: Delivery, at_ms: int, what: str, why: str = "") -> None:
        if delivery.story is not None:
            delivery.story.append(StoryEvent(at_ms, what, why))

    def _tell(self, life: str, at_ms: int, what: str) -> None:
        self._queue(life.rpartition("#")[0]).story.append(StoryEvent(at_ms, what))

    def _hold(self, life: str, kind: str, reason: str, at_ms: int) -> Stall:
        hold = self._held.get((life, kind))
        if hold is None:
            hold = self._held[life, kind] = Stall(life.rpartition("#")[0], kind, reason, at_ms)
            self.stalls.append(hold)
        return hold

    def _release(self, life: str, kind: str, at_ms: int) -> None:
        hold = self._held.pop((life, kind), None)
        if hold is not None:
            hold.to_ms = at_ms


def _settled_by(delivery: Delivery) -> str:
    if delivery.lost:
        return "given up, broadcasting retries nothing"
    return "done" if delivery.consumed else "settled by its copy"


def _level(asked: int, tries: int) -> str:
    """A delay level in words. The times are those of a broker with Apache's default levels."""
    level = retry_level(tries, asked)
    delays = DEFAULT_DELAY_LEVELS.split()
    return f"delay level {level}" + (f" ({delays[level - 1]} by default)" if 0 < level <= len(delays) else "")
