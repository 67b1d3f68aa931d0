# SPDX-License-Identifier: Apache-2.0
"""Why a consumer group does not move: one verdict, the evidence, and what to do. The first verdict that fits counts.

    1 no member online              7 paused
    2 switched off, or not allowed  8 a listener is stuck
    3 members with one client id    9 a listener fails
    4 subscriptions differ         10 flow control
    5 a queue without an owner     11 a topic does not exist
    6 locked by another member     12 only retries wait
                                   13 it moves, or nothing waits; otherwise unknown

A group of 12 and 13 is not well while a broker is lost, because it may hold messages of the group. The same state gives the same
sentences. What could not be learned is reported as unknown, and a check that needs it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from sprocketmq.core.doctor.group_state import GroupState, HeldQueue, MemberState
from sprocketmq.core.quantities import counted, duration
from sprocketmq.wire.records.message import MessageQueue

_LOCK_LIVES_MS: Final = 60_000  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME
# persistConsumerOffsetInterval: what is consumed waits for so long in the figures of brokers.
_PROGRESS_MS: Final = 5_000
_SHOWN: Final = 5


class GroupVerdict(Enum):
    """The state of a group."""

    OFFLINE = "no member online"
    SWITCHED_OFF = "switched off or not allowed"
    SAME_CLIENT_ID = "members with one client id"
    SUBSCRIPTIONS_DIFFER = "members subscribe differently"
    QUEUE_WITHOUT_OWNER = "a queue nobody owns"
    LOCKED_BY_ANOTHER = "locked by another member"
    PAUSED = "paused"
    LISTENER_STUCK = "listener stuck"
    LISTENER_FAILS = "listener fails"
    FLOW_CONTROL = "flow control"
    NO_SUCH_TOPIC = "a topic does not exist"
    BROKER_LOST = "a broker is lost"
    RETRIES_WAIT = "only retries wait"
    MOVING = "moving"
    NOTHING_WAITS = "nothing waits"
    UNKNOWN = "unknown"

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to do."""
        return self in (GroupVerdict.MOVING, GroupVerdict.NOTHING_WAITS, GroupVerdict.RETRIES_WAIT)


class HeadMessage(Struct, frozen=True):
    """The oldest unfinished message of a queue, which later ones wait for."""

    queue: MessageQueue
    offset: int
    message_id: str
    keys: tuple[str, ...] = ()


class GroupDiagnosis(Struct, frozen=True):
    """One verdict. ``evidence`` and ``not_learned`` have one sentence each; ``advice`` is "" if there is nothing to do.

    ``caught_up_ms``: milliseconds until everything is consumed at the present rates; None if never, or unknown. ``head``: the oldest
    unfinished message of ``queue``. ``retries_waiting``: not due yet, so no part of the lag; None if unknown."""

    verdict: GroupVerdict
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    caught_up_ms: int | None = None
    not_learned: tuple[str, ...] = ()
    queue: MessageQueue | None = None
    head: HeadMessage | None = None
    retries_waiting: int | None = None


def diagnose(state: GroupState, stuck_after_ms: int) -> GroupDiagnosis:
    """``stuck_after_ms``: milliseconds after which a listener that finishes no message counts as stuck."""
    stuck = partial(_stuck, stuck_after_ms=stuck_after_ms)
    checks: tuple[Callable[[GroupState], GroupDiagnosis | None], ...] = (
        _offline, _switched_off, _same_ids, _subscriptions, _unowned, _locked, _paused, stuck, _fails, _flow_control, _absent,
        _retries, _nothing_waits, _moving,
    )  # fmt: skip
    found = next((one for check in checks if (one := check(state)) is not None), None) or _unknown(state)
    silent: dict[str, list[str]] = {}
    for member in state.members:
        if member.silent_because is not None:
            silent.setdefault(member.silent_because, []).append(member.client_id)
    sentences = tuple(
        f"{_listed(ids)} did not report {'its' if len(ids) == 1 else 'their'} state: {why}"
        for why, ids in silent.items()
    )
    if state.gone and found.verdict.is_well:
        found = _broker_lost(state, found)
    elif state.gone:
        not_counted = f"not counted is what a broker holds that is gone: {_listed(state.gone)}"
        found = msgspec.structs.replace(found, evidence=(*found.evidence, not_counted))
    return msgspec.structs.replace(
        found,
        evidence=found.evidence + _retry_evidence(state),
        not_learned=state.not_learned + sentences,
        retries_waiting=state.retries_waiting,
    )


