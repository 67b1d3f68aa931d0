# SPDX-License-Identifier: Apache-2.0
"""The line that each listener executes, read from a member's stacks (ConsumerRunningInfo.jstack; Java: UtilAll.jstack, ours in the same
layout).

    ConsumeMessageThread_1                  TID: 41 STATE: TIMED_WAITING
    ConsumeMessageThread_1                  java.lang.Thread.sleep(Native Method)                          innermost first
    ConsumeMessageThread_1                  com.acme.Delays.consumeMessage(Delays.java:31)                 <- this line
    ConsumeMessageThread_1                  org.apache.rocketmq...ConsumeMessageConcurrentlyService$ConsumeRequest.run(...)

A thread is in a listener when a frame of the user's is below (called by) a frame that calls listeners. The line returned is the innermost
frame that belongs neither to the language's own library nor to RocketMQ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

__all__ = ["listener_stacks"]

_CALLERS: Final = (
    "sprocketmq.client.listen.",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService",
)
_LIBRARIES: Final = ("java.", "javax.", "jdk.", "sun.", "org.apache.rocketmq.", "sprocketmq.")
_HEAD: Final = re.compile(r"TID: \S+ STATE: ")


def listener_stacks(jstack: str) -> tuple[str, ...]:
    """A line for each listener that is running."""
    return tuple(line for frames in _threads(jstack) if (line := _listener_line(frames)) is not None)


def _threads(jstack: str) -> Iterator[list[str]]:
    """The frames of each thread, the innermost first. A thread's name stands before each of them, as wide as in the line before them."""
    width, frames = 0, list[str]()
    for line in jstack.splitlines():
        head = _HEAD.search(line)
        if head is not None:
            yield frames
            width, frames = head.start(), []
        elif line.strip():
            frames.append(_without_module(line[width:].strip()))
    yield frames


def _without_module(frame: str) -> str:
    """Java 9 and later put the class loader and the module in front: ``java.base@17.0.9/java.lang.Thread.sleep(Native Method)``."""
    name, bracket, place = frame.partition("(")
    return name.rpartition("/")[2] + bracket + place


def _listener_line(frames: list[str]) -> str | None:
    caller = next((number for number, frame in enumerate(frames) if frame.startswith(_CALLERS)), None)
    if caller is None:
        return None
    return next((frame for frame in frames[:caller] if not _is_library(frame)), None)


def _is_library(frame: str) -> bool:
    return frame.startswith(_LIBRARIES) or frame.partition("(")[0].partition(".")[0] in sys.stdlib_module_names
