# SPDX-License-Identifier: Apache-2.0
"""A trouble is a line when it begins, one a minute at most, and one when it ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import logging
import traceback
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sprocketmq.troubles import INTERVAL_MS, QUIET_MS, Troubles, raised_at

LOG = logging.getLogger("sprocketmq.client")


class Watch:
    """A clock that the test sets, and the lines with their times."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.lines: list[tuple[float, str]] = []
        self.details: list[str] = []
        self.log = logging.Logger("watched", logging.DEBUG)
        handler = logging.Handler()
        handler.emit = self._note  # type: ignore[method-assign]
        self.log.addHandler(handler)
        self.troubles = Troubles(self.log, lambda: self.now_ms)

    def _note(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno == logging.DEBUG:
            self.details.append(text)
        else:
            self.lines.append((self.now_ms / 1000, text))

    def at(self, seconds: float) -> Troubles:
        self.now_ms = seconds * 1000
        return self.troubles


def test_it_begins_goes_on_and_ends_in_few_lines() -> None:
    watch = Watch()
    for second in range(150):
        watch.at(second).failed("a", "broker %s is lost", "a", of=f"topic-{second % 7}")
    watch.at(150).over("a", "broker %s is back", "a")
    assert watch.lines == [
        (0, "broker a is lost"),
        (60, "broker a is lost (for 60 s, 59 more since the last line: topic-1, topic-2, topic-3, topic-4, topic-5 and 2 more)"),
        (120, "broker a is lost (for 120 s, 59 more since the last line: topic-5, topic-6, topic-0, topic-1, topic-2 and 2 more)"),
        (150, "broker a is back after 150 s (150 times)"),
    ]  # fmt: skip
    assert len(watch.details) == 147


def test_what_nobody_ends_is_over_when_it_is_quiet() -> None:
    watch = Watch()
    for second in (0, 10, 40):
        watch.at(second).failed("frames", "bad bytes of %s", "10.0.0.7")
    for second in range(50, 200, 10):
        watch.at(second).sweep()
    assert watch.lines == [
        (0, "bad bytes of 10.0.0.7"),
        (60, "bad bytes of 10.0.0.7 (for 60 s, 2 more since the last line)"),
        (170, "ended 130 s ago, after 40 s (3 times): bad bytes of 10.0.0.7"),
    ]
    watch.at(300).failed("frames", "bad bytes of %s", "10.0.0.8")
    watch.at(500).sweep()
    assert watch.lines[3:] == [(300, "bad bytes of 10.0.0.8")], "what happened once has no end"


def test_what_is_counted_is_said_a_minute_later_and_when_the_owner_ends() -> None:
    watch = Watch()
    for second in (0, 10, 20):
        watch.at(second).failed("a", "no order", of=f"message-{second}")
    watch.at(59).sweep()
    assert watch.lines == [(0, "no order")]
    watch.at(61).sweep()
    watch.at(62).failed("a", "no order", of="message-62")
    watch.at(63).close()
    watch.at(64).close()
    assert watch.lines[1:] == [
        (61, "no order (for 61 s, 2 more since the last line: message-10, message-20)"),
        (63, "no order (for 63 s, 1 more since the last line: message-62)"),
    ]


def test_what_lasts_ends_only_when_it_is_told() -> None:
    watch = Watch()
    watch.at(0).failed("server", "lost", lasts=True)
    watch.at(3_000).sweep()
    assert "server" in watch.troubles
    watch.at(3_600).over("server", "back")
    assert watch.lines == [(0, "lost"), (3_600, "back after 60 min")]
    assert "server" not in watch.troubles


def test_what_comes_and_goes_each_second_is_two_lines_a_minute() -> None:
    watch = Watch()
    for second in range(0, 600, 2):
        watch.at(second).failed("server", "lost", lasts=True)
        watch.at(second + 1).over("server", "back")
    assert len(watch.lines) == 20
    assert watch.lines[:2] == [(0, "lost"), (1, "back after 1 s")]
    assert watch.lines[-1][1].startswith("back after")


def test_a_cause_does_not_hide_another_one() -> None:
    watch = Watch()
    for cause in "abab":
        watch.at(0).failed(cause, "%s", cause)
    assert [text for _, text in watch.lines] == ["a", "b"]


def test_a_million_causes_need_no_more_room_than_256() -> None:
    watch = Watch()
    watch.log.setLevel(logging.CRITICAL)
    for number in range(10_000):
        watch.at(0).failed(number, "x")
    assert len(watch.troubles._open) == 256


@given(st.lists(st.tuples(st.integers(0, 90_000), st.sampled_from(["failed", "over", "sweep"])), max_size=200))
@example([(0, "failed"), (0, "failed"), (60_002, "sweep"), (59_999, "failed")])
@example([(0, "failed"), (0, "failed"), (60_002, "sweep"), (59_998, "sweep"), (1, "failed")])
def test_no_minute_has_more_than_a_beginning_and_an_end(steps: list[tuple[int, str]]) -> None:
    """Each failure is told or counted, and the last line says whether it goes on."""
    watch, failures = Watch(), 0
    watch.log.setLevel(logging.INFO)
    for wait_ms, what in steps:
        watch.now_ms += wait_ms
        if what == "failed":
            failures += 1
            watch.troubles.failed("a", "failed")
        elif what == "over":
            watch.troubles.over("a", "over")
        else:
            watch.troubles.sweep()
    begins = [at_s for at_s, text in watch.lines if text.startswith("failed")]
    assert all(round((later - earlier) * 1000) >= INTERVAL_MS for earlier, later in itertools.pairwise(begins))
    assert len(watch.lines) <= 2 * len(begins)
    assert bool(begins) == bool(failures)
    watch.now_ms += QUIET_MS + 1
    watch.troubles.sweep()
    assert "a" not in watch.troubles


def raises(text: str = "no row") -> None:
    raise LookupError(text)


def chained() -> None:
    try:
        raises()
    except LookupError as error:
        raise ValueError("no order") from error


async def run_on_a_loop(function: Callable[[], None]) -> None:
    async def later() -> None:
        function()

    await asyncio.wait_for(asyncio.ensure_future(later()), 5)


def run_on_a_thread(function: Callable[[], None]) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


@pytest.mark.parametrize("run", [run_on_a_thread, lambda function: asyncio.run(run_on_a_loop(function))])
def test_a_traceback_has_only_frames_of_the_user(run: Callable[[Callable[[], None]], None]) -> None:
    with pytest.raises(ValueError, match="no order") as caught:
        run(chained)
    cause = raised_at(caught.value)
    text = "".join(traceback.format_exception(caught.value))
    files = {line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')}
    assert files == {__file__}
    assert "LookupError: no row" in text
    assert "in chained" in text
    assert cause[:2] == ("ValueError", __file__)  # type: ignore[index]


def test_the_line_of_code_is_the_cause() -> None:
    causes = []
    for text in "ab":
        try:
            raises(text)
        except LookupError as error:
            causes.append(raised_at(error))
    assert causes[0] == causes[1]


def test_a_line_names_the_place_that_told_it(caplog: pytest.LogCaptureFixture) -> None:
    """The servers limit lines by place in the code."""
    troubles = Troubles(LOG)
    troubles.failed("a", "x")
    troubles.over("a", "y")
    assert {record.pathname for record in caplog.records} == {__file__}
    assert len({record.lineno for record in caplog.records}) == 2
