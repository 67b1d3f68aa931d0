# SPDX-License-Identifier: Apache-2.0
"""Options: names, defaults, values, combinations; every mistake is one sentence that names option, value and what is allowed."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructField, StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.options.option_table import OPTION_OF, OPTIONS, OptionRow
from sprocketmq.spark.options.read_options import STREAM_ONLY, ReadOptions, read_options
from sprocketmq.spark.options.sink_options import SinkOptions, sink_options
from sprocketmq.spark.options.source_columns import COLUMNS
from sprocketmq.spark.source import RocketMQDataSource, message_schema
from sprocketmq.wire.records.message import MessageQueue

BASE = {"namesrvaddr": "127.0.0.1:9876", "topic": "flights"}


def batch(**more: str) -> ReadOptions:
    return read_options({**BASE, **more}, streaming=False)


def stream(**more: str) -> ReadOptions:
    return read_options({**BASE, **more}, streaming=True)


def sink(**more: str) -> SinkOptions:
    return sink_options({**BASE, **more})


def test_a_batch_reads_everything_and_a_stream_what_comes() -> None:
    assert (batch().starting.kind, batch().ending.kind) == ("earliest", "latest")
    assert stream().starting.kind == "latest"
    assert batch().columns == tuple(COLUMNS)


def test_names_are_matched_without_case() -> None:
    assert batch(MaxRecordsPerPartition="7").max_records_per_partition == 7
    assert batch(MAXRECORDSPERPARTITION="7").max_records_per_partition == 7


def test_a_tables_options_come_back_with_a_prefix_and_give_way_to_direct_ones() -> None:
    table = {
        "option.namesrvaddr": "h:1",
        "option.topic": "a",
        "provider": "rocketmq",
        "owner": "me",
        "location": "file:/w/t",
    }
    assert read_options(table, streaming=False).topics == ("a",)
    assert read_options({"topic": "b", **table}, streaming=False).topics == ("b",)


def test_progress_is_committed_only_where_a_group_is_named() -> None:
    assert stream().commit_offsets == "off"
    assert stream(group="delays").commit_offsets == "eager"
    assert batch(group="delays").commit_offsets == "off"


def test_topics_come_from_a_list_a_pattern_or_the_path() -> None:
    assert read_options({"namesrvaddr": "h:1", "topics": "a, b,a"}, streaming=False).topics == ("a", "b")
    assert read_options({"namesrvaddr": "h:1", "path": "a"}, streaming=False).topics == ("a",)
    assert read_options({**BASE, "path": "file:/warehouse/t"}, streaming=False).topics == ("flights",)
    assert read_options({"namesrvaddr": "h:1", "topicspattern": "fl.*"}, streaming=False).topics_pattern == "fl.*"


def test_offsets_are_read_from_json_and_from_a_checkpoint_offset() -> None:
    wanted = Bound("offsets", offsets={MessageQueue("flights", "broker-a", 1): 5})
    assert batch(startingOffsets='{"flights":{"broker-a":{"1":5}}}').starting == wanted
    assert batch(startingOffsets='{"v":1,"q":{"flights":{"broker-a":{"1":5}}}}').starting == wanted


def test_times_are_milliseconds_or_iso_with_a_zone() -> None:
    assert batch(startingTimestamp="1700000000000").starting == Bound("timestamp", 1_700_000_000_000)
    assert batch(endingTimestamp="2023-11-14T22:13:20Z").ending == Bound("timestamp", 1_700_000_000_000)
    assert stream(maxTriggerDelay="2m").max_trigger_delay_ms == 120_000


def test_columns_are_chosen_in_the_users_order_and_spelled_ours() -> None:
    assert batch(columns="body, QUEUEOFFSET").columns == ("body", "queueOffset")
    assert "properties" not in batch(includeProperties="false").columns


def test_tags_are_split_for_the_exact_check() -> None:
    assert batch(tags="UA || DL").tags == {"UA", "DL"}
    assert batch().tags == batch(sql92="distance > 1000").tags == frozenset()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"zzz": "1"}, "option 'zzz' is unknown to the rocketmq data source; known are acceptedSendStatus, "),
        (
            {"assign": '{"t":[0]}'},
            "option 'assign' is unknown to the rocketmq data source; a read takes all queues of its topics: write topic",
        ),
        ({"startingOffsets": "group"}, "startingOffsets is 'group' without group"),
        ({"startingTimestamp": "1700000000"}, "startingTimestamp is 1700000000, which is 1970-01-20 in milliseconds"),
        (
            {"startingOffsetsByTimestamp": '{"flights":{"b":{"0":1700000000}}}'},
            "startingOffsetsByTimestamp of flights/b/0 is 1700000000, which is 1970-01-20",
        ),
        ({"endingOffsets": "latest"}, "endingOffsets is given for a stream"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "minOffsetsPerTrigger is 6, which exceeds"),
        ({"minPartitions": "5", "maxPartitions": "4"}, "minPartitions is 5, which exceeds"),
        ({"tags": " || "}, "tags is ' || '; allowed is tags separated by ||"),
        ({"sql92": " "}, "sql92 is empty; leave it out to read everything"),
        ({"path": "other"}, "the path is 'other' and topic is 'flights'; keep one of them"),
        ({"columns": "body,value"}, "columns is 'body,value'; allowed is a comma separated choice of topic"),
        ({"includeRetry": "true"}, "includeRetry is true without group"),
        ({"waitForRetries": "1m", "group": "delays"}, "waitForRetries is given without includeRetry"),
        ({"commitOffsets": "eager"}, "commitOffsets is set without group"),
    ],
)
def test_a_mistake_in_a_stream_is_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        stream(**options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is 'latest'; allowed is earliest, group"),
        ({"endingOffsets": '{"flights":{"b":{"0":-2}}}'}, "would read nothing"),
        ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest'; allowed is latest or JSON"),
    ],
)
def test_a_mistake_in_a_batch_is_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=".") as error:
        batch(**options)
    assert sentence in str(error.value)


def test_a_missing_topic_or_name_server_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigurationError, match="no topic is given; add"):
        read_options({"namesrvAddr": "h:1"}, streaming=False)
    with pytest.raises(ConfigurationError, match="no name server is given; add"):
        read_options({"topic": "t"}, streaming=False)
    monkeypatch.setenv("NAMESRV_ADDR", "mq:9876")
    assert read_options({"topic": "t"}, streaming=False).namesrv_addr == "mq:9876"


def test_the_sink_has_its_own_names() -> None:
    options = sink(delivery="IDEMPOTENT")
    assert (options.topic, options.mode, options.delivery) == ("flights", "send", "idempotent")
    with pytest.raises(ConfigurationError, match="mode is 'ack' without group"):
        sink(mode="ack")


@pytest.mark.parametrize("row", [row for row in OPTIONS if row.side != "both"], ids=lambda row: row.name)
def test_an_option_of_the_other_side_is_refused_by_its_name_and_a_tables_is_left_alone(row: OptionRow) -> None:
    if row.side == "write":
        with pytest.raises(
            ConfigurationError, match=f"^{row.name} is given for a read and is an option of writing; leave"
        ):
            batch(**{row.name: "1"})
        assert batch(**{f"option.{row.name}": "1"}) == batch()
    else:
        with pytest.raises(
            ConfigurationError, match=f"^{row.name} is given for a write and is an option of reading; leave"
        ):
            sink(**{row.name: "1"})
        assert sink(**{f"option.{row.name}": "1"}) == sink()


@pytest.mark.parametrize("name", STREAM_ONLY)
def test_an_option_of_streams_does_nothing_in_a_batch_and_says_so(name: str, caplog: pytest.LogCaptureFixture) -> None:
    value = {"count": "7", "duration": "7s", "list": "broker-b"}.get(
        OPTION_OF[name].kind, OPTION_OF[name].choices[-1:] or ""
    )
    given = {name: value if isinstance(value, str) else value[0], "group": "delays", "includeRetry": "true"}
    stream(**given)
    assert not caplog.records
    batch(**given)
    assert [record.getMessage() for record in caplog.records] == [
        f"{name} is given for a batch, where it does nothing; it is for spark.readStream"
    ]


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("subscribe", "topic"),
        ("kafka.bootstrap.servers", "namesrvAddr"),
        ("topik", "topic"),
    ],
)
def test_what_other_connectors_call_it_is_answered_with_our_name(word: str, ours: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option '{word}' is unknown .*; did you mean {ours}\\?$"):
        batch(**{word: "x"})
    with pytest.raises(ConfigurationError, match=f"option '{word}' is unknown .*; did you mean {ours}\\?$"):
        batch(**{f"option.{word}": "x"})  # of a table


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("kafka.auto.offset.reset", "write startingOffsets"),
        ("kafka.session.timeout.ms", "Kafka's client has this setting; leave it out"),
    ],
)
def test_a_setting_of_kafkas_client_is_answered_with_what_to_do(word: str, instead: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option '{word}' is unknown to the rocketmq data source; {instead}"):
        batch(**{word: "x"})


def test_a_table_passes_no_options_to_a_write_and_its_rows_go_nowhere_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "mq:9876")
    table = {"namesrvaddr": "mq:9876", "topic": "flights", "provider": "rocketmq"}
    of_table, plain = RocketMQDataSource(table).schema(), message_schema()
    later = RocketMQDataSource({**table, "columns": "tags,body,topic"}).schema()
    by_tag = StructType([replaced(later.fields[0], "topic"), later.fields[1]])  # SELECT tags AS topic, body
    for schema in (of_table, plain):  # of INSERT INTO name SELECT ..., without WITH
        with pytest.raises(ConfigurationError, match="has no options, and Spark does not pass those of a table.* WITH"):
            RocketMQDataSource({}).writer(schema, overwrite=False)
        with pytest.raises(ConfigurationError, match="has no options, and Spark does not pass those of a table"):
            RocketMQDataSource({"checkpointlocation": "c"}).streamWriter(schema, overwrite=False)  # toTable
    for write in (RocketMQDataSource.writer, RocketMQDataSource.streamWriter):
        for schema in (of_table, later):
            with pytest.raises(ConfigurationError, match="names no topic, and Spark does not pass those of a table"):
                write(RocketMQDataSource({"namesrvaddr": "mq:9876"}), schema, overwrite=False)
        for schema in (plain, by_tag):
            write(RocketMQDataSource({"namesrvaddr": "mq:9876"}), schema, overwrite=False)
        write(RocketMQDataSource({"topic": "departures"}), of_table, overwrite=False)
        write(RocketMQDataSource({"mode": "replay"}), of_table, overwrite=False)


def replaced(field: StructField, name: str) -> StructField:
    """An alias keeps the metadata."""
    return StructField(name, field.dataType, field.nullable, field.metadata)


@pytest.mark.parametrize("tags", ["UA|DL", "UA || DL,AA"])
def test_a_tag_that_looks_like_several_is_said_once(tags: str, caplog: pytest.LogCaptureFixture) -> None:
    source = RocketMQDataSource({"namesrvaddr": "mq:9876", "topic": "flights", "tags": tags})
    source.reader(source.schema())
    (record,) = caplog.records
    assert record.getMessage().endswith("counts as one tag; several are separated by ||")


def test_a_pattern_that_is_none_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ConfigurationError, match=r"topicsPattern is 'fl\[', which is not a regular expression \(unterminated"
    ):
        read_options({"namesrvAddr": "h:1", "topicsPattern": "fl["}, streaming=True)


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0"])
def test_a_stream_with_a_pyspark_that_is_too_old_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    source = RocketMQDataSource({"namesrvaddr": "127.0.0.1:1", "topic": "t"})
    sentence = rf"needs PySpark 4\.2 or later, this is {version}, which asks .* latestOffset\(\) without the offset"
    with pytest.raises(ConfigurationError, match=sentence):
        source.streamReader(message_schema(("body",)))
    source.streamWriter(message_schema(("body",)), False)