def _broker_lost(state: GroupState, found: GroupDiagnosis) -> GroupDiagnosis:
    return GroupDiagnosis(
        GroupVerdict.BROKER_LOST,
        f"what group {state.group} has to consume there is not known: {_listed(state.gone)}",
        (f"besides: {found.sentence}", *found.evidence),
        "start the broker again; its messages are consumed then",
        queue=found.queue,
    )


def _retry_evidence(state: GroupState) -> tuple[str, ...]:
    if not (state.retry_lag or state.retries_waiting):
        return ()
    due, waiting = _unless_unknown(state.retry_lag), _unless_unknown(state.retries_waiting)
    evidence = [f"retries that are due: {due}, that wait for their time: {waiting}"]
    if state.next_retry_ms is not None:
        evidence.append(f"the next one is due in {duration(max(0, state.next_retry_ms - state.now_ms))}")
    return tuple(evidence)


# -- 1 to 6: who reads what ------------------------------------------------------------------------------------------------------


def _offline(state: GroupState) -> GroupDiagnosis | None:
    if state.members:
        return None
    if state.proxy is not None:
        return GroupDiagnosis(
            GroupVerdict.UNKNOWN,
            f"no member of group {state.group} is connected to the proxy at {state.proxy}, which does not see others",
            (_lag(state),),
            f"start a member; if one runs, compare its group name and address with these. sprocketmq lag {state.group} --topic TOPIC "
            "shows how far the group is in a topic",
        )
    return GroupDiagnosis(
        GroupVerdict.OFFLINE,
        f"no member of group {state.group} is online",
        (_lag(state),),
        "start a member; if one runs, compare its group name, its name servers and its topics with these: "
        "brokers do not list a member that waits for a topic which does not exist",
    )


def _switched_off(state: GroupState) -> GroupDiagnosis | None:
    if state.switched_off:
        where = _listed(state.switched_off)
        return GroupDiagnosis(
            GroupVerdict.SWITCHED_OFF,
            f"group {state.group} is switched off at {where}",
            (f"consumeEnable is false at {where}", _lag(state)),
            f"sprocketmq group alter {state.group} --enable",
        )
    if state.unknown_at:
        where = _listed(state.unknown_at)
        do = "does" if len(state.unknown_at) == 1 else "do"
        return GroupDiagnosis(
            GroupVerdict.SWITCHED_OFF,
            f"{where} {do} not know group {state.group}, so its messages are not consumed there",
            (
                _waiting_in(state, [queue for queue in state.queues if queue.broker_name in state.unknown_at]),
                f"{where} {do} not create groups (autoCreateSubscriptionGroup=false), or {do} not say",
            ),
            "; ".join(f"sprocketmq group create {state.group} --broker {name}" for name in state.unknown_at[:_SHOWN]),
        )
    if state.unreadable:
        topic = state.unreadable[0][0]
        return GroupDiagnosis(
            GroupVerdict.SWITCHED_OFF,
            f"group {state.group} may not read topic {topic}",
            tuple(f"{topic}: {why}" for topic, why in state.unreadable[:_SHOWN]),
            "let the topic be read (sprocketmq topic perm TOPIC rw), or the group read it",
        )
    if state.hidden:
        last = max(state.hidden, key=lambda queue: queue.queue_id)
        return GroupDiagnosis(
            GroupVerdict.SWITCHED_OFF,
            f"nobody can read {_listed(map(str, state.hidden))}, because the topic has fewer read queues now",
            (_waiting_in(state, state.hidden),),
            f"sprocketmq topic alter {last.topic} --read-queues {last.queue_id + 1}",
        )
    return None


def _same_ids(state: GroupState) -> GroupDiagnosis | None:
    if not state.same_ids:
        return None
    return GroupDiagnosis(
        GroupVerdict.SAME_CLIENT_ID,
        f"more than one member of group {state.group} has the client id {_listed(state.same_ids)}",
        (
            "each of them consumes all messages of the queues of this id, so every one is consumed more than once",
            _lag(state),
        ),
        "give each client an instance_name of its own; if a member's connection broke in the last two minutes, look again after them",
    )


