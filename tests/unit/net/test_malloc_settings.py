# SPDX-License-Identifier: Apache-2.0
"""With raised malloc thresholds freed memory stays with the process: large blocks cost their page faults once."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BLOCKS, BLOCK_BYTES = 20, 8 << 20
PROGRAM = f"""
import resource, sys
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds
if sys.argv[1] == "kept":
    assert raise_malloc_thresholds() and raise_malloc_thresholds()
def make():
    return bytearray({BLOCK_BYTES})[-1], bytes({BLOCK_BYTES})[-1]
make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({BLOCKS}):
    make()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_blocks_that_are_made_again_need_no_new_pages():
    faults = {
        way: int(subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, check=True).stdout)
        for way in ("kept", "as it is")
    }
    # How many pages one fault brings is the kernel's business. Calloc'd pages that are at hand already are cleared, not asked for.
    assert faults["kept"] < BLOCKS * 10 < faults["as it is"] / 5
