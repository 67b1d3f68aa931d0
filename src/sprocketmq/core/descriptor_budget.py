# SPDX-License-Identifier: Apache-2.0
"""How the file descriptors of a process are shared out: connections, mapped files of the store, and what is left for everything else.

Java's server does not need this: its virtual machine raises the limit, and its documentation asks for a million. Here each descriptor has
one purpose, so that clients cannot use up those that the store needs.

Rules
1. The shares are not more than the limit together.
2. What is left for files that are open for a moment (writes, flushes, settings), listening sockets and connections to other servers is an
   eighth of the limit, but 64 at least and 256 at most.
3. Where a mapped file keeps no descriptor the store gets none, and connections all the rest; else each gets half of it.
4. Each share is at least 1: a limit that is too low is refused by the system, not here.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

MAPPING_TAKES_ONE: Final = sys.platform == "win32" or (
    sys.version_info < (3, 13) and not (sys.platform.startswith("linux") and sys.implementation.name == "cpython")
)
"""Whether a mapped file keeps a descriptor (see store.files.mapping)."""

_LEAST_SPARE: Final = 64
_MOST_SPARE: Final = 256
_MOST_MAPPED: Final = 18_432  # 16,384 queues that are written, and an eighth as many files that are read


class DescriptorShares(NamedTuple):
    connections: int
    mapped_files: int
    spare: int


def descriptor_shares(limit: int, *, mapping_takes_one: bool = MAPPING_TAKES_ONE) -> DescriptorShares:
    """The shares of a process that may open ``limit`` files."""
    spare = max(_LEAST_SPARE, min(_MOST_SPARE, limit // 8))
    rest = max(2, limit - spare)
    if not mapping_takes_one:
        return DescriptorShares(rest, 0, spare)
    mapped_files = min(rest // 2, _MOST_MAPPED)
    return DescriptorShares(rest - mapped_files, mapped_files, spare)