def _subscriptions(state: GroupState) -> GroupDiagnosis | None:
    told = [(member, dict(member.subscriptions)) for member in state.members if member.subscriptions is not None]
    for member, wanted in told[1:]:
        first, other = told[0]
        if wanted != other:
            topics = sorted(topic for topic in wanted.keys() | other.keys() if wanted.get(topic) != other.get(topic))
            return GroupDiagnosis(
                GroupVerdict.SUBSCRIPTIONS_DIFFER,
                f"members of group {state.group} subscribe differently to {_listed(topics)}",
                tuple(
                    f"{one.client_id} subscribes to {topic} as {wants[topic]!r}"
                    if topic in wants
                    else f"{one.client_id} does not subscribe to {topic}"
                    for topic in topics[:_SHOWN]
                    for one, wants in ((first, other), (member, wanted))
                ),
                "give all members of the group the same subscriptions, or put those that want something else into another group",
            )
    return None


def _unowned(state: GroupState) -> GroupDiagnosis | None:
    without = _without_owner(state)
    if state.unreached:
        without = sorted({*without, *(queue for queue in state.queues if queue.broker_name in state.unreached)})
    elif _is_orderly(state):  # orderly members read a queue when they have its lock, see below
        return None
    if not without:
        return None
    reads = (
        f"{member.client_id} reads {counted(len(member.queues or ()), 'queue')}" for member in state.members[:_SHOWN]
    )
    return GroupDiagnosis(
        GroupVerdict.QUEUE_WITHOUT_OWNER,
        f"no member of group {state.group} reads {_listed(map(str, without))}",
        (
            _waiting_in(state, without),
            *([f"no member has reached {_listed(state.unreached)} yet"] if state.unreached else ()),
            *reads,
        ),
        "look again in a minute: members take up to 50 s to read new topics, queues and brokers, and 20 s to share queues out anew; else "
        "give all of them one allocate strategy and one list of members",
    )


def _without_owner(state: GroupState) -> list[MessageQueue]:
    """Queues that no member reads. Empty if a member did not report its state, because it may read them."""
    held: set[MessageQueue] = set()
    wanted: set[str] = set()
    for member in state.members:
        if member.queues is None or member.subscriptions is None:
            return []
        held.update(member.queues)
        wanted.update(member.subscriptions)
    return sorted(queue for queue in state.queues if queue.topic in wanted and queue not in held)


def _locked(state: GroupState) -> GroupDiagnosis | None:
    """An orderly member begins to read a queue when it gets the lock from the broker, and stops when it loses the lock."""
    lost = next(
        (
            (member, queue, held.last_lock_ms)
            for member, queue, held in _held(state)
            if member.orderly and not held.locked and _lags(state, queue)
        ),
        None,
    )
    without = _without_owner(state) if _is_orderly(state) else []
    if lost is not None:
        member, queue, lock_ms = lost
        since = f", locked last {_ago(state, lock_ms)}" if lock_ms else ""
        sentence, queues = f"{member.client_id} reads {queue} in order but does not hold its lock{since}", [queue]
    elif without:
        sentence = f"no member of group {state.group} holds the lock of {_listed(map(str, without))}, which the group reads in order"
        queues = without
    else:
        return None
    at_work = [
        f"{other.client_id} runs its listener, in {other.listener_stacks[0]}"
        for other in state.members
        if other.listener_stacks
    ]
    return GroupDiagnosis(
        GroupVerdict.LOCKED_BY_ANOTHER,
        sentence,
        (_waiting_in(state, queues), *(at_work[:_SHOWN] or ["no listener of an online member is running"])),
        "a member keeps the lock of a queue that it gave up until its listener returns: sprocketmq group stack "
        f"{state.group} shows what it does; the lock of a member that is gone expires after {_LOCK_LIVES_MS // 1000} s",
        queue=queues[0],
    )


# -- 7 to 11: what members do with their messages ---------------------------------------------------------------------------------------


def _paused(state: GroupState) -> GroupDiagnosis | None:
    paused = [member for member in state.members if member.paused]
    waiting = [queue for member in paused for queue in member.queues or () if _lags(state, queue)]
    if not waiting:
        return None
    return GroupDiagnosis(
        GroupVerdict.PAUSED,
        f"{_listed(member.client_id for member in paused)} {'is' if len(paused) == 1 else 'are'} paused by the application",
        (_waiting_in(state, waiting),),
        "call resume() in the application, or stop it so that others get its queues",
    )


