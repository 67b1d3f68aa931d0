# SPDX-License-Identifier: Apache-2.0
"""One look for each verdict, the order of the verdicts, and what is said when something could not be learned."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis, GroupVerdict, diagnose
from sprocketmq.core.doctor.group_state import GroupState, HeldQueue, MemberState, QueueState
from sprocketmq.wire.records.message import MessageQueue

NOW_MS = 1_700_000_000_000
STUCK_MS = 30_000
Q0, Q1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)

FAR, FARTHER = MessageQueue("orders", "broker-b", 0), MessageQueue("orders", "broker-c", 0)


def queue(lag: int = 100, **more: Any) -> QueueState:
    return QueueState(1_000, 1_000 - lag, **{"moved_by": 0, "came": 0, "waiting_ms": 65_000 if lag else None, **more})


def held(**more: Any) -> HeldQueue:
    return HeldQueue(**{"cached": 32, "span": 31, "last_consume_ms": NOW_MS - 100, **more})


def member(name: str, *queues: MessageQueue, **more: Any) -> MemberState:
    usual = {
        "subscriptions": {"orders": "TAG: *"},
        "queues": {one: held() for one in queues},
        "orderly": False,
        "limits": FlowLimits(),
        "ok_tps": 0.0,
        "failed_tps": 0.0,
        "failed_in_hour": 0,
        "listener_stacks": (),
    }
    return MemberState(name, **{**usual, **more})


def state(*members: MemberState, **more: Any) -> GroupState:
    usual = {"observed_ms": 2_000, "members": members, "queues": {Q0: queue(), Q1: queue()}, "retry_lag": 0}
    return GroupState("billing", NOW_MS, **{**usual, "retries_waiting": 0, **more})


def both(**more: Any) -> MemberState:
    return member("a", Q0, Q1, **more)


LOST = "broker-b at 10.0.0.2:10911 was lost 40.0 s ago"
LATE = {"queues": {Q0: held(last_consume_ms=NOW_MS - 45_000), Q1: held()}}
FULL = {"queues": {Q0: held(cached=1_000, span=999), Q1: held()}}

# Each with a look that brings it about. verdicts.txt has what is told of it.
LOOKS: dict[GroupVerdict, GroupState] = {
    GroupVerdict.OFFLINE: state(),
    GroupVerdict.SWITCHED_OFF: state(both(), switched_off=("broker-a",)),
    GroupVerdict.SAME_CLIENT_ID: state(both(), same_ids=("a",)),
    GroupVerdict.SUBSCRIPTIONS_DIFFER: state(member("a", Q0), member("b", Q1, subscriptions={"orders": "TAG: paid"})),
    GroupVerdict.QUEUE_WITHOUT_OWNER: state(member("a", Q0), member("b")),
    GroupVerdict.LOCKED_BY_ANOTHER: state(
        member("a", Q0, orderly=True, queues={Q0: held(locked=True)}, listener_stacks=("app.charge(app.py:31)",)),
        member("b", orderly=True, queues={}),
    ),
    GroupVerdict.PAUSED: state(both(paused=True)),
    GroupVerdict.LISTENER_STUCK: state(both(**LATE, listener_stacks=("app.charge(app.py:31)",))),
    GroupVerdict.LISTENER_FAILS: state(both(failed_tps=2.5, failed_in_hour=900), last_error="no such account"),
    GroupVerdict.FLOW_CONTROL: state(both(**FULL, ok_tps=4.0)),
    GroupVerdict.NO_SUCH_TOPIC: state(both(), absent=(("ordres", "orders"), ("stock", ""))),
    GroupVerdict.BROKER_LOST: state(both(), queues={Q0: queue(0), Q1: queue(0)}, gone=(LOST,)),
    GroupVerdict.RETRIES_WAIT: state(
        both(), queues={Q0: queue(0), Q1: queue(0)}, retry_lag=1, retries_waiting=3, next_retry_ms=NOW_MS + 7_000
    ),
    GroupVerdict.NOTHING_WAITS: state(both(), queues={Q0: queue(0), Q1: queue(0)}),
    GroupVerdict.MOVING: state(both(), queues={Q0: queue(moved_by=40, came=20), Q1: queue()}),
    GroupVerdict.UNKNOWN: state(both()),
}


# Further ones, for their words and the limits between two verdicts. The transcript says what is told of each.
SILENT = MemberState("c", silent_because="code 3: no")
MORE: dict[str, GroupState] = {
    "two topics may not be read": state(
        both(), unreadable=(("orders", "its permission at broker-a is 2"), ("stock", "broker-a forbids it"))
    ),
    "a member does not subscribe to one of two topics": state(
        member("a", Q0, subscriptions={"orders": "TAG: *", "stock": "TAG: *"}),
        member("b", Q1, subscriptions={"orders": "TAG: *"}),
    ),
    "nobody reads any of seven queues, and one is not wanted": state(
        member("a"),
        queues={
            **{MessageQueue("orders", "broker-a", n): queue(n) for n in range(7)},
            MessageQueue("old", "b", 0): queue(),
        },
    ),
    "nobody reads five queues": state(
        member("a"), queues={MessageQueue("orders", "broker-a", n): queue(1) for n in range(5)}
    ),
    "a silent member may read what nobody else reads": state(member("a", Q0), SILENT),
    "a lock that was never had": state(
        member("a", Q0, Q1, orderly=True, queues={Q0: held(locked=True), Q1: held(locked=False)})
    ),
    "a lock is lost of a queue in which nothing waits": state(
        member("a", Q0, Q1, orderly=True, ok_tps=1.0, queues={Q0: held(locked=True), Q1: held(locked=False)}),
        queues={Q0: queue(), Q1: queue(0)},
    ),
    "a lock is lost of a queue that was not looked at": state(
        member("a", Q0, orderly=True, queues={Q0: held(locked=False)}), queues={}
    ),
    "stuck for as long as is allowed": state(both(queues={Q0: held(last_consume_ms=NOW_MS - STUCK_MS), Q1: held()})),
    "stuck a moment less": state(both(queues={Q0: held(last_consume_ms=NOW_MS - STUCK_MS + 1), Q1: held()})),
    "two queues of two members are stuck, the longer one is told": state(
        member("a", queues={Q0: held(last_consume_ms=NOW_MS - 40_000)}, listener_stacks=("app.one(app.py:1)",)),
        member(
            "b",
            queues={Q1: held(last_consume_ms=NOW_MS - 50_000)},
            listener_stacks=("app.two(app.py:2)", "app.three(app.py:3)"),
        ),
    ),
    "stuck, and where is not known": state(both(**LATE, listener_stacks=None)),
    "stuck, and no thread is in a listener": state(both(**LATE)),
    "one thread works on the other queue: slow, not stuck": state(
        both(**LATE, oldest_call_ms=NOW_MS - 200, ok_tps=5.0, threads=1, listener_stacks=("app.charge(app.py:31)",)),
        queues={Q0: queue(), Q1: queue(moved_by=10)},
    ),
    "the one thread is between two calls: slow, not stuck": state(both(**LATE, oldest_call_ms=0, ok_tps=5.0)),
    "a member of Java whose only thread works on the other queue": state(
        both(**LATE, ok_tps=5.0, threads=1, listener_stacks=("app.charge(app.py:31)",))
    ),
    "a member of Java with a free thread, and a queue that hangs": state(
        both(**LATE, ok_tps=5.0, threads=2, listener_stacks=("app.charge(app.py:31)",))
    ),
    "a queue that is late and moved between the looks": state(
        both(**LATE), queues={Q0: queue(moved_by=1, came=0), Q1: queue()}
    ),
    "no call runs and nothing is finished": state(both(**LATE, oldest_call_ms=0)),
    "one call hangs while others finish messages of its queue": state(
        both(
            queues={Q0: held(span=900), Q1: held()},
            oldest_call_ms=NOW_MS - 45_000,
            ok_tps=5.0,
            listener_stacks=("app.charge(app.py:31)",),
        ),
    ),
    "one call hangs, and which queue it is of is not known": state(
        both(queues={Q0: held(cached=0), Q1: held(cached=0)}, oldest_call_ms=NOW_MS - 45_000, listener_stacks=None),
    ),
    "an orderly queue whose first message fails": state(
        both(
            queues={Q0: held(locked=True, first_offset=900), Q1: held(cached=0, locked=True)},
            orderly=True,
            failed_tps=1.0,
            failed_in_hour=60,
            last_failure="ValueError: no",
            last_failure_ms=NOW_MS - 1_000,
        ),
        queues={Q0: queue(), Q1: queue(0)},
    ),
    "an orderly listener fails, and which queue waits is not known": state(
        both(orderly=True, failed_tps=1.0, queues={Q0: held(cached=0, locked=True), Q1: held(cached=0, locked=True)})
    ),
    "a pull consumer that does not poll": state(both(**LATE, polls=True)),
    "nothing is with the member that finished nothing for long": state(
        both(queues={Q0: held(cached=0, last_consume_ms=1), Q1: held()}), queues={Q0: queue(0), Q1: queue(0)}
    ),
    "as many fail as succeed, most at one of two": state(
        both(failed_tps=1.0, ok_tps=1.0, failed_in_hour=5),
        member("b", failed_tps=3.0, ok_tps=None, failed_in_hour=None),
    ),
    "fewer fail than succeed": state(both(failed_tps=1.0, ok_tps=1.1)),
    "it fails, and when is not told": state(both(failed_tps=1.0, last_failure="ValueError: no")),
    "flow control by size, and how fast is not known": state(
        both(
            limits=FlowLimits(max_size_bytes=5 << 20),
            queues={Q0: held(cached_mib=5), Q1: held()},
            ok_tps=None,
            listener_stacks=("app.one(app.py:1)",),
        ),
        observed_ms=0,
    ),
    "flow control by span": state(both(limits=FlowLimits(max_span=31))),
    "a span does not count in order": state(
        both(limits=FlowLimits(max_span=31), orderly=True, queues={Q0: held(locked=True), Q1: held(locked=True)})
    ),
    "one less than the limit": state(both(queues={Q0: held(cached=999), Q1: held()})),
    "full of a queue in which nothing waits": state(both(**FULL, ok_tps=1.0), queues={Q0: queue(0), Q1: queue(1)}),
    "a retry is due": state(both(), queues={Q0: queue(0)}, retry_lag=2, retries_waiting=None),
    "a retry waits, and is late": state(both(), queues={Q0: queue(0)}, retries_waiting=1, next_retry_ms=NOW_MS - 1),
    "retries wait beside messages": state(both(ok_tps=1.0), retries_waiting=3),
    "how many retries wait is not known, nor anything else": state(
        both(), queues={}, retry_lag=None, retries_waiting=None
    ),
    "as many come as are consumed": state(both(), queues={Q0: queue(moved_by=20, came=20), Q1: queue()}),
    "what members say is more than what is written": state(
        both(ok_tps=50.0), queues={Q0: queue(moved_by=20, came=20), Q1: queue()}
    ),
    "slower than what comes, but all that waits may be consumed already": state(
        both(), queues={Q0: queue(25, moved_by=10, came=12, waiting_ms=4_000), Q1: queue(0)}
    ),
    "slower than what comes: it does not catch up": state(
        both(), queues={Q0: queue(moved_by=10, came=50), Q1: queue()}
    ),
    "broadcasting members own all queues, and each topic once": state(
        both(),
        member("b", Q0, Q1),
        broadcasting=True,
        queues={Q0: queue(0), Q1: queue(0), MessageQueue("old", "broker-a", 0): queue(0)},
    ),
    "a listener that never succeeded, when its retries are minutes apart": state(
        both(ok_count=0, failed_count=30, last_failure="ValueError: no", last_failure_ms=NOW_MS - 90_000),
        queues={Q0: queue(0), Q1: queue(0)},
        retries_waiting=6,
        next_retry_ms=NOW_MS + 150_000,
    ),
    "a listener that succeeded once": state(
        both(ok_count=1, failed_count=30), queues={Q0: queue(0), Q1: queue(0)}, retries_waiting=6
    ),
    "retries wait for a group without members": state(
        queues={Q0: queue(0)}, retries_waiting=6, next_retry_ms=NOW_MS + 7_000
    ),
    "no member has reached two brokers": state(
        member("a", Q0),
        queues={Q0: queue(0), FAR: queue(7), FARTHER: queue(0)},
        unreached=("broker-b", "broker-c"),
    ),
    "two brokers create no groups": state(
        member("a", Q0), queues={Q0: queue(0), FAR: queue(7)}, unknown_at=("broker-b", "broker-c")
    ),
    "a broker is lost while the others are consumed": state(both(ok_tps=20.0), gone=(LOST,)),
    "a broker is lost and nobody is online": state(gone=(LOST,)),
    "the last exception of a member has priority over the reason of a retry": state(
        both(failed_tps=2.5, last_failure="ValueError: no, charge(app.py:31)", last_failure_ms=NOW_MS - 3_000),
        last_error="another",
    ),
    "failures of an unknown number, for a reason that is not known": state(both(failed_tps=2.5, failed_in_hour=None)),
    "the lock of a member that is gone comes free": state(
        both(orderly=True, queues={Q0: held(locked=False, last_lock_ms=NOW_MS - 12_000), Q1: held(locked=True)})
    ),
    "no progress and no figures of members are not shown as zero": GroupState(
        "billing", NOW_MS, members=(MemberState("a", subscriptions={"orders": "TAG: *"}, queues={Q0: HeldQueue()}),)
    ),
    "how fast one of two queues moves is not known": state(
        both(ok_tps=5.0), queues={Q0: QueueState(1_000, 900), Q1: queue(0)}
    ),
    "how fast any queue moves is not known": state(
        both(ok_tps=5.0), queues={Q0: QueueState(1_000, 900), Q1: QueueState(5, 5)}
    ),
    "how many retries are due is not known": state(
        both(), queues={Q0: QueueState(5, 5)}, retry_lag=None, retries_waiting=2
    ),
    "what could not be asked": state(both(), not_learned=("how many retries wait: no",)),
    "a group without progress": GroupState("billing", NOW_MS, members=(both(),)),
    "no member at a proxy": GroupState("billing", NOW_MS, proxy="proxy:8080"),
    "two members at a proxy": state(
        *(MemberState(name, silent_because="not served") for name in ("a", "b")), proxy="proxy:8080"
    ),
}


def told(diagnosis: GroupDiagnosis) -> str:
    lines = [f"{diagnosis.verdict.value}: {diagnosis.sentence}", *(f"  {line}" for line in diagnosis.evidence)]
    lines += [f"  not known: {line}" for line in diagnosis.not_learned]
    lines += [f"what to do: {diagnosis.advice}"] * bool(diagnosis.advice)
    lines += [f"caught up in {diagnosis.caught_up_ms} ms"] * (diagnosis.caught_up_ms is not None)
    return "\n".join(lines)


def test_the_words_of_each_diagnosis():
    """verdicts.txt beside this file has them. SPROCKETMQ_WRITE_PAGE=1 writes it anew; read what changed."""
    looks = {**{verdict.name.lower(): one for verdict, one in LOOKS.items()}, **MORE}
    text = "\n".join(f"# {name}\n{told(diagnose(one, STUCK_MS))}\n" for name, one in looks.items())
    page = Path(__file__).with_name("verdicts.txt")
    if os.environ.get("SPROCKETMQ_WRITE_PAGE") == "1":
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text


def test_each_verdict_has_an_example():
    assert [diagnose(one, STUCK_MS).verdict for one in LOOKS.values()] == [*LOOKS]
    assert set(LOOKS) == set(GroupVerdict)


FAULTS: tuple[tuple[GroupVerdict, dict[str, Any], dict[str, Any]], ...] = (
    (GroupVerdict.SWITCHED_OFF, {}, {"switched_off": ("broker-a",)}),
    (GroupVerdict.LISTENER_STUCK, {"queues": {Q0: held(last_consume_ms=1), Q1: held()}}, {}),
    (GroupVerdict.LISTENER_FAILS, {"failed_tps": 1.0}, {}),
    (GroupVerdict.FLOW_CONTROL, {"queues": {Q0: held(cached=1_000), Q1: held()}}, {}),
    (GroupVerdict.MOVING, {"ok_tps": 0.5}, {}),
)


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(FAULTS, 2)], ids=lambda fault: fault[0].name)
def test_of_two_that_fit_the_first_counts(first, second):
    of_member, of_group = {**second[1], **first[1]}, {**second[2], **first[2]}
    if first[0] is GroupVerdict.LISTENER_STUCK and second[0] is GroupVerdict.FLOW_CONTROL:
        of_member["queues"] = {Q0: held(last_consume_ms=1, cached=1_000), Q1: held()}
    assert diagnose(state(both(**of_member), **of_group), STUCK_MS).verdict is first[0]


@pytest.mark.parametrize("verdict", GroupVerdict, ids=lambda verdict: verdict.name)
def test_verdicts_that_are_not_healthy_have_advice(verdict):
    found: GroupDiagnosis = diagnose(LOOKS[verdict], STUCK_MS)
    assert bool(found.advice) is not verdict.is_well
