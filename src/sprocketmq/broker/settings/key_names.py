# SPDX-License-Identifier: Apache-2.0
"""Misspelt configuration keys: suggests the key that was probably meant. In --set, --set-file and the environment one
is refused, because it should have an effect; in a file of --config it is one warning, because Apache's brokers have
keys that mean nothing here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """The known key that was probably meant: ``flushDiskType`` for ``flushDisktype``, ``flush_disk_type`` or ``flushDiskTyp``."""
    plain = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(key), plain, 1, 0.8)
    return plain[near[0]] if near else None


def unknown_key(key: str, known: Collection[str], where: str) -> str:
    """The sentence about a key that is refused."""
    near = nearest_key(key, known)
    todo = (
        f"did you mean {near}?"
        if near
        else "the guide to the broker has the keys there are; leave out what is not among them"
    )
    return f"{where} names the key {key!r}, which does not exist; {todo}"


def _plain(key: str) -> str:
    return re.sub("[^a-z0-9]", "", key.lower())
