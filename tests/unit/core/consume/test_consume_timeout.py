# SPDX-License-Identifier: Apache-2.0
"""core.consume_timeout: precise deadlines, one retry copy at most, a limit that may change; and a model of all of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.consume.consume_timeout import SEND_BACK_RETRY_MS, ConsumeTimeout, Settlement

from ..messages import message


@pytest.fixture
def timeout() -> ConsumeTimeout[str]:
    return ConsumeTimeout(100)


def test_a_result_during_the_send_back_waits_for_it(timeout):
    timeout.started("a", 0)
    timeout.expired(100)
    assert timeout.finished("a") is Settlement.WAIT
    assert timeout.send_back_failed("a", 110) is Settlement.SETTLE
    assert "a" not in timeout

    timeout.started("b", 200)
    timeout.expired(300)
    assert timeout.finished("b") is Settlement.WAIT
    timeout.sent_back("b")
    assert timeout.finished("b") is Settlement.IGNORE


def test_a_failed_send_back_is_tried_again_after_5_s_whatever_the_limit(timeout):
    timeout.started("a", 0)
    timeout.expired(100)
    assert timeout.send_back_failed("a", 120) is Settlement.WAIT
    assert timeout.next_deadline_ms() == 5_120
    assert timeout.expired(5_119) == []
    assert timeout.expired(5_120) == ["a"]
    assert timeout.send_back_failed("a", 6_000) is Settlement.WAIT
    assert timeout.finished("a") is Settlement.SETTLE


def test_a_delivery_can_be_removed_in_every_state():
    timeout: ConsumeTimeout[str] = ConsumeTimeout(1)
    for key in ("running", "sent back", "tried again"):
        timeout.started(key, 0)
        timeout.forget("unknown")
        assert key in timeout
        if key != "running":
            assert timeout.expired(1) == [key]
        if key == "tried again":
            timeout.send_back_failed(key, 1)
        assert key in timeout
        timeout.forget(key)
        assert key not in timeout
        assert len(timeout) == 0
        assert timeout.finished(key) is Settlement.IGNORE
        assert timeout.expired(10**9) == []


def test_a_clock_that_steps_back_keeps_the_order(timeout):
    timeout.started("a", 1_000)
    timeout.started("b", 400)
    timeout.check_invariants()
    assert timeout.expired(1_100) == ["a", "b"]


def test_a_wrong_call_raises_a_value_error(timeout):
    timeout.started("a", 0)
    with pytest.raises(ValueError, match="running already"):
        timeout.started("a", 1)
    with pytest.raises(ValueError, match="only an expired"):
        timeout.sent_back("a")
    with pytest.raises(ValueError, match="only an expired"):
        timeout.send_back_failed("a", 1)


def test_nothing_finished_is_kept_behind_a_stuck_message():
    timeout: ConsumeTimeout[object] = ConsumeTimeout(900_000)
    timeout.started(message(0), 0)
    for offset in range(1, 1_000):
        one = message(offset)
        timeout.started(one, offset)
        timeout.finished(one)
    assert len(timeout) == 1
    assert sum(len(part) for part in (timeout._running, timeout._retrying, timeout._expired)) == 1


class TimeoutModel(RuleBasedStateMachine):
    """Each delivery in a flat dict with its state; counts what ends how."""

    @initialize(limit_ms=st.sampled_from([0, 10, 50]))
    def begin(self, limit_ms: int) -> None:
        self.timeout: ConsumeTimeout[int] = ConsumeTimeout(limit_ms)
        self.now_ms = 0
        self.number = 0
        self.due: dict[int, tuple[str, int]] = {}  # running or retrying -> (kind, start or due)
        self.sending: dict[int, bool] = {}
        self.ended: dict[int, int] = {}

    @rule(ms=st.integers(0, 40))
    def start(self, ms: int) -> None:
        self.now_ms += ms
        self.number += 1
        self.timeout.started(self.number, self.now_ms)
        self.due[self.number] = ("running", self.now_ms)

    @rule(limit_ms=st.sampled_from([0, 10, 50, 200]))
    def change_limit(self, limit_ms: int) -> None:
        self.timeout.limit_ms = limit_ms

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if not self.number:
            return
        key = data.draw(st.integers(1, self.number))
        result = self.timeout.finished(key)
        if key in self.due:
            assert result is Settlement.SETTLE
            del self.due[key]
            self.end(key)
        elif key in self.sending:
            assert result is Settlement.WAIT
            self.sending[key] = True
        else:
            assert result is Settlement.IGNORE

    def end(self, key: int) -> None:
        self.ended[key] = self.ended.get(key, 0) + 1

    def due_ms(self, key: int) -> int | None:
        kind, at_ms = self.due[key]
        if kind == "retrying":
            return at_ms
        return at_ms + self.timeout.limit_ms if self.timeout.limit_ms > 0 else None

    @rule(ms=st.sampled_from([0, 1, 10, 49, 5_000]))
    def expire(self, ms: int) -> None:
        self.now_ms += ms
        expected = {key for key in self.due if (due := self.due_ms(key)) is not None and due <= self.now_ms}
        expired = self.timeout.expired(self.now_ms)
        assert sorted(expired) == sorted(expected)
        for key in expired:
            del self.due[key]
            self.sending[key] = False

    @rule(data=st.data(), stored=st.booleans())
    def send_back(self, data: st.DataObject, stored: bool) -> None:
        if not self.sending:
            return
        key = data.draw(st.sampled_from(sorted(self.sending)))
        finished = self.sending.pop(key)
        if stored:
            self.timeout.sent_back(key)
            self.end(key)
        elif finished:
            assert self.timeout.send_back_failed(key, self.now_ms) is Settlement.SETTLE
            self.end(key)
        else:
            assert self.timeout.send_back_failed(key, self.now_ms) is Settlement.WAIT
            self.due[key] = ("retrying", self.now_ms + SEND_BACK_RETRY_MS)

    @invariant()
    def laws_hold(self) -> None:
        self.timeout.check_invariants()
        assert all(count == 1 for count in self.ended.values())
        assert len(self.timeout) == len(self.due) + len(self.sending)
        dues = [due for key in self.due if (due := self.due_ms(key)) is not None]
        assert self.timeout.next_deadline_ms() == min(dues, default=None)


TestTimeoutModel = TimeoutModel.TestCase
TestTimeoutModel.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