def _stuck(state: GroupState, *, stuck_after_ms: int) -> GroupDiagnosis | None:
    late = [
        (held.last_consume_ms, member, queue, held)
        for member, queue, held in _held(state)
        if held.cached
        and held.last_consume_ms
        and state.now_ms - held.last_consume_ms >= stuck_after_ms
        and not _is_only_slow(state, member, queue, stuck_after_ms)
    ]
    if not late:
        return _one_call_stuck(state, stuck_after_ms)
    since_ms, member, queue, held = min(late, key=lambda one: one[0])
    stacks = member.listener_stacks
    if stacks is None:
        where = "its stack is not known"
    else:
        where = f"it is in {stacks[0]}" if stacks else "none of its threads is in a listener"
    alike = f", and {len(late)} queues of the group are in this state" if len(late) > 1 else ""
    with_it = f"it holds {counted(held.cached, 'message')} of {queue}{alike}"
    span = duration(state.now_ms - since_ms)
    if member.polls:
        return GroupDiagnosis(
            GroupVerdict.LISTENER_STUCK,
            f"the application of {member.client_id} has taken no message of {queue} for {span}",
            (with_it, "it is a pull consumer: only its application knows what it does"),
            f"find out why it does not poll; sprocketmq group stack {state.group} {member.client_id} shows its threads",
            queue=queue,
        )
    return GroupDiagnosis(
        GroupVerdict.LISTENER_STUCK,
        f"the listener of {member.client_id} has finished no message of {queue} for {span}",
        (where, with_it, *(f"another listener is in {line}" for line in (stacks or ())[1:_SHOWN])),
        _advice_on_stuck(state, member),
        queue=queue,
    )


def _advice_on_stuck(state: GroupState, member: MemberState) -> str:
    return (
        f"look at that line; sprocketmq group stack {state.group} {member.client_id} shows all threads. "
        "Give calls to other systems a timeout"
    )


def _is_only_slow(state: GroupState, member: MemberState, queue: MessageQueue, stuck_after_ms: int) -> bool:
    """Whether the messages of a queue wait for their turn while the member finishes those of others."""
    if member.polls:
        return False
    if member.oldest_call_ms is not None:
        runs_for_ms = state.now_ms - member.oldest_call_ms
        return runs_for_ms < stuck_after_ms if member.oldest_call_ms else bool(member.ok_tps)
    at = state.queues.get(queue)
    if at is not None and at.moved_by:
        return True
    busy = len(member.listener_stacks or ())
    return bool(member.ok_tps) and member.threads is not None and 0 < member.threads <= busy


def _one_call_stuck(state: GroupState, stuck_after_ms: int) -> GroupDiagnosis | None:
    """A call that hangs while others finish messages of the same queue, whose progress waits for it."""
    late = [
        (member.oldest_call_ms, member.client_id, member)
        for member in state.members
        if member.oldest_call_ms and state.now_ms - member.oldest_call_ms >= stuck_after_ms
    ]
    if not late:
        return None
    since_ms, _, member = min(late)
    held = [(one.span, queue) for queue, one in (member.queues or {}).items() if one.cached]
    queue = max(held)[1] if held else None
    return GroupDiagnosis(
        GroupVerdict.LISTENER_STUCK,
        f"a call of the listener of {member.client_id} has been running for {duration(state.now_ms - since_ms)}",
        (
            *(f"a listener is in {line}" for line in (member.listener_stacks or ())[:_SHOWN]),
            f"the progress of {queue or 'its queue'} waits for it, while other calls finish later messages",
        ),
        _advice_on_stuck(state, member),
        queue=queue,
    )


