# SPDX-License-Identifier: Apache-2.0
"""wire.records.sys_flag."""

from __future__ import annotations

import itertools

import pytest

from sprocketmq.wire.records.sys_flag import pull_sys_flag


@pytest.mark.parametrize(("commit_offset", "suspend", "subscription"), [*itertools.product([False, True], repeat=3)])
def test_the_flags_of_a_pull_are_bits_of_their_own(commit_offset, suspend, subscription):
    """Java: PullSysFlag."""
    flag = pull_sys_flag(commit_offset=commit_offset, suspend=suspend, subscription=subscription)
    assert flag == commit_offset * 1 + suspend * 2 + subscription * 4
