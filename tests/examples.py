# SPDX-License-Identifier: Apache-2.0
"""How many examples Hypothesis tries: a quarter in `make test`, all of them elsewhere."""

from __future__ import annotations

import os

_ARE_FEW = os.environ.get("SPROCKETMQ_EXAMPLES") == "few"


def examples(count: int) -> int:
    return max(10, count // 4) if _ARE_FEW else count
