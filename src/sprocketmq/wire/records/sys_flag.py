# SPDX-License-Identifier: Apache-2.0
"""Bits of the sysFlag of a message (Java: MessageSysFlag, CompressionType) and of a pull request (Java: PullSysFlag)."""

from __future__ import annotations

from typing import Final

# --- a message's sysFlag -------------------------------------------------------------------------------------------------------------
COMPRESSED: Final = 0x1

TRANSACTION_MASK: Final = 0xC
TRANSACTION_NOT_TYPE: Final = 0x0
TRANSACTION_PREPARED_TYPE: Final = 0x4
TRANSACTION_COMMIT_TYPE: Final = 0x8
TRANSACTION_ROLLBACK_TYPE: Final = 0xC

BORNHOST_V6: Final = 0x10
STOREHOSTADDRESS_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
WRAPPED: Final = NEED_UNWRAP | INNER_BATCH  # both: the body is a batch

# The type stays after decompression; only COMPRESSED says whether the body is compressed now. 0 is ZLIB of clients before 5.
COMPRESSION_TYPE_MASK: Final = 0x700


def transaction_type(sys_flag: int) -> int:
    """Return the transaction bits of ``sys_flag``: one of the four TRANSACTION_*_TYPE values."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    return (sys_flag & ~TRANSACTION_MASK) | transaction


# --- a pull request's sysFlag --------------------------------------------------------------------------------------------------------
PULL_COMMIT_OFFSET: Final = 0x1  # the broker stores commitOffset of the request
PULL_SUSPEND: Final = 0x2  # the broker may hold the request until messages arrive
PULL_SUBSCRIPTION: Final = 0x4  # the broker uses subscription and expressionType of the request


def pull_sys_flag(*, commit_offset: bool, suspend: bool, subscription: bool) -> int:
    return (
        (PULL_COMMIT_OFFSET if commit_offset else 0)
        | (PULL_SUSPEND if suspend else 0)
        | (PULL_SUBSCRIPTION if subscription else 0)
    )
