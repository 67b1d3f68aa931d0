# SPDX-License-Identifier: Apache-2.0
"""A disk whose power can be cut, through which all syncs of this process go."""

from __future__ import annotations

import os

import pytest

from sprocketmq.testing.simulation.power_disk import PowerDisk


def watched(disk: PowerDisk, patch: pytest.MonkeyPatch) -> PowerDisk:
    patch.setattr(os, "fsync", disk.sync)
    patch.setattr(os, "fdatasync", disk.sync)
    return disk
