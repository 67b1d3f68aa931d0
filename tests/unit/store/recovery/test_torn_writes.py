# SPDX-License-Identifier: Apache-2.0
"""The order in which the bytes of a record reach the log: whenever a kill falls, a record is there whole or not at all."""

from __future__ import annotations

import dataclasses

import pytest

from ..stores import NOW_MS, SMALL, batch_of, bodies, message, open_disk

ONE_FILE = dataclasses.replace(SMALL, mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=400)


class Watched(bytearray):
    """Stands for the mapped log file and keeps what it held after each part that was put into it."""

    def watch(self):
        self.moments: list[bytes] = []

    def __setitem__(self, place, data):
        super().__setitem__(place, data)
        self.moments.append(bytes(self))


@pytest.mark.parametrize("sent", [[b"one"], [b"first", b"second", b"third"]])
def test_until_its_first_eight_bytes_are_there_nothing_of_a_write_exists(tmp_path, sent):
    store = open_disk(tmp_path / "s", ONE_FILE)
    begin = store.append(message(body=b"before"), NOW_MS).size
    log = store.commit_log
    view = log.view
    watched = Watched(view)
    watched.watch()
    log.view = watched
    if len(sent) == 1:
        store.append(message(body=sent[0]), NOW_MS)
    else:
        store.append_batch(batch_of([message(body=body) for body in sent]), NOW_MS)
    log.view = view
    after = bytes(watched)
    view[:] = after
    before = [moment for moment in watched.moments if moment != after]
    assert before
    assert all(moment[begin : begin + 8] == bytes(8) for moment in before)
    assert after[begin : begin + 8] != bytes(8)
    assert bodies(store) == [b"before", *sent]
