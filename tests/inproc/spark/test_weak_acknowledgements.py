# SPDX-License-Identifier: Apache-2.0
"""What a broker says beside "stored": rows of a write count as stored when the user accepts the answer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture
def lonely_mq() -> Iterator[EmbeddedRocketMQ]:
    """A master that is to have a slave, and has none: SLAVE_NOT_AVAILABLE."""
    with EmbeddedRocketMQ(clock="system", brokerRole="SYNC_MASTER") as mq:
        mq.create_topic("flights", queues=2)
        yield mq


def send(mq: EmbeddedRocketMQ, rows: int, **options: str) -> None:
    keys = {"shardingKey": pa.array(["N14228"] * rows)} if rows < 16 else {}
    batch = pa.record_batch({"body": pa.array([b"%d" % row for row in range(rows)], pa.binary()), **keys})
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "flights", "retryTimeoutMs": "300ms", **options}
    MessageSender(sink_options(given)).send(batch)


@pytest.mark.parametrize("rows", [1, 10, 100], ids=["one", "bound to a queue", "by columns"])
def test_rows_that_no_slave_has_are_not_stored_unless_the_user_says_so(lonely_mq: EmbeddedRocketMQ, rows: int) -> None:
    with pytest.raises(NetworkError, match=r"SLAVE_NOT_AVAILABLE only.*acceptedSendStatus=SLAVE_NOT_AVAILABLE"):
        send(lonely_mq, rows)
    with pytest.raises(NetworkError, match="SLAVE_NOT_AVAILABLE only"):
        send(lonely_mq, rows, acceptedSendStatus="FLUSH_DISK_TIMEOUT, flush_slave_timeout")
    stored = len(lonely_mq.messages("flights"))
    send(lonely_mq, rows, acceptedSendStatus="SEND_OK,SLAVE_NOT_AVAILABLE")
    assert len(lonely_mq.messages("flights")) == stored + rows


@pytest.mark.parametrize("value", ["", "all", "SEND_OK;SLAVE_NOT_AVAILABLE", "SEND_OK,,"])
def test_what_is_no_status_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"acceptedSendStatus is .* allowed is SEND_OK, FLUSH_DISK_TIMEOUT"):
        sink_options({"namesrvAddr": "h:1", "topic": "flights", "acceptedSendStatus": value})
