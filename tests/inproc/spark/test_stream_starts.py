# SPDX-License-Identifier: Apache-2.0
"""Where a stream begins when it is told a group or a time: resolved once against a real broker, then fixed by what was journaled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inproc.spark.as_spark import Readers, ask, first_batch, next_batch, read, send
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read import group_progress
from sprocketmq.spark.read.group_progress import commit_offsets, query_committed
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import Version
from sprocketmq.wire.records.message import MessageQueue


def moment_after_all(mq: EmbeddedRocketMQ) -> int:
    """A time at which nothing is stored yet, and which has come."""
    cut_ms = max(message.store_timestamp_ms for message in mq.messages("flights")) + 1
    mq.wait_until(lambda: mq.clock.now_ms() >= cut_ms)
    return cut_ms


# -- by group ------------------------------------------------------------------------------------------------------------------


def test_a_new_stream_goes_on_where_its_group_stopped(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays")
    end, _ = first_batch(reader)
    ask(reader, end)  # commits the batch
    send(mq, 3, 4)
    end, numbers = first_batch(readers(startingoffsets="group", group="delays"))
    assert numbers == [3, 4]
    assert first_batch(readers(startingoffsets="group", group="others"))[1] == [0, 1, 2, 3, 4]


def test_a_journaled_start_does_not_move_with_its_group(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    first = readers(startingoffsets="group", group="delays")
    start = first.initialOffset()
    journaled = ask(first, start)
    ask(first, journaled)  # the group is at the end now, but Spark died before it wrote down that the batch is done
    assert sum(mq.consumer_offset("delays", "flights").values()) == 3
    again = readers(startingoffsets="group", group="delays")
    assert again.initialOffset() == start
    assert read(again, start, journaled) == [0, 1, 2]


@pytest.mark.parametrize(("fallback", "expected"), [("earliest", [0, 1, 2, 3]), ("latest", [3])])
def test_a_group_without_progress_starts_at_the_fallback_and_says_so(
    mq: EmbeddedRocketMQ, readers: Readers, fallback: str, expected: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="group", group="delays", groupoffsetsfallback=fallback, includeretry="true")
    end, numbers = first_batch(reader)
    assert "group delays has committed nothing for 2 of " in caplog.text
    send(mq, 3)
    assert numbers + next_batch(reader, end)[1] == expected


def test_a_4_9_broker_that_answers_0_for_no_progress_is_asked_for_its_table_of_offsets(
    mq: EmbeddedRocketMQ, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 may be what the group has committed, too."""
    send(mq, 0, 1, 2)
    cluster = Cluster.at(mq.namesrv_addr)
    queues = [MessageQueue("flights", "broker-a", number) for number in (0, 1)]
    with mq.admin() as admin:
        admin.create_group("delays")
    commit_offsets(cluster, "delays", {queues[0]: 0})
    query, invoke = group_progress.committed_offset, Connection.invoke

    async def as_4_9(*what: Any, **how: Any) -> int:
        return await query(*what, **how) or 0

    async def by_apache(self: Connection, *what: Any) -> Any:
        answer = await invoke(self, *what)
        answer.version, answer.language = version, "JAVA"
        return answer

    monkeypatch.setattr(group_progress, "committed_offset", as_4_9)
    monkeypatch.setattr(Connection, "invoke", by_apache)
    version = Version.V4_9_8
    assert cluster.run(lambda: query_committed(cluster, "delays", queues)) == {queues[0]: 0}
    assert cluster.run(lambda: query_committed(cluster, "others", queues)) == {}
    version = Version.V5_0_0
    assert cluster.run(lambda: query_committed(cluster, "delays", queues)) == dict.fromkeys(queues, 0), (
        "a 5.x broker is believed"
    )


def test_the_retry_topic_goes_on_where_the_group_stopped_whatever_the_start(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0)
    mq.create_topic("%RETRY%delays", queues=1)
    send(mq, 100, 101, topic="%RETRY%delays")
    options = {"startingoffsets": "latest", "group": "delays", "includeretry": "true"}
    reader = readers(**options)
    end, numbers = first_batch(reader)
    assert numbers == [100, 101]  # they have been asked for, "latest" does not skip them
    ask(reader, end)
    send(mq, 102, topic="%RETRY%delays")
    assert first_batch(readers(**options))[1] == [102]


# -- by time -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_text", [str, lambda ms: datetime.fromtimestamp(ms / 1000, UTC).isoformat()])
def test_a_stream_starts_with_the_first_message_stored_at_its_time(
    mq: EmbeddedRocketMQ, readers: Readers, as_text: object
) -> None:
    send(mq, 0, 1, 2)
    cut_ms = moment_after_all(mq)
    send(mq, 3, 4, 5, 6)
    assert callable(as_text)
    reader = readers(startingtimestamp=as_text(cut_ms))
    end, numbers = first_batch(reader)
    assert numbers == [3, 4, 5, 6]
    send(mq, 7)
    assert next_batch(reader, end)[1] == [7]


def test_a_time_that_no_message_has_reached_is_an_error_that_names_the_way_out(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2, 3)
    reader = readers(startingtimestamp=str(moment_after_all(mq)))
    with pytest.raises(ConfigurationError, match="holds no message that young; set startingOffsetsByTimestampStrategy"):
        first_batch(reader)


def test_a_time_that_no_message_has_reached_is_the_end_when_the_user_says_so(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2, 3)
    options = {"startingtimestamp": str(moment_after_all(mq)), "startingoffsetsbytimestampstrategy": "latest"}
    journaled, numbers = first_batch(readers(**options))
    assert numbers == []
    send(mq, 4, 5)
    again = readers(
        **options
    )  # killed before its first batch was done: 4 and 5 are younger than the time, and not skipped
    assert read(again, again.initialOffset(), journaled) == []
    assert next_batch(again, journaled)[1] == [4, 5]
