# SPDX-License-Identifier: Apache-2.0
"""With raised malloc thresholds freed memory stays with the process: large blocks cost their page faults once."""

from __future__ import annotations

import os
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
def test_blocks_that_are_made_again_need_no_new_pages() -> None:
    faults = {
        way: int(subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, check=True).stdout)
        for way in ("kept", "as it is")
    }
    # How many pages one fault brings is the kernel's business. Calloc'd pages that are at hand already are cleared, not asked for.
    assert faults["kept"] < BLOCKS * 10 < faults["as it is"] / 5


READS = 2_000
# A read of TLS: a block of 256 KiB that is shrunk to what came, as os.read does it. Before, blocks that glibc takes from the heap fill what
# is free there, so that a large one has no room by chance.
TLS_READS = f"""
import asyncio, os, resource, ssl, sys
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.tls_listener import TlsListener
async def listener():
    TlsListener(None, None, None, 1.0)
filling = [bytes(100_000) for _ in range(200)]
if sys.argv[1] == "client":
    ConnectionPool(ssl_context=ssl.create_default_context())
elif sys.argv[1] == "server":
    asyncio.run(listener())
else:
    ConnectionPool()
filling += [bytes(100_000) for _ in range(200)]
out, into = os.pipe()
def read():
    os.write(into, b"x" * 700)
    os.read(out, 256 * 1024)
read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({READS}):
    read()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_reads_of_who_speaks_tls_need_no_new_pages() -> None:
    # With a fixed threshold no block is kept. Without one, an interpreter that has freed a large block by itself keeps them already.
    fixed = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
    faults = {
        way: int(
            subprocess.run(
                [sys.executable, "-c", TLS_READS, way], capture_output=True, check=True, env={**os.environ, **settings}
            ).stdout
        )
        for way, settings in {"client": {}, "server": {}, "without TLS": fixed}.items()
    }
    assert max(faults["client"], faults["server"]) < READS / 10 < READS <= faults["without TLS"], faults
