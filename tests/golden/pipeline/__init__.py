# SPDX-License-Identifier: Apache-2.0
"""Frames of sends, batches and pulls, each with what the broker answered and stored.

The frames and the answers are in ``recording.jsonl.xz``, one scene a line; ``record.py`` wrote it, and ``scenes.py`` has
the scenes.
The recording is made once and then holds: a change of an answer or of stored bytes is a change for clients, not a reason to record again.

``tests/inproc/broker/played_frames.py`` plays them to a broker.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import NamedTuple

RECORDING = Path(__file__).with_name("recording.jsonl.xz")


class Scene(NamedTuple):
    """One new broker and one connection: what it read, and what came of it."""

    name: str
    host: str
    reads: list[bytes]
    answers: list[bytes]
    stored: list[str]

    def __str__(self) -> str:
        return self.name


@cache
def recorded_scenes() -> tuple[Scene, ...]:
    """The recorded scenes; never none."""
    found = tuple(_from_line(line) for line in lzma.decompress(RECORDING.read_bytes()).splitlines())
    if not found:
        raise LookupError("the recording is empty")
    return found


def write(played: list[Scene]) -> None:
    """Write the recording."""
    lines = [
        json.dumps([scene.name, scene.host, _hex(scene.reads), _hex(scene.answers), scene.stored]) for scene in played
    ]
    RECORDING.write_bytes(lzma.compress("\n".join(lines).encode("ascii"), preset=9))


def _from_line(line: bytes) -> Scene:
    name, host, reads, answers, stored = json.loads(line)
    return Scene(
        name, host, [bytes.fromhex(read) for read in reads], [bytes.fromhex(answer) for answer in answers], stored
    )


def _hex(pieces: list[bytes]) -> list[str]:
    return [piece.hex() for piece in pieces]
