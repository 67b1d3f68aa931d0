# SPDX-License-Identifier: Apache-2.0
"""Values of change events in a declared type, in Spark's SQL: text in, the value or null out. A text that gives null is a problem of its
message: a date that does not exist, a number that does not fit, a word that is no number.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError

# io.debezium.time, org.apache.kafka.connect.data: microseconds of a number {n} in the unit of each type; nanoseconds are cut
_MICROSECONDS: Final = (
    "CASE WHEN {type} IN ('io.debezium.time.Timestamp', 'org.apache.kafka.connect.data.Timestamp') THEN try_multiply({n}, 1000L) "
    "WHEN {type} = 'io.debezium.time.MicroTimestamp' THEN {n} "
    "WHEN {type} = 'io.debezium.time.NanoTimestamp' THEN floor({n} / 1000) END"
)
_NUMBER: Final = "rlike '^[-+]?(\\\\d+[.]?\\\\d*|[.]\\\\d+)([eE][-+]?\\\\d+)?$'"
_IS_WHOLE: Final = "rlike '^-?\\\\d+$'"
_NESTED: Final = (t.StructType, t.ArrayType, t.MapType)
_TIMES: Final = (t.TimestampType, t.TimestampNTZType)
_CAST: Final = (t.BooleanType, t.NumericType, t.StringType, t.DateType, t.TimeType, *_TIMES)
_SHOWN: Final = 60  # characters of a value in a reason


def quoted(text: str) -> str:
    """``text`` as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parsed_once(expression: str) -> str:
    """``expression``, which Spark takes for not deterministic: otherwise it parses each body many times more for a filter on failed."""
    return f"IF(spark_partition_id() >= 0, {expression}, NULL)"


def typed(text: str, kind: t.DataType, bytes_of: str, semantic: str | None) -> str:
    """The value of ``text``. ``bytes_of``: see ``ChangeFormat``. ``semantic``: Debezium's type of the column, null if the event does not
    tell it; None for other formats."""
    if isinstance(kind, t.BinaryType):
        return bytes_of.format(text)
    if isinstance(kind, _NESTED):
        return f"from_json({text}, {quoted(kind.json())})"
    if isinstance(kind, t.VariantType):
        return f"try_parse_json({text})"
    if not isinstance(kind, _CAST):
        raise ConfigurationError(
            f"schema has a column of type {kind.simpleString()}, which no change event can hold; declare it as string"
        )
    value = f"try_cast({text} AS {kind.simpleString()})"
    if semantic is None:
        return value
    if isinstance(kind, t.DateType):  # days since 1970
        return f"CASE WHEN {text} {_IS_WHOLE} THEN date_from_unix_date(try_cast({text} AS int)) ELSE {value} END"
    if isinstance(kind, _TIMES):  # one without a zone is a number as if it were UTC
        begin = (
            "timestamp_ltz'1970-01-01T00:00:00Z'"
            if isinstance(kind, t.TimestampType)
            else "timestamp_ntz'1970-01-01T00:00:00'"
        )
        microseconds = _MICROSECONDS.format(n=f"try_cast({text} AS bigint)", type=f"{semantic}.name")
        return f"CASE WHEN {text} {_IS_WHOLE} THEN timestampadd(MICROSECOND, {microseconds}, {begin}) ELSE {value} END"
    if isinstance(kind, t.DecimalType):
        scale = f"coalesce(try_cast({semantic}.scale AS int), {kind.scale})"
        return f"CASE WHEN {text} {_NUMBER} THEN {value} ELSE try_cast({_precise(text, scale)} AS {kind.simpleString()}) END"
    return value


def misfit(name: str, text: str, kind: t.DataType, is_debezium: bool) -> str:
    """Why ``text`` has no value in the column ``name``."""
    why = quoted(f"', which is no {kind.simpleString()}")
    if is_debezium and isinstance(kind, _TIMES):
        unit = "', and only the event's schema tells the unit of such a number; let Debezium write it, or declare the column as bigint"
        why = f"CASE WHEN {text} {_IS_WHOLE} THEN {quoted(unit)} ELSE {why} END"
    return f"concat({quoted(f'column {name} is ')}, '\\'', left({text}, {_SHOWN}), {why})"


def _precise(text: str, scale: str) -> str:
    """A decimal as Debezium writes it by default (``decimal.handling.mode=precise``): Base64 of the unscaled number, big-endian, of at most
    16 bytes, which 38 digits need."""
    padded = "if(length(digits) > 32, NULL, lpad(digits, 32, if(left(digits, 1) >= '8', 'F', '0')))"
    high, low = "conv(left(padded, 16), 16, -10)", "conv(right(padded, 16), 16, 10)"  # the high half has the sign
    total = f"try_add(try_multiply(cast({high} AS decimal(20,0)), 18446744073709551616), cast({low} AS decimal(20,0)))"
    whole = "lpad(cast(abs(total) AS string), 80, '0')"
    number = f"concat(if(total < 0, '-', ''), substring({whole}, 1, 80 - {scale}), '.', substring({whole}, 81 - {scale}, {scale}))"
    bytes_of = f"hex(try_to_binary({text}, 'base64'))"
    return _let("total", _let("padded", _let("digits", bytes_of, padded), total), number)


def _let(name: str, value: str, result: str) -> str:
    """``result`` with ``value`` as ``name``, computed once: inside of a lambda Spark repeats what is written twice."""
    return f"transform(array({value}), {name} -> {result})[0]"
