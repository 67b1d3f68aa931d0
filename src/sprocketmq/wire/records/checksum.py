# SPDX-License-Identifier: Apache-2.0
"""The checksum of a record's body (Java: UtilAll.crc32). zlib-ng, which a broker installs, takes 0.06 us for 1 KB instead of the
standard library's 0.4."""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
