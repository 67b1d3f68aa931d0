"""A judge's verdict of a wrong type is refused before anything is done: Spark would turn 'no' into false, and 'maybe' into nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.verdict_columns import check_verdict


class Judged:
    """The part of a DataFrame that is looked at."""

    def __init__(self, **types: str) -> None:
        self.dtypes = list(types.items())


@pytest.mark.parametrize(
    "types",
    [
        {"body": "binary"},
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


@pytest.mark.parametrize("returned", [[1], True, {"failed": True}])
def test_a_judge_that_returns_no_rows_is_told_what_to_return(returned: Any) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"returned {type(returned).__name__}; return the rows with a column action or failed, or None",
    ):
        check_verdict(returned)


def test_a_row_retry_looks_at_the_verdict_before_it_writes() -> None:
    written: list[Any] = []
    retry = foreach_batch(
        lambda rows, batch_id: Judged(brokerName="string", commitLogOffset="bigint", failed="string"),  # type: ignore[arg-type,return-value]
        write=lambda good, batch_id: written.append(good),
        group="delays",
        namesrv_addr="127.0.0.1:1",
    )
    with pytest.raises(ConfigurationError, match="column 'failed' of the judged rows is string"):
        retry(Judged(), 0)  # type: ignore[arg-type]
    assert not written


@pytest.mark.parametrize(
    ("group", "options", "sentence"),
    [
        (
            "delays",
            {"group": "other"},
            "group is 'delays' and the options name group 'other'; a row comes again to the group",
        ),
        ("a b", {}, "group is 'a b'; allowed is 1 to 127 of letters"),
        ("", {}, "group is ''; allowed is 1 to 127 of letters"),
        ("delays", {"groop": "delays"}, r"option 'groop' is unknown .*; did you mean group\?"),
    ],
)
def test_a_row_retry_is_of_one_group(group: str, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        foreach_batch(lambda rows, batch_id: None, group=group, namesrv_addr="127.0.0.1:1", options=options)
    foreach_batch(lambda rows, batch_id: None, group="delays", namesrv_addr="127.0.0.1:1", options={"group": "delays"})
