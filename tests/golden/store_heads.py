# SPDX-License-Identifier: Apache-2.0
"""Takes what a repository can carry out of an Apache store: the written heads of its preallocated files, all of the small ones.

commitlog-head.bin                        the first commit log file up to the last record
consumequeue-<topic>-<queue>-head.bin     each queue's first file up to its last unit
index-header.bin, index-entries.bin, index-slots.json    index file: 40 bytes; entries in order, unused entry 0 included; slot -> entry
checkpoint.bin                            its first 64 bytes (the file is 4096, the rest zeros)
config/*.json                             as they are
layout.json                               every path of the store with its size
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

SLOTS = 5_000_000
HEADER_BYTES = 40
ENTRY_BYTES = 20
LARGEST_HEAD_BYTES = 64 * 1024
# The other system topics hold this machine's names, or nothing.
SYSTEM_TOPICS_KEPT = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")


def keep_store(store: Path, target: Path) -> None:
    """Copy the heads of `store` (a cleanly stopped broker's) to the new folder `target`."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "config").mkdir(parents=True)
    layout = {str(path.relative_to(store)): path.stat().st_size for path in sorted(store.rglob("*")) if path.is_file()}
    (target / "layout.json").write_text(json.dumps(layout, indent=1) + "\n", "utf-8")
    (target / "commitlog-head.bin").write_bytes(_head(store / "commitlog" / ("0" * 20)))
    (target / "checkpoint.bin").write_bytes((store / "checkpoint").read_bytes()[:64])
    for config in sorted((store / "config").glob("*.json")):
        shutil.copyfile(config, target / "config" / config.name)
    for queue in sorted((store / "consumequeue").glob("*/*")):
        head = _head(queue / ("0" * 20))
        topic = queue.parent.name
        if head and (topic in SYSTEM_TOPICS_KEPT or not topic.startswith(("rmq_sys_", "RMQ_SYS_"))):
            whole_units = head + bytes(-len(head) % 20)
            (target / f"consumequeue-{topic}-{queue.name}-head.bin").write_bytes(whole_units)
    _keep_index(sorted((store / "index").iterdir())[0], target)


def _head(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(LARGEST_HEAD_BYTES).rstrip(b"\0")


def _keep_index(path: Path, target: Path) -> None:
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        slots = file.read(SLOTS * 4)
        count = struct.unpack_from(">i", header, 36)[0]
        entries = file.read(count * ENTRY_BYTES)
    used = {slot: entry for slot, (entry,) in enumerate(struct.iter_unpack(">i", slots)) if entry}
    (target / "index-header.bin").write_bytes(header)
    (target / "index-slots.json").write_text(json.dumps(used) + "\n", "utf-8")
    (target / "index-entries.bin").write_bytes(entries)