def _fails(state: GroupState) -> GroupDiagnosis | None:
    """Also a listener that never succeeded while its retries wait, minutes apart; without retries it has given up what it wanted to."""
    retries = bool(state.retry_lag or state.retries_waiting)
    failing = [
        member
        for member in state.members
        if ((member.failed_tps or 0.0) > 0 and (member.failed_tps or 0.0) >= (member.ok_tps or 0.0))
        or (retries and member.failed_count and member.ok_count == 0)
    ]
    if not failing:
        return None
    worst = max(failing, key=lambda member: (member.failed_tps or 0.0, member.failed_count or 0))
    failures = (_failure_rates(worst), _last_failure(state, worst))
    alike = f"members that fail like this: {len(failing)} of {len(state.members)}"
    if worst.orderly:
        blocked = [queue for queue, held in (worst.queues or {}).items() if held.cached and _stands_still(state, queue)]
        queue = _longest_waiting(state, blocked)
        return GroupDiagnosis(
            GroupVerdict.LISTENER_FAILS,
            f"the listener of {worst.client_id} fails, and {queue or 'its queue'} waits for it, because the group reads in order",
            (*failures, *([_waiting_in(state, blocked)] if blocked else ()), alike),
            f"correct the listener{_to_skip(state, queue)}",
            queue=queue,
        )
    return GroupDiagnosis(
        GroupVerdict.LISTENER_FAILS,
        f"the listener of {worst.client_id} never succeeded since its start"
        if worst.failed_count and worst.ok_count == 0
        else f"the listener of {worst.client_id} fails more often than it succeeds",
        (*failures, alike),
        f"correct the listener; sprocketmq dead-letters list {state.group} shows the messages that it gave up",
    )


def _failure_rates(member: MemberState) -> str:
    in_hour = "an unknown number" if member.failed_in_hour is None else f"{member.failed_in_hour:,}"
    rates = f"{member.failed_tps or 0.0:.1f} failures a second in the last minute, {in_hour} in the last hour"
    return rates if member.failed_count is None else f"{rates}, {member.failed_count:,} since its start"


def _last_failure(state: GroupState, member: MemberState) -> str:
    if member.last_failure is not None and member.last_failure_ms is not None:
        return f"the last one, {_ago(state, member.last_failure_ms)}: {member.last_failure}"
    if state.last_error:
        return f"the last reason given: {state.last_error}"
    return "the reason is not known here; the log of the member has it"


def _to_skip(state: GroupState, queue: MessageQueue | None) -> str:
    offset = state.head_offset(queue) if queue is not None else None
    if queue is None or offset is None:
        return ""
    return (
        f", or skip the message: sprocketmq group reset {state.group} --topic {queue.topic} "
        f"--queue {queue.broker_name}/{queue.queue_id} --offset {offset + 1}"
    )


def _flow_control(state: GroupState) -> GroupDiagnosis | None:
    for member, queue, held in _held(state):
        limits = member.limits
        if limits is None or not _lags(state, queue):
            continue
        size = limits.max_size_bytes >> 20
        for name, value, limit, applies in (
            ("messages (pullThresholdForQueue)", held.cached, limits.max_count, True),
            ("MiB (pullThresholdSizeForQueue)", held.cached_mib, size, True),
            (
                "offsets from the oldest to the newest (consumeConcurrentlyMaxSpan)",
                held.span,
                limits.max_span,
                not member.orderly,
            ),
        ):
            if applies and value >= limit:
                stacks = member.listener_stacks
                at_work = (f"its listeners are in {stacks[0]}",) if stacks else ()
                rate = state.consumed_per_second
                pace = (
                    f"the group consumes {rate:,.1f} messages a second"
                    if rate is not None
                    else "how fast it consumes is not known"
                )
                return GroupDiagnosis(
                    GroupVerdict.FLOW_CONTROL,
                    f"{member.client_id} holds as much of {queue} as it may: {value:,} of {limit:,} {name}",
                    (pace, _lag(state), *at_work),
                    "messages come faster than the listener finishes them: make it faster, let more calls run at once, or add members",
                    _caught_up_ms(state),
                    queue=queue,
                )
    return None


def _absent(state: GroupState) -> GroupDiagnosis | None:
    if not state.absent:
        return None
    topic, similar = state.absent[0]
    do = "does" if len(state.absent) == 1 else "do"
    return GroupDiagnosis(
        GroupVerdict.NO_SUCH_TOPIC,
        f"group {state.group} subscribes to {_listed(name for name, _ in state.absent)}, which {do} not exist",
        (f"a topic {similar} exists",) if similar else (),
        f"check the name of the topic in the application, or create it: sprocketmq topic create {topic}",
    )


# -- 12 and 13: nothing is wrong -----------------------------------------------------------------------------------------------------


def _retries(state: GroupState) -> GroupDiagnosis | None:
    if state.lag or not (state.retry_lag or state.retries_waiting):
        return None
    return GroupDiagnosis(GroupVerdict.RETRIES_WAIT, f"group {state.group} has consumed everything; only retries wait")


