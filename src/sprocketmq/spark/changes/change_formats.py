# SPDX-License-Identifier: Apache-2.0
"""What Canal, Debezium and Maxwell write: the JSON of a body as an array of events, in Spark's SQL.

Values stay text here, as the producer wrote them; ``change_values`` makes columns of them. They are in maps: a column that is null differs
from one that the event does not have. SQL as text, because a call of PySpark's functions for each part takes seconds for a wide table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ROW: Final = "map<string,string>"
# Numbers of JSON: read as text they would go through a double.
_VALUES: Final = "map<string,variant>"
# The producer's own type of each column, and the scale of a decimal: only Debezium tells them, if it writes schemas.
_SEMANTIC: Final = "map<string,struct<name:string,scale:string>>"
EVENT: Final = (
    "struct<operation:string,table:string,position:array<bigint>,time:timestamp,"
    f"before:{_ROW},after:{_ROW},semantic:{_SEMANTIC}>"
)


@dataclass(frozen=True)
class ChangeFormat:
    """Expressions, each over the ones before and ``__text``, the body.

    ``parsed``: the columns ``__body`` and those that it needs. ``events``: an array of ``EVENT``, empty for what changes no row.
    ``problem``: null, or why there are none. ``bytes_of``: a value of bytes that was written as ``{}``.
    """

    parsed: dict[str, str]
    events: str
    problem: str
    bytes_of: str = "try_to_binary({}, 'base64')"


def _read_json(text: str, fields: str) -> str:
    return f"from_json({text}, '{fields}, _corrupt string', map('columnNameOfCorruptRecord', '_corrupt'))"


def _as_text(values: str) -> str:
    return f"transform_values({values}, (name, value) -> try_variant_get(value, '$', 'string'))"


def _available(row: str) -> str:
    """A row of Debezium as text, without the columns whose value it does not have."""
    return f"map_filter({_as_text(row)}, (name, value) -> NOT value <=> '{_UNAVAILABLE}')"


def _with_old(row: str, old: str) -> str:
    """The row before an update, of which ``old`` has the changed columns only."""
    return (
        f"CASE WHEN {old} IS NOT NULL THEN "
        f"transform_values({row}, (name, value) -> CASE WHEN map_contains_key({old}, name) THEN {old}[name] ELSE value END) END"
    )


def _event(
    operation: str, table: str, position: str, time: str, before: str, after: str, semantic: str = "NULL"
) -> str:
    return f"cast(struct({operation}, {table}, {position}, {time}, {before}, {after}, {semantic}) AS {EVENT})"


# For a large value of PostgreSQL that an update did not change.
_UNAVAILABLE: Final = "__debezium_unavailable_value"
# Equal to any other such one: the order of the queue alone decides.
_NO_POSITION: Final = "cast(array() AS array<bigint>)"
_NO_EVENTS: Final = f"cast(array() AS array<{EVENT}>)"


def _canal_json() -> ChangeFormat:
    """Canal's ``FlatMessage``, also as TiCDC writes it: several rows of one statement, all values as text. Its position is the number of
    transactions in the set of GTIDs (``LogHeader.getGtidSetStr``); with TiDB's extension the timestamp of the commit. ``es`` is none: it is
    the second in which the statement began, and a long one may come after shorter ones that began later. Nor is ``id``: it begins at 1
    with each start of Canal (``MemoryMetaManager``)."""
    is_row = "upper(__body.type) IN ('INSERT', 'UPDATE', 'DELETE')"
    table = "concat_ws('.', __body.database, __body.`table`)"
    time = "timestamp_millis(__body.es)"
    interval = "split(substring(interval, 2), '-')"
    transactions = (
        "aggregate(regexp_extract_all(__body.gtid, ':[0-9]+(-[0-9]+)?', 0), 0L, (number, interval) -> "
        f"number + 1L + cast(element_at({interval}, -1) AS bigint) - cast({interval}[0] AS bigint))"
    )
    position = (
        "CASE WHEN __body._tidb.commitTs IS NOT NULL THEN array(__body._tidb.commitTs) "
        f"WHEN contains(__body.gtid, ':') THEN array({transactions}) ELSE {_NO_POSITION} END"
    )
    event = _event(
        "lower(__body.type)",
        table,
        position,
        time,
        "CASE upper(__body.type) WHEN 'DELETE' THEN row "
        f"WHEN 'UPDATE' THEN {_with_old('row', 'try_element_at(__body.old, n + 1)')} END",
        "CASE WHEN upper(__body.type) != 'DELETE' THEN row END",
    )
    truncated = _event("'truncate'", table, position, time, "NULL", "NULL")
    return ChangeFormat(
        parsed={
            "__body": _read_json(
                "__text",
                f"type string, database string, `table` string, es bigint, gtid string, data array<{_ROW}>, old array<{_ROW}>, "
                "_tidb struct<commitTs:bigint>",
            )
        },
        events=(
            f"CASE WHEN {is_row} THEN transform(__body.data, (row, n) -> {event}) "
            f"WHEN upper(__body.type) = 'TRUNCATE' THEN array({truncated}) ELSE {_NO_EVENTS} END"
        ),
        problem=(
            "CASE WHEN __body._corrupt IS NOT NULL OR __body.type IS NULL THEN 'the body is not an event of Canal' "
            f"WHEN {is_row} AND (__body.data IS NULL OR __body.es IS NULL) THEN 'the event has no data or no es' END"
        ),
        bytes_of="encode({}, 'ISO-8859-1')",  # MQMessageUtils
    )


def _maxwell() -> ChangeFormat:
    """Its position is file and offset in the binlog (``output_binlog_position``). ``ts`` is none, see Canal's ``es``; ``xid`` begins anew
    with each start of MySQL, and the last row of a transaction has no ``xoffset``."""
    is_row = "__body.type IN ('insert', 'update', 'delete', 'bootstrap-insert')"
    place = "try_cast(nullif(regexp_extract(__body.position, '(\\\\d+):(\\\\d+)$', {}), '') AS bigint)"
    event = _event(
        "CASE __body.type WHEN 'bootstrap-insert' THEN 'read' ELSE __body.type END",
        "concat_ws('.', __body.database, __body.`table`)",
        f"CASE WHEN {place.format(1)} IS NOT NULL THEN array({place.format(1)}, {place.format(2)}) ELSE {_NO_POSITION} END",
        "timestamp_seconds(__body.ts)",
        f"CASE __body.type WHEN 'delete' THEN __row WHEN 'update' THEN {_with_old('__row', '__old')} END",
        "CASE WHEN __body.type != 'delete' THEN __row END",
    )
    return ChangeFormat(
        parsed={
            "__body": _read_json(
                "__text",
                f"type string, database string, `table` string, data {_VALUES}, old {_VALUES}, position string, "
                "ts bigint",
            ),
            "__row": _as_text("__body.data"),
            "__old": _as_text("__body.old"),
        },
        events=f"CASE WHEN {is_row} THEN array({event}) ELSE {_NO_EVENTS} END",
        problem=(
            "CASE WHEN __body._corrupt IS NOT NULL OR __body.type IS NULL THEN 'the body is not an event of Maxwell' "
            f"WHEN {is_row} AND (__row IS NULL OR __body.ts IS NULL) THEN 'the event has no data or no ts' END"
        ),
    )


def _debezium() -> ChangeFormat:
    """Debezium's envelope, with or without its schema. Its position is where the source says: file, offset and row of a binlog, the LSN of
    PostgreSQL or SQL Server, Oracle's SCN; otherwise the time of the change."""
    column = "struct<field:string,name:string,parameters:map<string,string>>"
    source = (
        "struct<db:string,schema:string,table:string,ts_ms:bigint,file:string,pos:bigint,row:bigint,lsn:bigint,"
        "change_lsn:string,event_serial_no:bigint,scn:string>"
    )
    operation = (
        "CASE __body.op WHEN 'c' THEN 'insert' WHEN 'u' THEN 'update' WHEN 'd' THEN 'delete' WHEN 'r' THEN 'read' "
        "WHEN 't' THEN 'truncate' END"
    )
    position = (
        "CASE WHEN __body.source.file IS NOT NULL THEN array("
        "try_cast(nullif(regexp_extract(__body.source.file, '(\\\\d+)$', 1), '') AS bigint), __body.source.pos, "
        "coalesce(__body.source.row, 0L)) "
        "WHEN __body.source.lsn IS NOT NULL THEN array(__body.source.lsn) "
        "WHEN __body.source.change_lsn IS NOT NULL THEN array_append(transform(split(__body.source.change_lsn, ':'), "
        "part -> try_cast(conv(part, 16, 10) AS bigint)), __body.source.event_serial_no) "
        "WHEN __body.source.scn IS NOT NULL THEN array(try_cast(__body.source.scn AS bigint)) "
        "ELSE array(__body.source.ts_ms) END"
    )
    semantic = (
        "map_from_entries(transform(try_element_at(filter(__envelope.schema.fields, side -> side.field = 'after'), 1).fields, "
        "one -> struct(one.field, struct(one.name, one.parameters['scale']))))"
    )
    event = _event(
        operation,
        "concat_ws('.', __body.source.db, __body.source.schema, __body.source.`table`)",
        position,
        "timestamp_millis(coalesce(__body.source.ts_ms, __body.ts_ms))",
        _available("__body.before"),
        _available("__body.after"),
        semantic,
    )
    # Messages of the log (op m), heartbeats, the begin and end of transactions, changes of schemas and tombstones change no row.
    is_other = (
        "coalesce(__text IN ('', 'null') OR __body.op = 'm' OR (__body.op IS NULL AND (__body.ddl IS NOT NULL OR __body.status IS NOT NULL "
        "OR (__body.ts_ms IS NOT NULL AND __body.source IS NULL))), false)"
    )
    return ChangeFormat(
        parsed={
            "__envelope": _read_json(
                "__text", f"payload string, schema struct<fields:array<struct<field:string,fields:array<{column}>>>>"
            ),
            "__body": _read_json(
                "coalesce(__envelope.payload, __text)",
                f"op string, before {_VALUES}, after {_VALUES}, ts_ms bigint, source {source}, ddl string, status string, __op string",
            ),
        },
        events=f"CASE WHEN {operation} IS NOT NULL THEN array({event}) ELSE {_NO_EVENTS} END",
        problem=(
            f"CASE WHEN {is_other} THEN NULL "
            "WHEN __body.__op IS NOT NULL THEN 'the event was flattened (ExtractNewRecordState); leave that transformation out' "
            f"WHEN __body._corrupt IS NOT NULL OR {operation} IS NULL THEN 'the body is not an event of Debezium' "
            "WHEN __body.op != 't' AND CASE __body.op WHEN 'd' THEN __body.before ELSE __body.after END IS NULL "
            "THEN 'the event has no row; the table needs REPLICA IDENTITY FULL or a primary key' END"
        ),
    )


FORMATS: Final = {"canal-json": _canal_json(), "debezium": _debezium(), "maxwell": _maxwell()}
