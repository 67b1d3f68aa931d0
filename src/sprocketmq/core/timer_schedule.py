# SPDX-License-Identifier: Apache-2.0
"""When a timer message is due, and which second's slot it waits in. Java: HookUtils.transformTimerMessage, TimerMessageStore.

    asked for              TIMER_DELAY_SEC, else TIMER_DELAY_MS, else TIMER_DELIVER_MS (the moment itself); a delay level has priority
        |  deliver_ms
        +-- not in the future ------> an ordinary message
        +-- too far, no number -----> refused
        `-- slot_of(deliver_ms) ----> the slot T that ends at or before deliver_ms: TIMER_OUT_MS

    slots       ...|  T   |T + p |...          p = precision_ms, 1000
    is read when now_floor > T, that is from T + p on: T + p >= deliver_ms, so never early, and less than p late

    far away    more than roll_window_slots ahead: waits in a nearer slot, is then stored again and waits on (a roll)

Rules
    1. ``slot_of(d) < d <= slot_of(d) + p``: an exact multiple of p belongs to the slot before it.
    2. A slot is read no earlier than p after its begin, so no message is delivered before the requested time.
    3. ``place`` never returns a slot farther than the roll window, and a roll shortens the wait by at least half of it, so waiting ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records import properties as props

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
DEFAULT_PRECISION_MS: Final = 1000
DEFAULT_ROLL_WINDOW_SLOTS: Final = 2 * 24 * 3600
WEEK_SLOTS: Final = 7 * 24 * 3600  # TIMER_WHEEL_TTL_DAY; the wheel has twice as many
_BLANK_SLOTS: Final = 60
_ASKED: Final = (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)
_BEGIN: Final = b"TIMER_"  # of all of them
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}").fullmatch


def java_long(text: str) -> int | None:
    """What ``Long.parseLong`` reads, None where it throws."""
    if _LONG(text) is None:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def is_timer(raw: bytes) -> bool:
    """Whether raw properties ask for a delivery time that is not set yet (HookUtils.checkIfTimerMessage)."""
    if props.get_property(raw, props.TIMER_OUT_MS) is not None:
        return False
    return any(props.get_property(raw, name) is not None for name in _ASKED)


def without_timer(raw: bytes) -> bytes:
    """A delay level has priority over the timer properties."""
    if _BEGIN not in raw:
        return raw
    for name in _ASKED:
        raw = props.remove_property(raw, name)
    return raw


def asked_deliver_ms(raw: bytes, now_ms: int) -> int:
    """Raises ConfigurationError (the property that counts is no number)."""
    for name in _ASKED:
        text = props.get_property(raw, name)
        if text is None:
            continue
        value = java_long(text)
        if value is None:
            raise ConfigurationError(f"{name} is {text!r}, a whole number is allowed; send the message again with one")
        if name == props.TIMER_DELAY_SEC:
            return now_ms + value * 1000
        return now_ms + value if name == props.TIMER_DELAY_MS else value
    raise ConfigurationError(
        "the message has no delivery time; set TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS"
    )


class TimerRules(Struct, frozen=True):
    """``precision_ms``: length of a slot; Apache knows 100, 200, 500 and 1000. ``roll_window_slots``: farthest slot; out of 2 to a week
    less a minute means a week less a minute, as in Apache. ``max_delay_ms``: farthest moment that may be asked for."""

    precision_ms: int = DEFAULT_PRECISION_MS
    roll_window_slots: int = DEFAULT_ROLL_WINDOW_SLOTS
    max_delay_ms: int = 259_200_000

    @property
    def window_slots(self) -> int:
        longest = WEEK_SLOTS - _BLANK_SLOTS
        return self.roll_window_slots if 2 <= self.roll_window_slots <= longest else longest

    def floor(self, time_ms: int) -> int:
        return time_ms // self.precision_ms * self.precision_ms

    def slot_of(self, deliver_ms: int) -> int:
        """The slot whose end is the first at or after ``deliver_ms`` (rule 1)."""
        return self.floor(deliver_ms - 1)

    def readable_ms(self, slot_ms: int) -> int:
        """From when on a slot may be read (rule 2)."""
        return slot_ms + self.precision_ms

    def place(self, out_ms: int, write_ms: int) -> tuple[int, bool]:
        """The slot in which a message of slot ``out_ms`` waits when ``write_ms`` is the present slot, and whether it must roll on."""
        window_ms = self.window_slots * self.precision_ms
        ahead_ms = out_ms - write_ms
        if ahead_ms < window_ms:
            return out_ms, False
        if ahead_ms - window_ms < self.window_slots // 3 * self.precision_ms:
            return write_ms + self.window_slots // 2 * self.precision_ms, True  # so that the last wait is long enough
        return write_ms + window_ms, True


def flow_control_refuses(waiting: int, limit: int, draw: Callable[[int], int]) -> bool:
    """Whether a slot with ``waiting`` messages takes no more: never up to ``limit``, always from twice of it, by lot in between.
    ``draw(1000)`` gives a number below 1000. Java: TimerMessageStore.isReject."""
    if waiting <= limit:
        return False
    return waiting >= 2 * limit or draw(1000) > 1000 * (waiting - limit) / (limit + 0.1)
