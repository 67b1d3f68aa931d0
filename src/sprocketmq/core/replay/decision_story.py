# SPDX-License-Identifier: Apache-2.0
"""What a replayed record says: when and why each message was consumed, retried or delayed, and when this consumer had each queue.

    Step --Story.add--> Delivery    pulled -> taken -> begun -> ended -> settled     one stored copy, from one time that the queue was ours
                    +-> Stall       a span in which a queue was not pulled or its progress did not move, and why
                    +-> StoryEvent  at, what, why: a line of a story, kept for the messages and queues that are asked for

Rules
1. A story is made of steps alone. What it says was recorded, or follows from the rules of the machines, which the "why" names.
2. The story of a message joins all deliveries of its id: the first one, its retry copies, and one more for each owner of the queue.
3. Memory: a delivery takes a few numbers; events are kept only for what is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from sprocketmq.core.consume.consume_timeout import Settlement
from sprocketmq.core.consume.orderly_turn import Commit, ConsumeBatch, DeadLetterNeeded, LockLater, Suspended
from sprocketmq.core.consume.pull_cursor import DropQueue, PullLater, PullReturned
from sprocketmq.core.group.rebalance import Drop
from sprocketmq.core.quantities import duration
from sprocketmq.core.replay.decision_record import NumberedMessage, state_of
from sprocketmq.core.replay.decision_replay import Step
from sprocketmq.core.replay.story_records import Delivery, QueueStory, Stall, StoryEvent
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.core.retry.retry_schedule import (
    DEFAULT_DELAY_LEVELS,
    DEFAULT_MAX_RECONSUME_TIMES,
    max_reconsume_times,
    retry_level,
)
from sprocketmq.wire.records.message import MessageQueue

_WAITED_MS: Final = 10
_LATE_MS: Final = 1_000


class Story:
    """The story of one consumer, made of the steps of its record.

    ``about``: whether all events of a delivery are kept.

    Attributes:
        deliveries: by the number of their message.
        queues: by name.
        stalls: in the order in which they began.
        dropped_for: how many queues were dropped for which reason.
        group_story: what happened to the consumer as a whole.
    """

    def __init__(self, about: Callable[[Delivery], bool] = lambda delivery: False) -> None:
        self._about = about
        self.deliveries: dict[int, Delivery] = {}
        self.queues: dict[str, QueueStory] = {}
        self.stalls: list[Stall] = []
        self.dropped_for: Counter[str] = Counter()
        self.group_story: list[StoryEvent] = []
        self.first_ms = self.last_ms = 0
        self._max_tries = DEFAULT_MAX_RECONSUME_TIMES
        self._open: dict[str, dict[int, Delivery]] = {}  # life -> offset -> not settled yet
        self._open_stalls: dict[tuple[str, str], Stall] = {}  # (life, kind) -> the stall that has not ended
        # Queue -> settled ones that progress has not passed, where asked for.
        self._waiting: dict[str, list[Delivery]] = {}
        self._handlers: dict[str, Callable[[Step], None]] = {
            "PullCursor": self._cursor,
            "ProcessQueue": self._process_queue,
            "OrderlyTurn": self._turn,
            "ConsumeTimeout": self._timeouts,
            "RebalanceTable": self._table,
            "ConsumeProgress": self._progress,
            "LocalQueueLock": self._lock,
        }

    def add(self, step: Step) -> None:
        """Add the next step."""
        self.first_ms = self.first_ms or step.at_ms
        self.last_ms = max(self.last_ms, step.at_ms)
        if step.kind == "call":
            self._handlers[step.machine](step)
        elif step.kind == "note":
            self._note(step)
        elif step.kind == "new" and step.machine == "PullCursor":
            self._added(step)
        elif step.kind == "ask":
            self._asked(step)
        elif step.kind == "state":
            self._in_hand(step)
        elif step.kind == "header":
            settings = step.facts.get("settings", {})
            limit = settings.get("max_reconsume_times", -1)
            self._max_tries = max_reconsume_times(limit, orderly=bool(step.facts.get("orderly")))

    def deliveries_of(self, wanted: str) -> list[Delivery]:
        """The deliveries of a message, by its id or one of its keys, in order."""
        return [one for one in self.deliveries.values() if one.message_id == wanted or wanted in one.keys]

    @property
    def stuck(self) -> list[Delivery]:
        """Deliveries over the consume timeout, and those whose listener still ran when the record ended."""
        return [one for one in self.deliveries.values() if one.timed_out or (one.running and one.settled_ms is None)]

    @property
    def unfinished(self) -> list[Delivery]:
        """Deliveries that were not settled when the record ended."""
        return [one for one in self.deliveries.values() if one.settled_ms is None and not one.dropped]

    # -- messages ----------------------------------------------------------------------------------------------------------------

    def _pulled(self, life: str, messages: Iterable[Any], at_ms: int) -> None:
        for message in messages:
            number, queue = message.number, life.rpartition("#")[0]
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
                self._note_delivery(
                    delivery, at_ms, f"pulled from {queue} at offset {delivery.offset}", self._why_pulled(delivery)
                )

    def _in_hand(self, step: Step) -> None:
        """The record begins with a state: the part before it is missing."""
        for life, process_queue in step.args:
            queue = self._queue(life.rpartition("#")[0])
            in_flight = process_queue.in_flight()
            waiting = state_of(process_queue)["_pending"]
            in_hand = sorted([*in_flight, *waiting], key=lambda message: message.queue_offset)
            self._pulled(life, in_hand, step.at_ms)
            for delivery in self._known(in_flight):
                delivery.taken_ms = step.at_ms
            what = f"ours when this record begins, with {len(in_hand)} messages in hand"
            queue.story.append(StoryEvent(step.at_ms, what))

    def _why_pulled(self, delivery: Delivery) -> str:
        late_ms = delivery.pulled_ms - delivery.stored_ms
        if delivery.tries and is_retry_topic(delivery.queue):
            for before in reversed(self.deliveries_of(delivery.message_id)):
                if before.sent_back_ms is not None and before is not delivery:
                    ago = duration(delivery.pulled_ms - before.sent_back_ms)
                    level = _level(before.level, before.tries)
                    return f"it is retry {delivery.tries}: sent back {ago} ago, and kept by the broker, {level}"
            return f"it is retry {delivery.tries}; it was sent back before this record begins, or by another member"
        if late_ms < _LATE_MS:
            return ""
        queue = self.queues.get(delivery.queue)
        if queue is not None and queue.added and queue.added[-1] > delivery.stored_ms:
            after = duration(queue.added[-1] - delivery.stored_ms)
            return f"it was stored {duration(late_ms)} before: this member got the queue {after} after it was stored"
        for stall in reversed(self.stalls):
            if (
                stall.queue == delivery.queue
                and stall.kind == "pull"
                and (stall.to_ms or self.last_ms) > delivery.stored_ms
            ):
                span = duration((stall.to_ms or self.last_ms) - stall.from_ms)
                return f"it was stored {duration(late_ms)} before: the queue was not pulled for {span}, because {stall.reason}"
        return f"it was stored {duration(late_ms)} before: the messages before it came first"

    def _taken(self, messages: Iterable[Any], at_ms: int) -> None:
        for message in messages:
            delivery = self.deliveries.get(message.number)
            if delivery is None:
                continue
            again, delivery.tries = delivery.taken_ms is not None, message.reconsume_times
            delivery.taken_ms, delivery.begun_ms, delivery.ended_ms = at_ms, None, None
            self._note_delivery(delivery, at_ms, "handed to the listeners" + (" again" if again else ""))

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
                self._note_delivery(
                    delivery,
                    at_ms,
                    "done, but progress stays",
                    "the queue was dropped: its next owner gets the message again",
                )
            elif delivery.offset < commit:
                by = _settled_by(delivery)
                self._note_delivery(delivery, at_ms, f"{by}: progress may go to {commit}")
            else:
                behind += 1
                blocker = waiting.get(commit)
                name = f"offset {commit}" + (f" ({blocker.message_id})" if blocker is not None else "")
                self._note_delivery(
                    delivery, at_ms, f"{_settled_by(delivery)}, and progress stays at {commit}",
                    f"{name} is not finished; progress is the lowest unfinished offset. After a crash all messages from there come again",
                )  # fmt: skip
            if delivery.story is not None and commit is not None:
                self._waiting.setdefault(delivery.queue, []).append(delivery)
        if commit is not None:
            self._update_progress_stall(life, commit, behind, at_ms)

    def _update_progress_stall(self, life: str, commit: int, behind: int, at_ms: int) -> None:
        """Progress of a life is at ``commit`` now. Begin or end its stall."""
        stall = self._open_stalls.get((life, "progress"))
        if stall is not None and stall.offset != commit:
            self._end_stall(life, "progress", at_ms)
            stall = None
        if behind and stall is None:
            blocker = self._open.get(life, {}).get(commit)
            reason = f"offset {commit} was not finished"
            stall = self._begin_stall(life, "progress", reason, at_ms if blocker is None else blocker.pulled_ms)
            stall.offset, stall.message_id = commit, "" if blocker is None else blocker.message_id
        if stall is not None:
            stall.done_behind += behind

    def _dropped(self, queue: MessageQueue, reason: str, at_ms: int) -> None:
        self.dropped_for[reason] += 1
        story = self._queue(str(queue))
        story.dropped.append(at_ms)
        story.story.append(StoryEvent(at_ms, f"dropped ({reason})"))
        life = f"{queue}#"
        for name in [name for name in self._open if name.startswith(life)]:
            for delivery in self._open.pop(name).values():
                delivery.dropped = True
                why = f"progress is {max(story.committed, 0)}: the next owner of the queue begins there"
                self._note_delivery(delivery, at_ms, f"dropped with its queue ({reason})", why)
            for kind in ("pull", "progress", "turn"):
                self._end_stall(name, kind, at_ms)

    # -- machines ----------------------------------------------------------------------------------------------------------------

    def _cursor(self, step: Step) -> None:
        life, event, now_ms = step.on.removesuffix(" cursor"), step.args[0], step.args[1]
        if isinstance(event, PullReturned):
            self._pulled(life, event.messages, now_ms)
        for effect in step.result or ():
            if isinstance(effect, PullLater):
                if effect.reason != "pull_interval_ms":
                    self._begin_stall(life, "pull", effect.reason, now_ms)
                return
            if isinstance(effect, DropQueue):
                self._note_queue(life, now_ms, f"the broker no longer has this offset: going on at {effect.offset}")
        self._end_stall(life, "pull", now_ms)

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
                    self._note_delivery(delivery, at_ms, "put back, to be consumed again")

    def _turn(self, step: Step) -> None:
        life, at_ms = step.on.partition(" turn ")[0], step.at_ms
        if step.do == "next":
            if isinstance(step.result, LockLater):
                self._begin_stall(life, "turn", "the queue's lock at the broker is not valid", at_ms)
            elif isinstance(step.result, ConsumeBatch):
                self._end_stall(life, "turn", at_ms)
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
                    why = "order: a failed message is tried again before the messages behind it"
                    self._note_delivery(delivery, at_ms, f"the queue is suspended for {duration(effect.delay_ms)}", why)
            elif isinstance(effect, DeadLetterNeeded):
                for delivery in self._known(effect.messages):
                    self._note_delivery(
                        delivery,
                        at_ms,
                        "it goes to the dead-letter topic",
                        "the retry limit is reached",
                    )

    def _timeouts(self, step: Step) -> None:
        at_ms = step.at_ms
        if step.do == "expired":
            for delivery in self._known(step.result or ()):
                delivery.timed_out = True
                ran = duration(at_ms - (delivery.begun_ms or delivery.taken_ms or at_ms))
                why = "a listener that never returns would stop progress, so a retry copy is stored and progress passes the message"
                self._note_delivery(delivery, at_ms, f"the consume timeout fires: in the listener for {ran}", why)
        elif step.do == "finished" and step.result is Settlement.IGNORE:
            for delivery in self._known(step.args):
                delivery.late = True
                self._note_delivery(
                    delivery,
                    at_ms,
                    "the listener's answer came too late and is ignored",
                    "the retry copy is stored already, and one delivery makes one copy",
                )
        elif step.do == "finished" and step.result is Settlement.WAIT:
            for delivery in self._known(step.args):
                self._note_delivery(delivery, at_ms, "the listener's answer waits until the send-back has ended")

    def _table(self, step: Step) -> None:
        if step.do == "add_failed":
            why = "its lock or its start offset could not be read; the next rebalance tries again"
            self._queue(str(step.args[0])).story.append(StoryEvent(step.at_ms, "not added", why))
        elif step.do == "removal_refused":
            why = "an orderly listener still runs; the lock is kept until it ends"
            self._queue(str(step.args[0])).story.append(StoryEvent(step.at_ms, "not dropped yet", why))
        for effect in step.result if isinstance(step.result, list) else ():
            if isinstance(effect, Drop):
                self._dropped(effect.queue, effect.reason.value, step.at_ms)

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
        frozen = "it was set by the broker or an administrator, and stays until the queue is added again"
        queue.story.append(
            StoryEvent(step.at_ms, f"progress is {offset}", frozen if step.do == "update_and_freeze" else "")
        )
        for delivery in [one for one in self._waiting.get(queue.queue, ()) if one.offset < offset]:
            self._waiting[queue.queue].remove(delivery)
            self._note_delivery(delivery, step.at_ms, f"progress passes it: {offset}")

    def _lock(self, step: Step) -> None:
        if step.do == "lost":
            self._note_queue(step.on.removesuffix(" lock"), step.at_ms, "its lock at the broker is gone")

    # -- the rest ----------------------------------------------------------------------------------------------------------------

    def _note(self, step: Step) -> None:
        facts, at_ms = step.facts, step.at_ms
        for delivery in self._known(facts.get("messages", ())):
            if step.do == "listener_began":
                waited = at_ms - (delivery.taken_ms or at_ms)
                why = f"all listeners were busy for {duration(waited)}" if waited >= _WAITED_MS else ""
                delivery.begun_ms, delivery.ended_ms = at_ms, None
                self._note_delivery(delivery, at_ms, f"a listener begins, try {delivery.tries + 1}", why)
            elif step.do == "listener_ended":
                delivery.ended_ms, delivery.status = at_ms, facts["status"]
                raised = f", it raised {facts['raised']}" if facts["raised"] else ""
                self._note_delivery(
                    delivery, at_ms, f"the listener ends after {duration(facts['spent_ms'])}: {facts['status']}{raised}"
                )
        if step.do in ("sent_back", "dead_lettered") and isinstance(facts["message"], NumberedMessage):
            for delivery in self._known((facts["message"],)):
                self._sent_back(step, delivery)

    def _sent_back(self, step: Step, delivery: Delivery) -> None:
        facts, at_ms = step.facts, step.at_ms
        dead = step.do == "dead_lettered"
        if not facts["stored"]:
            facts["message"].reconsume_times += 1  # no machine counts this: the code that stores the message does
            why = "the broker accepted neither the send-back nor a copy sent by this client"
            self._note_delivery(delivery, at_ms, "no retry copy could be stored: it is tried again here", why)
        elif dead or facts["delay_level"] < 0 or delivery.tries >= self._max_tries:
            delivery.dead_lettered = True
            why = (
                f"it was tried {delivery.tries + 1} times"
                if delivery.tries >= self._max_tries
                else "the listener asked for it"
            )
            self._note_delivery(delivery, at_ms, "a dead letter is stored", why)
        else:
            delivery.sent_back, delivery.sent_back_ms, delivery.level = True, at_ms, facts["delay_level"]
            why = "timed out" if delivery.timed_out and delivery.running else f"the listener answered {delivery.status}"
            self._note_delivery(
                delivery, at_ms, f"sent back: a retry copy is stored, {_level(delivery.level, delivery.tries)}", why
            )

    def _added(self, step: Step) -> None:
        life, offset = step.on.removesuffix(" cursor"), step.args[1]
        queue = self._queue(life.rpartition("#")[0])
        queue.added.append(step.at_ms)
        queue.story.append(StoryEvent(step.at_ms, f"added at offset {offset}"))

    def _asked(self, step: Step) -> None:
        if step.do == "allocate":
            queues, members = step.args[3], step.args[4]
            topic = queues[0].topic if queues else "?"
            what = f"{len(step.result)} of {len(queues)} queues of {topic} are this member's"
            self.group_story.append(StoryEvent(step.at_ms, what, f"members: {', '.join(members)}"))

    def _known(self, messages: Iterable[Any]) -> list[Delivery]:
        numbers = [message.number for message in messages]
        return [self.deliveries[number] for number in numbers if number in self.deliveries]

    def _queue(self, name: str) -> QueueStory:
        return self.queues.setdefault(name, QueueStory(name))

    def _note_delivery(self, delivery: Delivery, at_ms: int, what: str, why: str = "") -> None:
        if delivery.story is not None:
            delivery.story.append(StoryEvent(at_ms, what, why))

    def _note_queue(self, life: str, at_ms: int, what: str) -> None:
        self._queue(life.rpartition("#")[0]).story.append(StoryEvent(at_ms, what))

    def _begin_stall(self, life: str, kind: str, reason: str, at_ms: int) -> Stall:
        stall = self._open_stalls.get((life, kind))
        if stall is None:
            stall = self._open_stalls[life, kind] = Stall(life.rpartition("#")[0], kind, reason, at_ms)
            self.stalls.append(stall)
        return stall

    def _end_stall(self, life: str, kind: str, at_ms: int) -> None:
        stall = self._open_stalls.pop((life, kind), None)
        if stall is not None:
            stall.to_ms = at_ms


def _settled_by(delivery: Delivery) -> str:
    if delivery.lost:
        return "failed, and broadcasting does not retry"
    return "done" if delivery.consumed else "settled by its copy"


def _level(asked: int, tries: int) -> str:
    """A delay level in words. The times are those of a broker with Apache's default levels."""
    level = retry_level(tries, asked)
    delays = DEFAULT_DELAY_LEVELS.split()
    return f"delay level {level}" + (f" ({delays[level - 1]} by default)" if 0 < level <= len(delays) else "")
