# SPDX-License-Identifier: Apache-2.0
"""The line that each listener executes, read from a member's stacks (ConsumerRunningInfo.jstack; Java: UtilAll.jstack).

    ConsumeMessageThread_1                  TID: 41 STATE: TIMED_WAITING
    ConsumeMessageThread_1                  java.lang.Thread.sleep(Native Method)                          innermost first
    ConsumeMessageThread_1                  com.acme.Delays.consumeMessage(Delays.java:31)                 <- this line
    ConsumeMessageThread_1                  org.apache.rocketmq...ConsumeMessageConcurrentlyService$ConsumeRequest.run(...)

A thread is in a listener when a frame of the user's is called by a frame that calls listeners. The line is the innermost frame that belongs
neither to the language's library nor to RocketMQ. Pools name their threads, and our tasks, after their group."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

_CALLERS: Final = (
    "sprocketmq.client.listen.",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService",
)
_LIBRARIES: Final = ("java.", "javax.", "jdk.", "sun.", "org.apache.rocketmq.", "sprocketmq.")
_HEAD: Final = re.compile(r"TID: \S+ STATE: ")
# Ours, a task of ours, and Java's (which cuts a group to 100 characters; older clients leave it out).
_POOL: Final = re.compile(r"(?:sprocketmq-|ConsumeMessageThread_)(.+)[-_]\d+(?: \(task\))?")


def listener_stacks(jstack: str, group: str) -> tuple[str, ...]:
    """A line for each listener of ``group`` that is running."""
    found = []
    for name, frames in _threads(jstack):
        pool = _POOL.fullmatch(name)
        is_other = pool is not None and pool[1] not in (group, group[:100])
        if not is_other and (line := _listener_line(frames)) is not None:
            found.append(line)
    return tuple(found)


def _threads(jstack: str) -> Iterator[tuple[str, list[str]]]:
    """The name and the frames of each thread, the innermost first. The name stands before each frame, as wide as in their first line."""
    name, width, frames = "", 0, list[str]()
    for line in jstack.splitlines():
        head = _HEAD.search(line)
        if head is not None:
            yield name, frames
            name, width, frames = line[: head.start()].strip(), head.start(), []
        elif line.strip():
            frames.append(_without_module(line[width:].strip()))
    yield name, frames


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
