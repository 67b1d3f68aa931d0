# SPDX-License-Identifier: Apache-2.0
"""The columns of the source, and a read's choice of them (options ``columns`` and ``includeProperties``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.given_options import GivenOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# name -> Spark type, in the order of the table that the source offers
COLUMNS: Final[dict[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "commitLogOffset": "bigint",
    "messageId": "string",
    "keys": "string",
    "tags": "string",
    "properties": "map<string,string>",
    "body": "binary",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "bornHost": "string",
    "storeHost": "string",
    "reconsumeTimes": "int",
    "sysFlag": "int",
}

# The columns that a copy of a message needs (retry copies, dead letters).
COPY_COLUMNS: Final = ("topic", "body", "properties", "reconsumeTimes")

# The metadata of a catalog table's first column that holds the options of the table.
TABLE_OPTIONS: Final = "sprocketmq.options"
# The metadata of its column topic, by which a write sees where the rows come from.
TABLE_TOPIC: Final = "sprocketmq.topic"


def check_bodies(rows: DataFrame, function: str, made: Iterable[str]) -> None:
    """Raises ConfigurationError: ``rows``, given to ``function`` that makes columns of their bodies, lack these or have such a column."""
    try:
        names = rows.columns
    except PySparkException as error:
        if _is_of_a_pipeline(error):
            return  # Spark finds it when it analyses the pipeline
        raise
    if "body" not in names:
        raise ConfigurationError(f"the rows given to {function} lack the column body; keep it")
    if taken := [name for name in made if name in names]:
        raise ConfigurationError(
            f"the rows given to {function} have a column {taken[0]!r}, which {function} makes; rename it"
        )


def parsed_columns(schema: object, what: str) -> t.StructType:
    """``schema`` as a user gave it, DDL or a StructType. Raises ConfigurationError if it is neither."""
    try:
        parsed = t.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    except PySparkException as error:
        if not _is_of_a_pipeline(error):
            raise
        raise ConfigurationError(
            f"schema is {schema!r}, and Spark parses no DDL in a function of a pipeline; "
            f"give a StructType that was made outside: StructType.fromDDL({schema!r})"
        ) from error
    if not isinstance(parsed, t.StructType) or not parsed.fields:
        raise ConfigurationError(f"schema is {schema!r}; {what} are allowed, as in 'id bigint, name string'")
    return parsed


def _is_of_a_pipeline(error: PySparkException) -> bool:
    """The server refuses to analyse anything while a declarative pipeline's query function runs."""
    return error.getCondition() == "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def chosen_columns(given: GivenOptions) -> tuple[str, ...]:
    """The columns to read, in the user's order. Raises ConfigurationError if one does not exist, or none is left."""
    if not given.has("columns"):
        keep_properties = given.flag("includeProperties")
        return tuple(name for name in COLUMNS if name != "properties" or keep_properties)
    given.one_of(("columns", "includeProperties"))
    spelling = {name.lower(): name for name in COLUMNS}
    names = [part.strip() for part in (given.text("columns") or "").split(",") if part.strip()]
    unknown = [name for name in names if name.lower() not in spelling]
    if unknown or not names:
        given.refuse("columns", f"a comma separated choice of {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(spelling[name.lower()] for name in names))
