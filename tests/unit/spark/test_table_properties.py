# SPDX-License-Identifier: Apache-2.0
"""A table of the catalog has options, and properties that are its user's own: those may have any name and any value."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.option_table import OPTIONS
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.source import RocketMQDataSource

GIVEN: Final = {"namesrvAddr": "mq:9876", "topic": "flights", "group": "delays", "columns": "body,tags"}
# As Spark 4.3 passes them to ``schema``: those of OPTIONS twice, a comment and an owner among the properties.
OF_SPARK: Final = {
    "provider": "rocketmq",
    "owner": "root",
    "comment": "the flights",
    "location": "file:/w",
    "is_managed_location": "true",
}
OWN_NAMES: Final = (
    "department",
    "delta.minReaderVersion",
    "retention ms",
    "topik",
    "option",
    "transient_lastDdlTime",
    "",
    "späť",
)


def of_catalog(clause: str, properties: dict[str, str]) -> RocketMQDataSource:
    lower = {name.lower(): value for name, value in GIVEN.items()}
    again = {f"option.{name}": value for name, value in lower.items()} if clause == "OPTIONS" else {}
    return RocketMQDataSource({**OF_SPARK, **lower, **properties, **again})


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        *product(("OPTIONS", "TBLPROPERTIES"), OWN_NAMES),
        *(("OPTIONS", row.name) for row in OPTIONS if row.kind != "secret"),  # named as an option, and none
    ],
)
def test_a_property_that_is_no_option_changes_nothing(clause: str, name: str) -> None:
    schema = of_catalog(clause, {name: "?!", name.lower(): "?!"}).schema()
    assert schema.names == ["body", "tags"]
    for streaming, direct in product((False, True), ({}, {"topic": "trains"})):
        found = RocketMQDataSource(dict(direct))._read_options(schema, streaming)
        assert found == read_options({**GIVEN, **direct}, streaming=streaming)


def test_an_option_that_does_not_exist_is_refused_where_it_is_one() -> None:
    with pytest.raises(ConfigurationError, match=r"option 'topik' is unknown .*; did you mean topic\?$"):
        of_catalog("OPTIONS", {"option.topik": "x"}).schema()
