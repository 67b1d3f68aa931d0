# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import os
import signal

import pytest

from sprocketmq.cli.serve.serving import Part, serve_until_stopped
from sprocketmq.errors import ConfigurationError


class Recorded:
    """A part that writes down what happens to it, and may fail at its start or stop."""

    def __init__(self, name: str, events: list[str], *, fails: str = "", then_signal: int | None = None) -> None:
        self.name, self._events, self._fails, self._then_signal = name, events, fails, then_signal
        self.ready, self.ended = asyncio.Event(), asyncio.Event()
        self.ready.set()

    async def astart(self) -> None:
        if self._fails == "start":
            raise ConfigurationError(f"{self.name} cannot start")
        self._events.append(f"start {self.name}")
        if self._then_signal is not None:
            asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), self._then_signal)

    async def astop(self) -> None:
        self._events.append(f"stop {self.name}")
        if self._fails == "stop":
            raise ConfigurationError(f"{self.name} cannot stop")


def ready(parts: list[Part]) -> str:
    return " ".join(part.name for part in parts if isinstance(part, Recorded))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_parts_start_in_order_and_stop_in_reverse(number, capsys):
    events: list[str] = []

    def own(number: int, frame: object) -> None:
        """Of the program that serves."""

    before = signal.signal(number, own)
    try:
        serve_until_stopped(
            [lambda: Recorded("namesrv", events), lambda: Recorded("broker", events, then_signal=number)], ready
        )
        assert signal.getsignal(number) is own
    finally:
        signal.signal(number, before)
    assert events == ["start namesrv", "start broker", "stop broker", "stop namesrv"]
    assert capsys.readouterr().out == f"ready namesrv broker pid={os.getpid()}\n"


def test_a_hangup_under_nohup_is_ignored():
    events: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        broker = Recorded("broker", events, then_signal=signal.SIGHUP)

        def make() -> Recorded:
            asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
            return broker

        serve_until_stopped([make], ready)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert events == ["start broker", "stop broker"]


def test_a_part_that_cannot_start_stops_those_before_it_and_nothing_is_ready(capsys):
    events: list[str] = []
    with pytest.raises(ConfigurationError, match="broker cannot start"):
        serve_until_stopped(
            [lambda: Recorded("namesrv", events), lambda: Recorded("broker", events, fails="start")], ready
        )
    assert events == ["start namesrv", "stop namesrv"]
    assert capsys.readouterr().out == ""


def test_a_part_that_cannot_stop_does_not_keep_the_others_from_stopping():
    events: list[str] = []
    with pytest.raises(ConfigurationError, match="broker cannot stop"):
        serve_until_stopped(
            [
                lambda: Recorded("namesrv", events),
                lambda: Recorded("broker", events, fails="stop", then_signal=signal.SIGTERM),
            ],
            ready,
        )
    assert events[-2:] == ["stop broker", "stop namesrv"]


def test_an_error_of_a_part_while_it_serves_is_raised_after_the_stop(monkeypatch):
    events: list[str] = []

    async def fail() -> bool:
        raise ConfigurationError("its end is not known")

    def broker() -> Recorded:
        part = Recorded("broker", events)
        monkeypatch.setattr(part.ended, "wait", fail)
        return part

    with pytest.raises(ConfigurationError, match="its end is not known"):
        serve_until_stopped([broker], ready)
    assert events == ["start broker", "stop broker"]
