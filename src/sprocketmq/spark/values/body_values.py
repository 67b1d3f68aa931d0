# SPDX-License-Identifier: Apache-2.0
"""Bodies of messages as columns: JSON by Spark itself, Avro and Protobuf by their Python libraries and Arrow.

rows of the source --> body [without the id of its schema] --> value (a struct)
                                       |
                                       `-- what does not fit: failed, reason
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import missing_extra
from sprocketmq.spark.options.source_columns import check_bodies, parsed_columns
from sprocketmq.spark.values.json_value import json_steps
from sprocketmq.spark.values.schema_registry import WIRE_FORMS, WireForm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MADE: Final = ("value", "failed", "reason")


def body_values(
    rows: DataFrame,
    format: Literal["json", "avro", "protobuf"],
    schema: str | Path | bytes | t.StructType,
    *,
    message_name: str | None = None,
    options: Mapping[str, str] | None = None,
    wire_format: Literal["confluent", "rocketmq"] | None = None,
    registry: str | Mapping[int, str | Path] | None = None,
) -> DataFrame:
    """The bodies of ``rows`` as a struct ``value`` beside the columns of the message. For batches, streams, and ``foreach_batch``::

        foreach_batch(lambda rows, batch_id: body_values(rows, "avro", "order.avsc"), write=write, ...)

    Avro and Protobuf need PySpark 4.1 or later, and the extra ``sprocketmq[avro]`` or ``sprocketmq[protobuf]`` where the driver and the
    executors run. Their types are those of Spark's ``from_avro`` and ``from_protobuf``.

    Args:
        rows: messages of the source, with the column ``body``.
        format: ``json``, ``avro`` (one value without the header of files) or ``protobuf``.
        schema: of JSON the columns, as DDL or a StructType; a column that is NOT NULL has to be there. Of Avro the JSON of a record's
            schema, or the path of its file: the schema that is wanted, to which those of the writers are resolved. Of Protobuf the path of
            a descriptor file (``protoc --include_imports --descriptor_set_out``), or its bytes. Files are read by the driver.
        message_name: of Protobuf the message, as in ``shop.Order``.
        options: of JSON options of ``from_json``, such as ``timestampFormat``.
        wire_format: what is before the value: the id of its schema, as Confluent's serializers write it, or those of RocketMQ's schema
            registry. Default: nothing.
        registry: of Avro with a wire format the schemas of the writers: a table from ids to schemas or files, or the address of a
            registry (``http://user:password@host:8081``; of RocketMQ's with ``/schema-registry/v1/subject/NAME``).

    Returns:
        ``value``, ``failed`` and ``reason`` (of a body that does not fit; then ``value`` is null).

    Raises ConfigurationError (an argument is wrong, or an extra is missing). A query fails if its registry cannot be reached.
    """
    if format not in ("json", "avro", "protobuf"):
        raise ConfigurationError(f"format is {format!r}; json, avro and protobuf are allowed")
    form = None
    if wire_format is not None:
        form = WIRE_FORMS.get((wire_format, format))
        if form is None:
            raise ConfigurationError(
                f"wire_format is {wire_format!r} and format {format!r}; confluent, and rocketmq with json and avro, are allowed"
            )
    for name, given, needed in (
        ("message_name", message_name, format == "protobuf"),
        ("registry", registry, format == "avro" and form is not None),
    ):
        if needed != (given is not None):
            raise ConfigurationError(
                f"{name} is {given!r}; it is {'needed' if needed else 'not allowed'} with format={format!r} and "
                f"wire_format={wire_format!r}"
            )
    if isinstance(registry, str) and not registry.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"registry is {registry!r}; a table from ids to schemas, or an address that begins with http:// or https://, is allowed"
        )
    if options and format != "json":
        raise ConfigurationError(f"options is {options!r}; it is allowed with format='json', leave it out")
    check_bodies(rows, "body_values", _MADE)
    if format == "json":
        steps, value, reason = json_steps(parsed_columns(schema, "the columns of the body"), form, options or {})
        return _with_value(rows, steps, value, reason)
    if format == "avro":
        make = _avro_column(_text(schema), form, registry if isinstance(registry, str) else _texts(registry))
    else:
        make = _protobuf_column(_descriptor_file(schema), str(message_name), form)
    return _with_value(rows, {"__made": make(f.col("body"))}, "__made.value", "__made.reason")


def _with_value(rows: DataFrame, steps: Mapping[str, Column], value: str, reason: str) -> DataFrame:
    for name, step in steps.items():
        rows = rows.withColumn(name, step)
    made = {"value": f.expr(value), "failed": f.expr(f"{reason} IS NOT NULL"), "reason": f.expr(reason)}
    return rows.withColumns(made).drop(*steps)


def _avro_column(
    wanted: str, form: WireForm | None, registry: str | Mapping[int, str] | None
) -> Callable[[Any], Column]:
    def decoded_body(bodies: pa.Array) -> pa.Array:
        return _reader("avro").values(bodies, wanted, form, registry)

    return _by_arrow(decoded_body, _reader("avro").spark_type(wanted))


def _protobuf_column(files: bytes, message_name: str, form: WireForm | None) -> Callable[[Any], Column]:
    def decoded_body(bodies: pa.Array) -> pa.Array:
        return _reader("protobuf").values(bodies, files, message_name, form)

    return _by_arrow(decoded_body, _reader("protobuf").spark_type(files, message_name))


def _reader(format: str) -> Any:
    """The module with the library, on the driver as where the rows are."""
    try:
        if format == "avro":
            from sprocketmq.spark.values import avro_reader

            return avro_reader
        from sprocketmq.spark.values import protobuf_reader

        return protobuf_reader
    except ModuleNotFoundError as error:
        raise missing_extra(f"body_values with {format}", format, error) from error


def _by_arrow(decode: Callable[[pa.Array], pa.Array], spark_type: t.DataType) -> Callable[[Any], Column]:
    functions: Any = f
    if not hasattr(functions, "arrow_udf"):
        raise ConfigurationError(
            "body_values with avro and protobuf needs PySpark 4.1 or later; install it, or send JSON"
        )
    made = t.StructType([t.StructField("value", spark_type), t.StructField("reason", t.StringType())])
    column = functions.arrow_udf(decode, made)  # the types of decode say which kind it is
    # Not deterministic: otherwise Spark reads each body once more for a filter on failed.
    return column.asNondeterministic()  # type: ignore[no-any-return]


def _text(schema: object) -> str:
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"'):
        return schema
    return _read(schema, "the JSON of a schema, or the path of its file").decode("utf-8", "replace")


def _texts(registry: Mapping[int, str | Path] | None) -> dict[int, str] | None:
    return None if registry is None else {int(schema_id): _text(schema) for schema_id, schema in registry.items()}


def _descriptor_file(schema: object) -> bytes:
    return (
        bytes(schema)
        if isinstance(schema, (bytes, bytearray))
        else _read(schema, "the path of a descriptor file, or its bytes,")
    )


def _read(path: object, allowed: str) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigurationError(f"schema is of the type {type(path).__name__}; {allowed} is allowed")
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"schema is {str(path)[:200]!r}, which cannot be read ({error}); give {allowed}"
        ) from error
