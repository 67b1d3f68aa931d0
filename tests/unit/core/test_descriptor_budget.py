# SPDX-License-Identifier: Apache-2.0
"""The laws of core.descriptor_budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.descriptor_budget import descriptor_shares


@given(st.integers(128, 1 << 30), st.booleans())
def test_descriptor_shares_never_exceed_the_limit(limit, mapping_takes_one):
    shares = descriptor_shares(limit, mapping_takes_one=mapping_takes_one)
    assert sum(shares) <= limit
    assert shares.connections >= 1
    assert 64 <= shares.spare <= 256
    assert bool(shares.mapped_files) == mapping_takes_one


def test_a_usual_limit_is_enough_for_many_clients():
    assert descriptor_shares(1024, mapping_takes_one=False) == (896, 0, 128)
    assert descriptor_shares(1024, mapping_takes_one=True) == (448, 448, 128)
    assert descriptor_shares(1, mapping_takes_one=True).connections == 1
