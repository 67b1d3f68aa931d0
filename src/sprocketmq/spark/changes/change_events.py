# SPDX-License-Identifier: Apache-2.0
"""Changes of a database's rows, as Canal, Debezium and Maxwell send them, as rows with typed columns.

    rows of the source --> body as text --> events (change_formats) --> columns before and after (change_values)
                                 |                                              |
                                 `---- what does not fit: failed, reason <------'

Rules
1. A message whose events do not all fit is one row with ``failed`` and a ``reason``, and without events: row retry moves whole messages.
2. Each other row is one changed row of the database. A message that changes none (a heartbeat, a DDL statement) gives none.
3. No value becomes null: a column that the event does not have is named in ``missing``, or fails the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as f
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_text
from sprocketmq.spark.changes.change_formats import EVENT, FORMATS, ChangeFormat
from sprocketmq.spark.changes.change_values import misfit, parsed_once, quoted, typed
from sprocketmq.spark.options.source_columns import check_bodies, parsed_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MADE: Final = ("operation", "table", "position", "row", "time", "before", "after", "missing", "failed", "reason")
_LACKS: Final = "the event lacks the column "
_WHOLE_ROWS: Final = "; write whole rows (binlog_row_image=FULL, REPLICA IDENTITY FULL), or take partial=True"


def change_events(
    rows: DataFrame,
    format: Literal["canal-json", "debezium", "maxwell"],
    schema: str | t.StructType,
    *,
    table: str | None = None,
    keys: Sequence[str] = (),
    partial: bool = False,
) -> DataFrame:
    """The changes in the bodies of ``rows``, one row each, beside the columns of its message. For batches, streams, and ``foreach_batch``::

        foreach_batch(
            lambda rows, batch_id: change_events(rows, "canal-json", "id bigint, name string", keys=["id"]), write=merge, ...
        )

    Args:
        rows: messages of the source, with the column ``body``.
        format: who wrote them: ``canal-json`` (Canal's flat messages, also those of TiCDC), ``debezium`` (JSON, with or without the schema)
            or ``maxwell``.
        schema: the columns of the table that are wanted, as DDL or a StructType. Others are left out.
        table: ``database.table``, with Debezium ``database.schema.table`` where there are schemas: others are left out. Default: all.
        keys: the columns of the primary key. An update that changes them becomes a delete and an insert, so that no row of the old key
            stays.
        partial: take events that lack a column of ``schema``; ``missing`` names them. Otherwise such a message fails.

    Returns:
        ``operation`` (insert, update, delete, read: found by a snapshot, truncate), ``table``, ``position`` (array<bigint>: the place in
        the database's log; empty if the producer does not tell it), ``row`` (number of the change in its message: the changes of a key
        are in order by ``position, queueOffset, row``), ``time`` (of the change), ``before`` and ``after`` (structs of ``schema``; null
        where the event has none), ``missing`` (array of names), ``failed`` and ``reason`` (of a message that does not fit; then the rest
        is null).

    Raises ConfigurationError (an argument is wrong).
    """
    fields = parsed_columns(schema, "the table's columns").fields
    keys = _checked_keys(keys, fields)
    if format not in FORMATS:
        raise ConfigurationError(f"format is {format!r}; {', '.join(FORMATS)} are allowed")
    check_bodies(rows, "change_events", _MADE)
    how = FORMATS[format]
    events = (
        how.events if table is None else f"filter({how.events}, event -> event.table = {quoted(plain_text(table))})"
    )
    changes = f"transform(__events, event -> {_typed_event(how, fields, keys, format == 'debezium', partial)})"
    steps = {
        "__text": "try_validate_utf8(cast(body AS string))",
        **how.parsed,
        "__problem": f"CASE WHEN __text IS NULL AND body IS NOT NULL THEN 'the body is not UTF-8' ELSE {how.problem} END",
        "__events": _split_by_key(events, keys),
        "__changes": parsed_once(changes),
        "reason": "coalesce(__problem, try_element_at(filter(__changes.problem, problem -> problem IS NOT NULL), 1))",
    }
    for name, step in steps.items():
        rows = rows.withColumn(name, f.expr(step))
    exploded = f.expr("posexplode(CASE WHEN reason IS NULL THEN __changes ELSE array(NULL) END)").alias(
        "row", "__change"
    )
    rows = rows.select("*", exploded)
    made = {name: f.col("__change")[name] for name in _MADE if name not in ("row", "failed", "reason")}
    rows = rows.withColumns(
        {**made, "row": f.expr("if(reason IS NULL, row, NULL)"), "failed": f.col("reason").isNotNull()}
    )
    return rows.drop("__change", *(name for name in steps if name != "reason"))


def _checked_keys(keys: Sequence[str], fields: list[t.StructField]) -> list[str]:
    if isinstance(keys, str):
        raise ConfigurationError(f"keys is {keys!r}; a list of columns is allowed, as in [{keys!r}]")
    names = [plain_text(key) for key in keys]
    known = [field.name for field in fields]
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(
            f"keys names {unknown[0]!r}, which is no column of schema; name one of {', '.join(known)}"
        )
    return names


def _split_by_key(events: str, keys: list[str]) -> str:
    """Updates of a key as a delete and an insert."""
    if not keys:
        return events
    gone, come = (
        f"cast(struct({part}) AS {EVENT})"
        for part in (
            "'delete', event.table, event.position, event.time, event.before, NULL, event.semantic",
            "'insert', event.table, event.position, event.time, NULL, event.after, event.semantic",
        )
    )
    moved = " OR ".join(f"NOT (event.before[{quoted(key)}] <=> event.after[{quoted(key)}])" for key in keys)
    return (
        f"flatten(transform({events}, event -> CASE WHEN event.operation = 'update' AND event.before IS NOT NULL AND ({moved}) "
        f"THEN array({gone}, {come}) ELSE array(event) END))"
    )


def _typed_event(
    how: ChangeFormat, fields: list[t.StructField], keys: list[str], is_debezium: bool, partial: bool
) -> str:
    """``event`` with ``before`` and ``after`` as structs, and a ``problem`` if something does not fit."""
    sides, problems = [], []
    for side in ("before", "after"):
        values = []
        for field in fields:
            name = quoted(field.name)
            text = f"try_element_at(event.{side}, {name})"
            value = typed(text, field.dataType, how.bytes_of, f"event.semantic[{name}]" if is_debezium else None)
            values.append(f"{name}, {value}")
            why = misfit(field.name, text, field.dataType, is_debezium)
            problems.append(f"CASE WHEN {text} IS NOT NULL AND {value} IS NULL THEN {why} END")
        sides.append(f"CASE WHEN event.{side} IS NOT NULL THEN named_struct({', '.join(values)}) END")
    names = ", ".join(quoted(field.name) for field in fields)
    missing = f"filter(array({names}), name -> NOT map_contains_key(event.after, name))"
    lacking = f"CASE WHEN event.after IS NOT NULL THEN {missing} ELSE array() END"
    if not partial:
        problems.append(
            f"CASE WHEN size({lacking}) > 0 THEN concat({quoted(_LACKS)}, ({lacking})[0], {quoted(_WHOLE_ROWS)}) END"
        )
    row = "CASE event.operation WHEN 'delete' THEN event.before ELSE event.after END"
    for key in keys:
        no_key = quoted(f"the event lacks a value of the key {key}")
        problems.append(
            f"CASE WHEN {row} IS NOT NULL AND try_element_at({row}, {quoted(key)}) IS NULL THEN {no_key} END"
        )
    return (
        "named_struct('operation', event.operation, 'table', event.table, 'position', event.position, 'time', event.time, "
        f"'before', {sides[0]}, 'after', {sides[1]}, 'missing', cast({lacking} AS array<string>), "
        f"'problem', coalesce({', '.join(problems)}))"
    )