def _nothing_waits(state: GroupState) -> GroupDiagnosis | None:
    if state.lag or not state.queues:
        return None
    return GroupDiagnosis(
        GroupVerdict.NOTHING_WAITS,
        f"group {state.group} has consumed all messages of {counted(len(state.queues), 'queue')} at {_brokers(state)}",
    )


def _moving(state: GroupState) -> GroupDiagnosis | None:
    rate = state.consumed_per_second
    if not rate:
        return None
    caught_up_ms = _caught_up_ms(state)
    came = state.came_per_second
    pace = f"it consumes {rate:,.1f} messages a second" + (
        f", {came:,.1f} arrive" if came is not None else ", how many arrive is not known"
    )
    if caught_up_ms is not None:
        end, advice = f" and will have caught up in {duration(caught_up_ms)}", ""
    elif state.lag * 1000 <= rate * _PROGRESS_MS and _oldest_ms(state) <= 2 * _PROGRESS_MS and came is not None:
        end, advice = " and keeps up", ""
    else:
        end = " but does not catch up" if came is not None else ", and whether it catches up is not known"
        advice = "add members, up to one for each queue, or make the listener faster"
    return GroupDiagnosis(
        GroupVerdict.MOVING, f"group {state.group} is moving{end}", (pace, _lag(state)), advice, caught_up_ms
    )


def _unknown(state: GroupState) -> GroupDiagnosis:
    idle = [queue for queue in state.queues if _stands_still(state, queue)]
    return GroupDiagnosis(
        GroupVerdict.UNKNOWN,
        f"group {state.group} did not move for {duration(state.observed_ms)}, and nothing that can be seen explains it",
        (_lag(state), f"{counted(len(state.members), 'member')} online"),
        f"look again for longer; sprocketmq group stack {state.group} shows what the members do, their logs show what went wrong"
        if state.proxy is None
        else "look for 15 s at least, because members write their progress each 5 s, and read their logs",
        queue=_longest_waiting(state, idle),
    )


# -- words ---------------------------------------------------------------------------------------------------------------------------


def _held(state: GroupState) -> Iterator[tuple[MemberState, MessageQueue, HeldQueue]]:
    for member in state.members:
        for queue, held in sorted((member.queues or {}).items()):
            yield member, queue, held


def _lags(state: GroupState, queue: MessageQueue) -> bool:
    """Whether messages wait there. True for a queue that was not read."""
    return queue not in state.queues or state.queues[queue].lag > 0


def _stands_still(state: GroupState, queue: MessageQueue) -> bool:
    at = state.queues.get(queue)
    return at is not None and at.lag > 0 and not at.moved_by


def _longest_waiting(state: GroupState, queues: Iterable[MessageQueue]) -> MessageQueue | None:
    """The first by its name, if several have waited so long."""
    return max(sorted(queues), key=lambda queue: state.queues[queue].waiting_ms or 0, default=None)


def _is_orderly(state: GroupState) -> bool:
    return any(member.orderly for member in state.members)


def _waiting_in(state: GroupState, queues: Iterable[MessageQueue]) -> str:
    waiting = [state.queues[queue].lag for queue in queues if queue in state.queues]
    return (
        f"waiting there: {counted(sum(waiting), 'message')}" if waiting else "how many messages wait there is not known"
    )


def _brokers(state: GroupState) -> str:
    return _listed(sorted({queue.broker_name for queue in state.queues}))


def _oldest_ms(state: GroupState) -> int:
    """How long the oldest message has waited; 0 if no broker tells."""
    return max(
        (queue.waiting_ms for queue in state.queues.values() if queue.waiting_ms is not None and queue.lag), default=0
    )


def _lag(state: GroupState) -> str:
    oldest_ms = _oldest_ms(state)
    oldest = f", the oldest for {duration(oldest_ms)}" if oldest_ms else ""
    if not state.queues:
        why = "the group has no progress" if state.proxy is None else "nobody says what the group reads"
        return f"how many messages wait is not known: {why}"
    return f"waiting: {counted(state.lag, 'message')}{oldest}"


def _caught_up_ms(state: GroupState) -> int | None:
    rate, came = state.consumed_per_second, state.came_per_second
    if not rate or came is None or rate <= came:
        return None
    return int(state.lag * 1000 / (rate - came))


def _ago(state: GroupState, at_ms: int) -> str:
    return f"{duration(max(0, state.now_ms - at_ms))} ago"


def _unless_unknown(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _listed(names: Iterable[str]) -> str:
    ordered = list(names)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more
