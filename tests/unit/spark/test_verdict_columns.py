# SPDX-License-Identifier: Apache-2.0
"""A judge's verdict of a wrong type is refused before anything is done: Spark would turn 'no' into false, and 'maybe' into nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry.verdict_columns import action_of, check_delay_level, check_source_types, check_verdict


class Judged:
    """The part of a DataFrame that is looked at."""

    def __init__(self, **types: str) -> None:
        self.dtypes = list(types.items())


@pytest.mark.parametrize(
    "types",
    [
        {"failed": "boolean", "delayLevel": "int", "reason": "string"},
        {"action": "string", "delayLevel": "bigint", "reason": "void"},
        {"action": "void"},
    ],
)
def test_a_verdict_of_the_right_types_passes(types: dict[str, str]) -> None:
    check_verdict(Judged(**types))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ({"failed": "string"}, "column 'failed' of the judged rows is string; boolean is allowed; cast it"),
        ({"failed": "int"}, "column 'failed' of the judged rows is int; boolean is allowed"),
        ({"action": "boolean"}, "column 'action' of the judged rows is boolean; string is allowed"),
        (
            {"failed": "boolean", "delayLevel": "string"},
            "column 'delayLevel' of the judged rows is string; int is allowed",
        ),
        ({"failed": "boolean", "reason": "int"}, "column 'reason' of the judged rows is int; string is allowed"),
    ],
)
def test_a_verdict_of_another_type_is_named(types: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        check_verdict(Judged(**types))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "have"),
    [
        ({"body": "binary"}, "neither an action nor a failed column"),
        ({"action": "string", "failed": "boolean"}, "both an action and a failed column"),
    ],
)
def test_a_verdict_is_said_in_one_column(types: dict[str, str], have: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the judged rows have {have}; return them with one of the two"):
        check_verdict(Judged(**types))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "action"), [(None, "ack"), ("retry", "retry"), (" Ack ", "ack"), ("\tDLQ\r\n", "dlq"), ("drop", "drop")]
)
def test_a_word_is_read_in_any_case_and_without_the_blanks_around_it(value: str | None, action: str) -> None:
    assert action_of(value, "ack") == action


@pytest.mark.parametrize("value", ["", " ", "retri", "a ck", "null"])
def test_an_action_that_does_not_exist_is_shown(value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"action is {value!r}; allowed is null, ack, retry, dlq, drop"):
        action_of(value, "ack")


def test_a_negative_or_too_high_level_is_refused_and_the_error_names_the_action_dlq() -> None:
    assert [check_delay_level(level) for level in (0, 18, 1000)] == [0, 18, 1000]
    for level in (-1, 1001):
        with pytest.raises(ConfigurationError, match=f"delayLevel is {level}; allowed is null, 0 .*action dlq makes"):
            check_delay_level(level)


@pytest.mark.parametrize(
    ("column", "kind", "with_content"),
    [
        ("brokerName", "int", False),
        ("commitLogOffset", "string", False),
        ("topic", "int", False),
        ("body", "struct<a:int>", True),
        ("properties", "string", True),
    ],
)
def test_columns_by_which_rows_are_sent_back_keep_their_types(column: str, kind: str, with_content: bool) -> None:
    with pytest.raises(
        ConfigurationError, match=f"column '{column}' of the judged rows is {kind}, and the source's is"
    ):
        check_source_types(Judged(**{column: kind}), with_content)  # type: ignore[arg-type]
    check_source_types(Judged(body="string", commitLogOffset="int"), True)  # type: ignore[arg-type]


def test_a_row_retry_without_write_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"write is None, a function of \(good_rows, batch_id\) is allowed; give lambda"
    ):
        foreach_batch(lambda rows, batch_id: rows, write=None, group="delays")  # type: ignore[arg-type]


@pytest.mark.parametrize("returned", [None, [1], True, {"failed": True}])
def test_a_judge_that_returns_no_rows_is_told_what_to_return(returned: Any) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"returned {type(returned).__name__}; return the rows with a column action or failed",
    ):
        check_verdict(returned)


@pytest.mark.parametrize(
    ("group", "options", "sentence"),
    [
        (
            "delays",
            {"group": "other"},
            "group is 'delays' and the options name group 'other'; a row is delivered again to the group",
        ),
        ("a b", {}, "group is 'a b'; allowed is 1 to 127 of letters"),
        ("", {}, "group is ''; allowed is 1 to 127 of letters"),
        ("delays", {"groop": "delays"}, r"option 'groop' is unknown .*; did you mean group\?"),
    ],
)
def test_a_row_retry_is_of_one_group(group: str, options: dict[str, str], sentence: str) -> None:
    def judge(rows: Any, batch_id: int) -> Any:
        return rows

    def write(good: Any, batch_id: int) -> None:
        pass

    with pytest.raises(ConfigurationError, match=sentence):
        foreach_batch(judge, write=write, group=group, namesrv_addr="127.0.0.1:1", options=options)
    foreach_batch(judge, write=write, group="delays", namesrv_addr="127.0.0.1:1", options={"group": "delays"})
