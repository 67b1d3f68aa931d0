# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.testing.faults import PULLS, SENDS, Fault, FaultInjector
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, decode_command, encode_command, request, response


class RecordingConnection:
    """As much of a connection as faults touch."""

    def __init__(self) -> None:
        self.is_aborted = False
        self.is_closed = False
        self.written = b""
        self.note = "of the connection"

    def send_raw(self, chunks: list[Any]) -> None:
        self.written += b"".join(chunks)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Served:
    """A handler that answers everything and remembers what reached it."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def __call__(self, connection: Any, command: Command) -> Command:
        self.codes.append(command.code)
        return response(command)


@pytest.fixture
def faults() -> FaultInjector:
    return FaultInjector(ManualClock())


def ask(faults: FaultInjector, code: int, served: Served, connection: Any = None, **ext: str) -> Command | None:
    command = request(code)
    command.ext_fields = ext
    return faults.intercept(connection, command, served)


def test_a_dropped_request_is_not_handled_and_the_next_one_is(faults):
    served = Served()
    fault = faults.drop(RequestCode.HEART_BEAT)
    assert ask(faults, RequestCode.HEART_BEAT, served) is None
    assert ask(faults, RequestCode.HEART_BEAT, served) is not None
    assert (fault.hits, served.codes) == (1, [RequestCode.HEART_BEAT])


def test_a_dropped_answer_is_handled_all_the_same(faults):
    served = Served()
    faults.drop_answer(SENDS)
    assert ask(faults, RequestCode.SEND_BATCH_MESSAGE, served) is None
    assert served.codes == [RequestCode.SEND_BATCH_MESSAGE]


class Writing(Served):
    """A handler that writes its answer itself, as that of pulls does, or keeps the connection to do so later."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.later: list[Any] = []

    def __call__(self, connection: Any, command: Command) -> Command | None:  # type: ignore[override]
        answer = super().__call__(connection, command)
        assert connection.note == "of the connection"
        if self.how == "returned":
            return answer
        if self.how == "with body":
            connection.send_with_body(answer.header_bytes(), [b"re", b"cord"], 6)
        elif self.how == "later":
            self.later.append(lambda: connection.send(answer))
        return None


def _whole(how: str) -> bytes:
    """What is written without a fault."""
    answer = response(request(RequestCode.PULL_MESSAGE))
    if how == "with body":
        answer.body = b"record"
    return encode_command(answer)


def _strike(fault: Callable[[FaultInjector], Fault], how: str, clock: Any = None) -> RecordingConnection:
    faults, connection, handler = FaultInjector(clock or ManualClock()), RecordingConnection(), Writing(how)
    struck = fault(faults)
    assert ask(faults, RequestCode.PULL_MESSAGE, handler, connection) is None
    for write in handler.later:
        write()
    assert (struck.hits, handler.codes) == (1, [RequestCode.PULL_MESSAGE])
    return connection


class _Alarm(ManualClock):
    """A clock without loops: what it was asked to do later is done when it rings."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []
        self._calls: list[Callable[[], object]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
        self.delays.append(delay_ms)
        self._calls.append(callback)

    def ring(self) -> None:
        for call in self._calls:
            call()


HOW = pytest.mark.parametrize("how", ["returned", "with body", "later"])


@HOW
def test_an_answer_can_be_lost_or_repeated_whoever_writes_it(how):
    assert _strike(lambda faults: faults.drop_answer(PULLS), how).written == b""
    assert _strike(lambda faults: faults.repeat_answer(PULLS), how).written == _whole(how) * 2


@HOW
def test_a_mislabelled_answer_comes_before_the_real_one(how):
    written = _strike(lambda faults: faults.mislabel_answer(PULLS), how).written
    stray = written.removesuffix(_whole(how))
    assert len(stray) >= len(_whole(how))
    assert decode_command(memoryview(stray)[4:]).opaque == 0x7FFFFFFF


@HOW
@pytest.mark.parametrize("keep_bytes", [0, 3, 20, -1])
def test_a_partly_sent_answer_ends_with_the_connection(how, keep_bytes):
    async def main() -> None:
        connection = _strike(lambda faults: faults.cut_answer(PULLS, keep_bytes), how)
        assert connection.written == _whole(how)[:keep_bytes]
        assert not connection.is_closed  # what else the read brought is written first
        await asyncio.sleep(0)
        assert connection.is_closed

    asyncio.run(main())


@HOW
def test_a_late_answer_is_made_now_and_written_then(how):
    clock = _Alarm()
    connection = _strike(lambda faults: faults.delay_answer(PULLS, 500), how, clock)
    assert (connection.written, clock.delays) == (b"", [500])
    clock.ring()
    assert connection.written == _whole(how)
    with pytest.raises(ConfigurationError, match="delay_ms is -1"):
        FaultInjector(clock).delay_answer(PULLS, -1)


def test_a_failed_request_has_the_given_code_and_remark(faults):
    served = Served()
    faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, "try later", times=2)
    for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        answer = ask(faults, code, served)
        assert answer is not None
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "try later")
    assert ask(faults, RequestCode.SEND_MESSAGE, served) is not None
    assert served.codes == [RequestCode.SEND_MESSAGE]


def test_closing_cuts_the_connection_that_asked(faults):
    connection = RecordingConnection()
    faults.close_connection(PULLS)
    assert ask(faults, RequestCode.PULL_MESSAGE, Served(), connection) is None
    assert connection.is_aborted


def test_other_codes_pass_a_fault_by(faults):
    fault = faults.drop(PULLS, times=None)
    assert ask(faults, RequestCode.SEND_MESSAGE_V2, Served()) is not None
    assert fault.hits == 0


def test_the_argument_when_limits_a_fault_to_some_requests(faults):
    served = Served()
    faults.drop(SENDS, times=None, when=lambda command: command.ext_fields.get("topic") == "flights")
    assert ask(faults, RequestCode.SEND_MESSAGE, served, topic="flights") is None
    assert ask(faults, RequestCode.SEND_MESSAGE, served, topic="trains") is not None


def test_faults_strike_in_the_order_they_were_asked_for_and_one_at_a_time(faults):
    first = faults.drop(SENDS)
    second = faults.fail(SENDS, ResponseCode.SYSTEM_BUSY)
    assert ask(faults, RequestCode.SEND_MESSAGE, Served()) is None
    assert (first.hits, second.hits) == (1, 0)
    assert faults.active == [second]


def test_a_fault_ends_with_its_with_block_and_clear_ends_all(faults):
    with faults.drop(SENDS, times=None):
        assert ask(faults, RequestCode.SEND_MESSAGE, Served()) is None
    assert ask(faults, RequestCode.SEND_MESSAGE, Served()) is not None
    faults.drop(SENDS, times=None)
    faults.clear()
    assert ask(faults, RequestCode.SEND_MESSAGE, Served()) is not None


def test_impossible_faults_are_refused(faults):
    with pytest.raises(ConfigurationError, match="times is 0"):
        faults.drop(SENDS, times=0)
    with pytest.raises(ConfigurationError, match="code is empty"):
        faults.drop([])
    with pytest.raises(ConfigurationError, match="delay_ms is -1"):
        faults.delay(SENDS, -1)
