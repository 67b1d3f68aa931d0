# SPDX-License-Identifier: Apache-2.0
"""Store directories with damage of every kind: opened and repaired, or one StoreError; never another exception, never a hang.

`make fuzz` runs these for longer.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.errors import ProtocolError, StoreError
from sprocketmq.store import StoreConfig
from sprocketmq.store.tools.check import check_directory

from .stores import NOW_MS, crash, message, open_disk, records

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200, max_hash_slot_num=31, max_index_num=20
)


@cache
def sample(clean):
    """A store of several files of each kind, stopped cleanly or as a crash leaves it; kept for the whole run."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-store-"))
    store = open_disk(folder / "store", CONFIG)
    for number in range(60):
        store.append(message(queue_id=number % 2, body=b"%d" % number * 40, tag="AB"[number % 2]), NOW_MS + number)
    while store.dispatch(1_000):
        pass
    if clean:
        store.close()
        return folder / "store"
    crashed = crash(store, folder / "crashed")
    store.close()
    return crashed


@st.composite
def damages(draw):
    """(file by its number, what, where in the file from 0 to 1, bytes)"""
    kinds = ["flip", "cut", "grow", "zero", "empty", "remove", "noise", "folder", "copy"]
    return (
        draw(st.integers(0, 60)),
        draw(st.sampled_from(kinds)),
        draw(st.floats(0, 1)),
        draw(st.binary(min_size=1, max_size=24)),
    )


def spoil(root, number, kind, where, noise):
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")
    if not files:
        return
    path = files[number % len(files)]
    data = bytearray(path.read_bytes())
    at = int(where * max(0, len(data) - 1))
    if kind == "flip":
        data[at : at + len(noise)] = bytes(
            old ^ new for old, new in zip(data[at : at + len(noise)], noise, strict=False)
        )
    elif kind == "cut":
        del data[at:]
    elif kind == "grow":
        data += noise
    elif kind == "zero":
        data[at:] = bytes(len(data) - at)
    elif kind == "empty":
        data.clear()
    elif kind == "noise":
        data[:] = (noise * (len(data) // len(noise) + 1))[: len(data)]
    elif kind == "copy":  # a file that stands for another's place
        other = files[(number + 1) % len(files)]
        data[:] = other.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "remove":
        path.write_bytes(data)


@settings(max_examples=examples(40))
@given(st.booleans(), st.lists(damages(), min_size=1, max_size=3))
def test_a_damaged_directory_is_repaired_or_refused_with_one_sentence(clean, damage):
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        root = Path(folder) / "store"
        shutil.copytree(sample(clean), root)
        for one in damage:
            spoil(root, *one)
        with contextlib.suppress(StoreError):
            list(check_directory(root, CONFIG))
        try:
            store = open_disk(root, CONFIG)
        except StoreError:
            return
        try:
            # After a clean stop the files behind the last three are believed, as Apache believes them: their records may be none.
            with contextlib.suppress(StoreError, ProtocolError):
                for queue_id in (0, 1):
                    records(store, queue_id=queue_id)
            with contextlib.suppress(StoreError):
                while store.dispatch(1_000):
                    pass
                store.append(message(body=b"after"), NOW_MS + 1_000)
        finally:
            with contextlib.suppress(StoreError):
                store.close()
