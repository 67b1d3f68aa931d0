# SPDX-License-Identifier: Apache-2.0
"""What the messages of a load look like: all alike, or drawn at random by client_bench.py and read from a file by each client's program.

It uses only the standard library, because peers run it in their own venvs. ClientLoad.java reads the same file: a line is
``body TAB tags TAB keys TAB name=value,name=value``, in UTF-8.
"""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

_COUNT = 5_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class MessageForm(NamedTuple):
    """What one message has; tags and keys may be empty."""

    body: str
    tags: str
    keys: str
    properties: dict[str, str]


def read_forms(load: Namespace) -> list[MessageForm]:
    """The forms that a load's messages have by turns: those in the file ``--forms``, or one with ``--body`` bytes."""
    if not load.forms:
        return [MessageForm("x" * load.body, "TagA", "key", {})]
    return [_parsed(line) for line in Path(load.forms).read_text("utf-8").splitlines()]


def write_forms(path: Path, seed: int, body_bytes: int) -> None:
    """Draw 5,000 forms: bodies of ``body_bytes`` on average, tags and keys of two in three, 0 to 4 properties out of 20 names."""
    draw = random.Random(seed)
    letters = "".join(draw.choices(_LETTERS, k=4 * body_bytes))
    names = [f"name-{number}" for number in range(20)]
    lines = []
    for _ in range(_COUNT):
        first = draw.randrange(2 * body_bytes)
        body = letters[first : first + draw.randint(1, 2 * body_bytes - 1)]
        tags = draw.choice(["UA", "DL", "B6", "Zürich"]) if draw.random() < 2 / 3 else ""
        keys = f"order-{draw.randrange(10 ** draw.randint(1, 9))}" if draw.random() < 2 / 3 else ""
        pairs = [
            f"{name}={draw.randrange(10 ** draw.randint(1, 12))}" for name in draw.sample(names, draw.randint(0, 4))
        ]
        lines.append("\t".join((body, tags, keys, ",".join(pairs))))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _parsed(line: str) -> MessageForm:
    body, tags, keys, pairs = line.split("\t")
    return MessageForm(body, tags, keys, dict(pair.split("=") for pair in pairs.split(",") if pair))
