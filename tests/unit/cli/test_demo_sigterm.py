# SPDX-License-Identifier: Apache-2.0
"""SIGTERM while the demo runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from sprocketmq.cli.demo.run import _sigterm_as_interrupt


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_interrupts_the_demo_and_the_handler_before_is_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), _sigterm_as_interrupt():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_handler_that_was_not_installed_from_python_hides_no_outcome(monkeypatch):
    """Python tells None about such a handler, and takes no None back."""
    install = signal.signal

    def install_over_native(number: signal.Signals, handler: Any) -> None:
        install(number, handler)

    monkeypatch.setattr(signal, "signal", install_over_native)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with pytest.raises(ValueError, match="the outcome"), _sigterm_as_interrupt():
        raise ValueError("the outcome")


def test_an_interrupt_right_after_the_installation_leaves_nothing_replaced(monkeypatch):
    before, install = signal.getsignal(signal.SIGTERM), signal.signal

    def interrupted(number: signal.Signals, handler: Any) -> None:
        install(number, handler)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(KeyboardInterrupt), _sigterm_as_interrupt():
        pass
    assert signal.getsignal(signal.SIGTERM) == before
