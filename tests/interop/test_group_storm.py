# SPDX-License-Identifier: Apache-2.0
"""The storm's members themselves: which failure of a Java program is the machine's, and which is a failure."""

from __future__ import annotations

import pytest

from interop.child import JsonLines
from interop.group_history import History
from interop.group_storm import Member
from interop.java_program import JavaProgram

pytestmark = pytest.mark.nightly

READY = '{"event": "ready"}'
NO_ANSWER = (
    '{"event": "failed", "why": "java.lang.IllegalStateException: '
    'org.apache.rocketmq.remoting.exception.RemotingSendRequestException: send request to </127.0.0.1:1> failed"}'
)
BROKEN = '{"event": "failed", "why": "java.lang.NullPointerException"}'


class Told(JavaProgram):
    """A Java program that says these lines and ends with 1."""

    def __init__(self, *lines: str) -> None:
        JsonLines.__init__(self)
        self._latest_subscriptions = list(lines)

    def read_line(self, timeout_s: float = 60.0) -> str:
        if not self._latest_subscriptions:
            raise EOFError
        return self._latest_subscriptions.pop(0)

    def close_input(self) -> None:
        pass

    def stop(self, timeout_s: float = 30.0) -> int:
        return 1


def member(*lines: str) -> Member:
    return Member("java-1", Told(*lines), History(queues=2, orderly=True), mortal=False)


def test_a_java_member_that_gets_no_answer_before_it_is_ready_gives_up() -> None:
    seen = member(NO_ANSWER)
    seen.look()
    assert seen.gave_up
    seen.leave()
    member(NO_ANSWER).leave()  # its failure may as well be met then


@pytest.mark.parametrize("lines", [(READY, NO_ANSWER), (BROKEN,)], ids=["once ready", "for another reason"])
def test_any_other_failure_of_a_member_is_a_failure(lines: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match="failed"):
        member(*lines).leave()


def test_a_member_that_ends_with_an_error_and_without_a_word_is_a_failure() -> None:
    with pytest.raises(AssertionError):
        member(READY).leave()
