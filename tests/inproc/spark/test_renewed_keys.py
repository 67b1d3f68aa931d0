# SPDX-License-Identifier: Apache-2.0
"""Keys that are renewed while clients and queries run: at the broker, and in the file that all of them read."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from inproc.spark.as_spark import batch_rows
from interop.child import poll_until
from secured_broker import Secured, secured_broker
from spark_task import Task
from sprocketmq.client.dead_letters.dead_letters import AsyncDeadLetters
from sprocketmq.client.settings.key_file import KeyFile
from sprocketmq.errors import ConfigurationError, NoPermission, SignatureRefused
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.bad_rows import bad_row
from sprocketmq.spark.retry.send_back import RetryGroup
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.write.message_sender import MessageSender


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with secured_broker(tmp_path) as secured:
        yield secured


def bodies(options: dict[str, str]) -> list[bytes]:
    return [row["body"] for row in batch_rows(**options)]


def sent(options: dict[str, str], *some: bytes) -> None:
    MessageSender(sink_options(options)).send(pa.record_batch({"body": list(some)}))


def test_rows_are_read_written_and_handed_back_over_the_same_connections_whatever_the_keys_are(
    secured: Secured,
) -> None:
    access = read_options(secured.options, streaming=False).access
    before = Cluster.at(secured.namesrv_addr, access=access)
    for number in range(3):
        secured.renew_account(f"secret-{number}")
        secured.renew_file(f"secret-{number}")
        sent(secured.options, b"%d" % number)
        read = batch_rows(**secured.options)
        assert [row["body"] for row in read] == [b"%d" % at for at in range(number + 1)]
        hand = BadRowSender(RetryGroup("delays", secured.namesrv_addr, access))
        assert hand.send_back([bad_row(read[-1], "dlq", delay_level=0, max_reconsume=16)]) == []
    assert Cluster.at(secured.namesrv_addr, access=access) is before
    with rmq.DeadLetters("delays", namesrv_addr=secured.namesrv_addr, secret_key_file=str(secured.file)) as letters:
        poll_until(lambda: letters.count() == 3, "the name server has heard of the dead letters' topic")
        assert sorted(letter.message.body for letter in letters.read()) == [b"0", b"1", b"2"]


def test_dead_letters_whose_keys_are_renewed_meanwhile_are_still_read_as_by_the_brokers_tools(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused signature says nothing about the reader: the group itself is for brokers that allow nobody else."""
    sent({**secured.options, "topic": "%DLQ%delays"}, b"dead")
    pull_as, readers = AsyncDeadLetters._pull_as, []

    async def renewed_after_the_first(self: AsyncDeadLetters, reader: str, *where: Any) -> Any:
        readers.append(reader)
        if len(readers) > 1:
            return await pull_as(self, reader, *where)
        await asyncio.to_thread(secured.renew_account, "secret-1")
        try:
            return await pull_as(self, reader, *where)
        finally:
            secured.renew_file("secret-1")

    monkeypatch.setattr(AsyncDeadLetters, "_pull_as", renewed_after_the_first)
    with rmq.DeadLetters("delays", namesrv_addr=secured.namesrv_addr, secret_key_file=str(secured.file)) as letters:
        with pytest.raises(SignatureRefused, match="the signature of access key Spark777 does not fit"):
            list(letters.read())
        assert [letter.message.body for letter in letters.read()] == [b"dead"]
    assert set(readers) == {"TOOLS_CONSUMER"}


def test_a_refused_signature_has_the_file_looked_at_once_more(secured: Secured) -> None:
    """Of a file that stat shows as it was, only the broker's answer tells."""
    with rmq.Producer("orders", namesrv_addr=secured.namesrv_addr, secret_key_file=str(secured.file)) as producer:
        producer.send(rmq.Message("flights", b"before"))
        secured.renew_account("secret-1")
        known = secured.file.stat()
        secured.file.write_text(secured.file.read_text().replace("secret-0", "secret-1"))
        os.utime(secured.file, ns=(known.st_mtime_ns, known.st_mtime_ns))
        producer.send(rmq.Message("flights", b"after"))
        secured.renew_account("secret-2")
        with pytest.raises(SignatureRefused, match="the signature of access key Spark777 does not fit"):
            producer.send(rmq.Message("flights", b"refused"))
        secured.renew_file("secret-2")
        producer.send(rmq.Message("flights", b"again"))
    assert bodies(secured.options) == [b"before", b"after", b"again"]


@pytest.mark.parametrize("work", ["plan", "pull", "send", "hand back"])
def test_the_broker_may_have_new_keys_before_the_file(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """The file is renewed when the broker has refused some times (a producer tries three times by itself), within ``retryTimeoutMs``."""
    sent(secured.options, b"one")
    source = RocketMQDataSource(secured.options)
    reader = source.reader(source.schema())
    partitions, read = reader.partitions(), batch_rows(**secured.options)
    refusals, late = 0, 5 if work == "send" else 2
    look = KeyFile.reread

    def renewed_late(keys: KeyFile) -> None:
        nonlocal refusals
        refusals += 1
        if refusals == late:
            secured.renew_file("secret-1")
        look(keys)

    monkeypatch.setattr(KeyFile, "reread", renewed_late)
    secured.renew_account("secret-1")
    if work == "plan":
        assert len(reader.partitions()) == 1
    elif work == "pull":
        assert [batch.num_rows for batch in reader.read(partitions[0])] == [1]
    elif work == "send":
        sent(secured.options, b"two")
    else:
        access = read_options(secured.options, streaming=False).access
        hand = BadRowSender(RetryGroup("delays", secured.namesrv_addr, access))
        assert hand.send_back([bad_row(read[0], "dlq", delay_level=0, max_reconsume=16)]) == []
    assert refusals >= late


def test_keys_that_stay_wrong_are_told_after_the_retry_time_and_a_missing_permission_at_once(secured: Secured) -> None:
    sent(secured.options, b"one")
    secured.renew_account("secret-1")
    with pytest.raises(SignatureRefused, match="does not fit"):
        bodies({**secured.options, "retryTimeoutMs": "300ms"})
    with pytest.raises(NoPermission) as refused:
        bodies({**secured.options, "accessKey": "Guest777", "retryTimeoutMs": "60s"})
    assert not isinstance(refused.value, SignatureRefused)


def test_a_task_on_a_machine_without_the_file_says_where_it_is_missing(secured: Secured) -> None:
    sent(secured.options, b"one")
    source = RocketMQDataSource(secured.options)
    reader, options = source.reader(source.schema()), {**secured.options, "secretKeyFile": "/nowhere/keys.yml"}
    assert len(reader.partitions()) == 1
    elsewhere = RocketMQDataSource(options)
    sentence = (
        f"^secretKeyFile is '/nowhere/keys.yml', which cannot be read on host {platform.node()} .*; put the file there"
    )
    with pytest.raises(ConfigurationError, match=sentence):
        list(elsewhere.reader(elsewhere.schema()).read(reader.partitions()[0]))
    with pytest.raises(ConfigurationError, match=sentence):
        sent(options, b"one")


def test_a_transactional_stream_goes_on_with_other_keys(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    Task.begin(monkeypatch)
    schema = StructType([StructField("body", BinaryType())])
    source = RocketMQDataSource({**secured.options, "group": "exact", "delivery": "transactional"})
    for number in range(3):
        Task.batch = number
        secured.renew_account(f"secret-{number}")
        secured.renew_file(f"secret-{number}")
        writer = source.streamWriter(schema, overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch({"body": [b"%d" % number]})]))], number)
    assert bodies(secured.options) == [b"0", b"1", b"2"]
