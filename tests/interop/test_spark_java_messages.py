# SPDX-License-Identifier: Apache-2.0
"""P13 at Apache's brokers, both generations: what Java's clients send, as Spark shows it: compressed, in batches, with all properties."""

from __future__ import annotations

from typing import Any

import pytest

from interop.java_peers import APACHE_4, APACHE_5
from interop.java_program import JavaProgram
from sprocketmq.wire.records import sys_flag as flags

pytestmark = pytest.mark.spark

# client, its options: a batch of Java's is never compressed
SENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "zlib by 4.9.7": (APACHE_4, {"body_bytes": 9000, "compress_over": 1000}),
    "zlib by 5.4.0": (APACHE_5, {"body_bytes": 9000, "compress_over": 1000, "compress_type": "ZLIB"}),
    "lz4 by 5.4.0": (APACHE_5, {"body_bytes": 9000, "compress_over": 1000, "compress_type": "LZ4"}),
    "zstd by 5.4.0": (APACHE_5, {"body_bytes": 9000, "compress_over": 1000, "compress_type": "ZSTD"}),
    "batch by 4.9.7": (APACHE_4, {"mode": "batch", "batch_size": 4}),
    "batch by 5.4.0": (APACHE_5, {"mode": "batch", "batch_size": 4}),
}


def test_what_java_sends_is_what_spark_shows(flow):
    topics = {flow.topic(): name for name in SENDS}
    sent: dict[str, list[dict[str, Any]]] = {}
    for topic, name in topics.items():
        client, options = SENDS[name]
        program = JavaProgram(client, "Producer", jvm_flags=(), namesrv=flow.namesrv_addr, topic=topic, count=4,
                              tags="UA,DL", keys=4, instance=topic, **options)  # fmt: skip
        with program:
            sent[name] = program.read_events("sent", 1 if "batch" in name else 4)
    rows = flow.read(topics=",".join(topics)).orderBy("topic", "queueOffset").collect()
    for topic, name in topics.items():
        found = [row for row in rows if row.topic == topic]
        assert [row.queueOffset for row in found] == [0, 1, 2, 3], name
        for number, row in enumerate(found):
            text = bytes(row.body).decode()
            assert text.startswith(f"number {number}"), name
            assert text[len(f"number {number}") :].strip(" .") == ""
            assert len(text) == (len(f"number {number}") if "batch" in name else 9000)
            assert (row.tags, row.keys, row.properties["number"]) == (
                ("UA", "DL")[number % 2],
                f"key-{number}",
                str(number),
            )
            assert row.sysFlag & flags.COMPRESSED == 0, "the body is not compressed any more"
            assert row.bornHost.split(":")[0] == "127.0.0.1", "in IPv4"
            assert row.storeHost == flow.apache.broker_addr
        if "batch" not in name:
            assert [row.messageId for row in found] == [event["msgId"] for event in sent[name]]
