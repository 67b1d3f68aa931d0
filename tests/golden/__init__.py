# SPDX-License-Identifier: Apache-2.0
"""Golden bytes: what Apache RocketMQ 5.4.0 and 4.9.7 really wrote, on the wire and on disk. Captured by capture.py, never edited.

frames(version="5.4.0", code=310)        whole frames, with their four length bytes, from frames/<version>/*.bin
store_file("4.9.7", "commitlog-head.bin")  heads of store files, from store/<version>/
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

VERSIONS = ("5.4.0", "4.9.7")

_HERE = Path(__file__).resolve().parent


class GoldenFrame(NamedTuple):
    """One captured frame. `code` is the request's also for a response, whose own code is `response_code`."""

    file: str
    version: str
    serialize: str  # JSON or ROCKETMQ: the type of the header
    link: str  # client-namesrv, client-broker or broker-namesrv: the caller first
    sender: str  # client, broker or namesrv
    kind: str  # request or response
    code: int
    response_code: int | None
    oneway: bool
    shows: str

    @property
    def data(self) -> bytes:
        """The frame, its four length bytes included."""
        return (_HERE / self.file).read_bytes()


def frames(
    *,
    version: str | None = None,
    code: int | None = None,
    kind: str | None = None,
    sender: str | None = None,
    serialize: str | None = None,
) -> list[GoldenFrame]:
    """The captured frames that fit every given condition.

    Raises:
        LookupError: none does. A test over golden bytes must not pass because there were none.
    """
    wanted = {"version": version, "code": code, "kind": kind, "sender": sender, "serialize": serialize}
    conditions = {name: value for name, value in wanted.items() if value is not None}
    found = [f for f in _index() if all(getattr(f, name) == value for name, value in conditions.items())]
    if not found:
        raise LookupError(f"no golden frame with {conditions}")
    return found


def store_dir(version: str) -> Path:
    """The folder with what is kept of that version's store; layout.json lists the whole store it was taken from."""
    return _HERE / "store" / version


def store_file(version: str, name: str) -> bytes:
    """One file of `store_dir`."""
    return (store_dir(version) / name).read_bytes()


@cache
def _index() -> tuple[GoldenFrame, ...]:
    return tuple(GoldenFrame(**entry) for entry in json.loads((_HERE / "index.json").read_text("utf-8")))
