# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - Spark calls these methods, with these argument names
"""The data source ``format("rocketmq")``, for reading and writing, batch and streaming.

Spark builds it in a short-lived process and pickles it, so it holds nothing but options. CREATE TABLE ... USING rocketmq OPTIONS (...):
Spark 4.3 stores them but does not pass them to a Python source when the table is read. It does pass the stored schema, so the schema of
a table carries the options as metadata of its first column. INSERT INTO passes neither.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra
from sprocketmq.spark.options.access import refuse_secrets_in_tables
from sprocketmq.spark.options.given_options import CATALOG_PREFIX, SPARK_OPTIONS, GivenOptions
from sprocketmq.spark.options.option_table import OPTION_OF, OPTIONS
from sprocketmq.spark.options.read_options import ReadOptions, read_options
from sprocketmq.spark.options.sink_options import SinkOptions, sink_options
from sprocketmq.spark.options.source_columns import COLUMNS, TABLE_OPTIONS, TABLE_TOPIC

if TYPE_CHECKING:
    from sprocketmq.spark.read.reader import BatchReader
    from sprocketmq.spark.read.stream_reader import StreamReader
    from sprocketmq.spark.write.writer import BatchWriter, StreamWriter

log = logging.getLogger("sprocketmq.spark")

# A property that a catalog adds to those of a table (TableCatalog.PROP_PROVIDER).
_PROVIDER: Final = "provider"
_NOT_PASSED: Final = (
    "Spark does not pass those of a table; add them: INSERT INTO name WITH ('namesrvAddr' = 'host:9876', 'topic' = '...') SELECT ..., or "
    'df.writeTo("name").options(namesrvAddr="host:9876", topic="...").append(), as insertInto passes none at all, or '
    'writeStream.options(namesrvAddr="host:9876", topic="...")'
)
_BOUNDS: Final = ("startingOffsets", "startingTimestamp", "ending", "groupOffsets")
_TYPES: Mapping[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
}


def message_schema(columns: tuple[str, ...] = tuple(COLUMNS)) -> StructType:
    return StructType([StructField(name, _TYPES[COLUMNS[name]]) for name in columns])


class RocketMQDataSource(DataSource):
    """RocketMQ topics as tables and streams. Options: ``sprocketmq.spark.options.option_table``; columns: ``message_schema()``.

    Spark finds the source through the module ``pyspark_rocketmq``. Where it does not: ``spark.dataSource.register(RocketMQDataSource)``.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        needs_extra("format('rocketmq')", "spark", "numpy", "pyarrow")
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        # Spark calls this for reads and for writes; options of either side are allowed here.
        is_table = any(key.lower().startswith(CATALOG_PREFIX) for key in self.options) or _PROVIDER in self.options
        options = _options_of_table(self.options) if is_table else self.options
        schema = message_schema(read_options(_of_any_use(options), streaming=True).columns)
        if is_table:
            refuse_secrets_in_tables(self.options)
            for field in schema:
                field.metadata = {TABLE_TOPIC: True} if field.name == "topic" else {}
            schema.fields[0].metadata |= {
                TABLE_OPTIONS: json.dumps(options),
                # Nothing else of a table shows them: SHOW CREATE TABLE knows the columns alone.
                "comment": f"the columns of USING rocketmq OPTIONS ({GivenOptions(options)})",
            }
        return schema

    def reader(self, schema: StructType) -> BatchReader:
        from sprocketmq.spark.read.reader import BatchReader

        return BatchReader(self._read_options(schema, streaming=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        _refuse_where_streams_have_no_start()
        from sprocketmq.spark.read.stream_reader import StreamReader

        return StreamReader(self._read_options(schema, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from sprocketmq.spark.write.writer import BatchWriter

        _append_only(overwrite)
        return BatchWriter(self._sink_options(schema), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from sprocketmq.spark.write.writer import StreamWriter

        _append_only(overwrite)
        return StreamWriter(self._sink_options(schema), schema)

    def _sink_options(self, schema: StructType) -> SinkOptions:
        """The options of a write. Into a table of the catalog it gets none of the table's. The metadata of ``schema`` may be of the
        table that is written or of the one that the rows come from, so no topic is taken from there."""
        if not {name.lower() for name in self.options}.difference(map(str.lower, SPARK_OPTIONS)):
            raise ConfigurationError(
                f"the write has no options, and {_NOT_PASSED}; any other write needs namesrvAddr here, too, as NAMESRV_ADDR does not "
                "tell it from one into a table"
            )
        options = sink_options(self.options)
        of_table = any(field.name == "topic" and TABLE_TOPIC in (field.metadata or {}) for field in schema)
        if of_table and options.topic is None and options.mode == "send":
            raise ConfigurationError(
                f"the write names no topic, and {_NOT_PASSED}; if each row is to go to the topic that it was read from, write "
                'concat(topic) AS topic, or .withColumn("topic", functions.concat("topic"))'
            )
        return options

    def _read_options(self, schema: StructType, streaming: bool) -> ReadOptions:
        """Options, with the columns of ``schema``, which is the user's choice if ``.schema(...)`` was called."""
        of_table: dict[str, str] = {}
        for field in schema.fields:
            of_table.update(json.loads((field.metadata or {}).get(TABLE_OPTIONS, "{}")))
        if not of_table and not self.options.keys() - {"path"}:
            raise ConfigurationError(
                'no topic is given; add .option("topic", "..."); a table that was made with a list of columns has no options, because '
                "Spark does not pass them: make it without the list, and choose columns by the option columns"
            )
        options = read_options({**of_table, **self.options}, streaming=streaming)
        if odd := [tag for tag in options.tags if "|" in tag or "," in tag]:
            log.warning(
                "tags is %r, where %r counts as one tag; several are separated by ||", options.expression, min(odd)
            )
        for field in schema.fields:
            wanted = COLUMNS.get(field.name)
            if wanted is None or field.dataType != _TYPES[wanted]:
                allowed = f"{wanted} is allowed" if wanted else f"known are {', '.join(COLUMNS)}"
                raise ConfigurationError(
                    f"column {field.name!r} of the schema is {field.dataType.simpleString()}; {allowed}; leave .schema(...) out, "
                    "or choose from the columns of the rocketmq source; what is in a body is parsed after the load, JSON by from_json"
                )
        return options


def _options_of_table(given: Mapping[str, str]) -> dict[str, str]:
    """The options among what a catalog gives of a table: those of its OPTIONS clause, else the TBLPROPERTIES that are named as options.
    Other properties are the user's own (a department, a retention), and may have any name."""
    options = {key: value for key, value in given.items() if key.lower().startswith(CATALOG_PREFIX)}
    known = {name.lower() for name in OPTION_OF}
    return options or {CATALOG_PREFIX + key: value for key, value in given.items() if key.lower() in known}


def _of_any_use(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are valid in each use. Those of batches, streams or writes are checked when the use is known."""
    later = {row.name.lower() for row in OPTIONS if row.side == "write" or row.name.startswith(_BOUNDS)}
    return {key: value for key, value in options.items() if key.lower().removeprefix(CATALOG_PREFIX) not in later}


def _refuse_where_streams_have_no_start() -> None:
    """What is finished, and so may be committed, and what a limit counts from is the ``start`` of ``latestOffset(start, limit)``; Spark 4.0
    and 4.1 ask a Python source for ``latestOffset()`` (``python_streaming_source_runner``), after a restart, too."""
    major, minor = pyspark.__version__.split(".")[:2]
    if (int(major), int(minor)) < (4, 2):
        raise ConfigurationError(
            f"a stream of the rocketmq source needs PySpark 4.2 or later, this is {pyspark.__version__}, which asks a Python source for "
            "latestOffset() without the offset that the stream is at and without limits; install a later one, or read batches with "
            "spark.read, which works with PySpark 4.0 and later, as do df.write and writeStream"
        )


def _append_only(overwrite: bool) -> None:
    if overwrite:
        raise ConfigurationError(
            "the write mode is overwrite (or complete), a topic can only be appended to; use append"
        )
