# SPDX-License-Identifier: Apache-2.0
"""Some turns of the outage drill; `make outage` makes twenty minutes of them, at Apache's servers, too."""

from __future__ import annotations

import random

import pytest

from interop.outage import Outage

pytestmark = pytest.mark.timeout(400)


def test_clients_keep_their_promises_while_servers_are_in_trouble_by_turns():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    with Outage(seed) as outage:
        for _ in range(4):
            print(outage.turn(3.0))
        broken = outage.judge()
        print(*outage.report(), sep="\n")
    assert broken == []
    assert outage.ledger.acked
