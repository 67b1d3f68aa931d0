# SPDX-License-Identifier: Apache-2.0
"""The state of a master's slaves (Java: HARuntimeInfo), and of our own handover."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body


class HAConnectionRuntimeInfo(Body):
    """One slave, as its master sees it. Offsets are physical, ``diff`` in bytes."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HAClientRuntimeInfo(Body):
    """A slave's own view of its copying; a master leaves it empty."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


class HARuntimeInfo(Body):
    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = []
    ha_client_runtime_info: HAClientRuntimeInfo = msgspec.field(default_factory=HAClientRuntimeInfo)


class HandoverStatus(Body):
    """Body of the answer to HANDOVER (30001, ours). ``state`` is serving, waiting, frozen, drained or given; offsets are physical."""

    state: str = ""
    waits_for: str = ""
    slaves: list[str] = []
    log_end: int = 0
    acknowledged: int = -1
