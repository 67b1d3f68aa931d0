# SPDX-License-Identifier: Apache-2.0
"""Some turns of the outage drill at Apache's servers; `make outage` makes twenty minutes of them, at ours as well."""

from __future__ import annotations

import random

import pytest

from interop.outage import Outage
from interop.peers import APACHE_5

pytestmark = pytest.mark.nightly


def test_clients_keep_their_promises_while_apaches_servers_are_in_trouble_by_turns(java_peers):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    with Outage(seed, APACHE_5) as outage:
        for _ in range(4):
            print(outage.turn(3.0))
        broken = outage.judge()
        print(*outage.report(), sep="\n")
    assert broken == []
    assert outage.ledger.acked
