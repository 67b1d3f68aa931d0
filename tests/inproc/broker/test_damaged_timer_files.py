# SPDX-License-Identifier: Apache-2.0
"""A unit of the timer log, or a slot of the wheel, whose bits have flipped: what it points to is no message that waits."""

from __future__ import annotations

import struct

import pytest

from sprocketmq.wire.records import properties as props

PHYSICAL, SIZE, PREVIOUS, WRITE_MS = 28, 36, 4, 16


def timed(client, key, seconds):
    answer = client.send("flights", key.encode(), properties={props.TIMER_DELAY_SEC: str(seconds), props.UNIQ_KEY: key})
    assert answer.code == 0, answer.remark


def change(cluster, number, field, fmt, value):
    """Write ``value`` into a field of the timer log's unit."""
    log = cluster.broker.timers.files.log

    def write():
        file = log.files.files[0]
        struct.pack_into(fmt, file.view, number * 52 + field, value)

    cluster.on_loop(write)


@pytest.mark.parametrize("target", ["plain", "delivered copy", "middle of a record", "as long as its own"])
def test_a_unit_that_points_to_another_record_is_logged_and_delivers_nothing(cluster, client, caplog, target):
    client.send("flights", b"plain")
    timed(client, "early", 1)
    cluster.clock.advance(5_000)
    timed(client, "damaged", 10)
    timed(client, "sound", 10)
    plain, copy = client.messages("flights")
    place = {"delivered copy": copy}.get(target, plain).commit_log_offset
    change(cluster, 1, PHYSICAL, ">q", place + (target == "middle of a record"))
    if target == "as long as its own":
        change(cluster, 1, SIZE, ">i", plain.store_size_bytes)
    cluster.clock.advance(30_000)
    assert client.bodies() == [b"plain", b"early", b"sound"]
    assert "has no whole record of rmq_sys_wheel_timer there; it is skipped" in caplog.text


@pytest.mark.parametrize(
    ("field", "fmt", "value"), [(PREVIOUS, ">q", 52), (PREVIOUS, ">q", 1 << 40), (WRITE_MS, ">q", 1)]
)
def test_a_list_with_a_loop_or_a_foreign_link_ends(cluster, client, caplog, field, fmt, value):
    for key in ("a", "b", "c"):
        timed(client, key, 10)
    change(cluster, 1, field, fmt, value)
    timed(client, "later", 20)
    cluster.clock.advance(40_000)
    assert client.bodies() == [b"c", b"later"]
    assert "its list ends there" in caplog.text
