# SPDX-License-Identifier: Apache-2.0
"""A stream of a real Spark whose keys are renewed while it runs, first at the broker, then in the file: source, tasks and sink go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sprocketmq as rmq
from secured_broker import Secured, secured_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]


def publish(secured: Secured, start: int, end: int) -> None:
    keys = {"access_key": "Admin777", "secret_key": "admin-secret"}
    with rmq.Producer("orders", namesrv_addr=secured.namesrv_addr, **keys) as producer:
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(start, end)])


def copied(spark: SparkSession, secured: Secured) -> list[int]:
    rows = spark.read.format("rocketmq").options(**{**secured.options, "topic": "copy"}).load()
    return sorted(int(row.body) for row in rows.select("body").collect())


@contextmanager
def refusals() -> Iterator[threading.Event]:
    """Set when the broker, which is of this process, refuses a request."""
    refused = threading.Event()

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "does not fit" in record.getMessage():
                refused.set()

    handler = Noticed()
    logging.getLogger("sprocketmq.broker").addHandler(handler)
    try:
        yield refused
    finally:
        logging.getLogger("sprocketmq.broker").removeHandler(handler)


def test_a_running_stream_goes_on_with_renewed_keys(spark: SparkSession, tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        with secured.admin() as admin:
            admin.create_topic("copy", queues=1)
        publish(secured, 0, 20)
        query = (
            spark.readStream.format("rocketmq")
            .options(**secured.options, startingOffsets="earliest", group="copies")
            .load()
            .select("body")
            .writeStream.format("rocketmq")
            .options(**{**secured.options, "topic": "copy"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            query.processAllAvailable()
            for number in (1, 2):
                with refusals() as refused:
                    secured.renew_account(f"secret-{number}")
                    assert refused.wait(60), "the idle stream asks the broker again and again"
                secured.renew_file(f"secret-{number}")
                publish(secured, number * 20, number * 20 + 20)
                query.processAllAvailable()
            assert query.isActive
        finally:
            query.stop()
        assert copied(spark, secured) == list(range(60))
        kept = [file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
        assert kept
        assert not any(b"secret-" in content for content in kept)
