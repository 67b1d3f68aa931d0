# SPDX-License-Identifier: Apache-2.0
"""One way to break one mechanism, and the test that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A change of the code that no user could live with.

    Args:
        mechanism: "S1" to "S11" of docs/architecture.md, or the part it belongs to ("wire", "store", "net", "testing", "spark").
        what: what goes wrong, as a half sentence.
        file: path from the project's root.
        old, new: ``old`` stands exactly once in ``file`` and becomes ``new``.
        test: pytest node ids, separated by blanks, at least one of which must fail; precise enough to take seconds.
    """

    mechanism: str
    what: str
    file: str
    old: str
    new: str
    test: str
