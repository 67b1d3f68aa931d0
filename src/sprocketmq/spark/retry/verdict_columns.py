# SPDX-License-Identifier: Apache-2.0
"""The columns of a verdict, their types and values. Checked before a row is written or sent back: Spark would convert strings to
booleans, so that ``failed = 'no'`` is false and 'maybe' null.

``action`` and ``failed`` exclude each other. Words are read regardless of case and surrounding blanks; null means that a row is good.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.source_columns import COLUMNS, COPY_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The values of ``action``; null and "ack" mean that the row is good.
ACTIONS: Final = ("ack", "retry", "dlq", "drop")
BLANKS: Final = " \t\r\n"
_ACTION: Final = f"lower(btrim(action, '{BLANKS}'))"
# As for the option: brokers have 18 levels, or those of their messageDelayLevel, and use their last level for a higher number.
_HIGHEST_LEVEL: Final = 1000
_WHOLE: Final = ("int", "bigint", "smallint", "tinyint")
# Where the message of a bad row is.
PLACE_COLUMNS: Final = ("brokerName", "commitLogOffset")
_REQUEST: Final = (*PLACE_COLUMNS, "topic", "messageId", "reconsumeTimes")
_NOTHING: Final = "void"  # the type of a literal null
VERDICT_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "action": ("string", _NOTHING),
    "failed": ("boolean", _NOTHING),
    "delayLevel": ("int", "bigint", "smallint", "tinyint", _NOTHING),
    "reason": ("string", _NOTHING),
}
_KNOWN: Final = {name.lower(): name for name in (*VERDICT_TYPES, *COLUMNS)}


def ignores_case(rows: DataFrame) -> bool:
    """Spark's rule of case: whether ``ACTION`` is the column ``action``."""
    return rows.sparkSession.conf.get("spark.sql.caseSensitive") != "true"


def check_names(what: str, names: Sequence[str], rows: DataFrame) -> None:
    """Raises ConfigurationError (two of ``names``, ``what`` they are, are one by Spark's rule of case)."""
    lower = [name.lower() for name in names]
    if len({*lower}) == len(names):
        return
    folded = lower if ignores_case(rows) else names
    for at, name in enumerate(folded):
        if (first := folded.index(name)) < at:
            raise ConfigurationError(f"{what} {names[first]!r} and {names[at]!r}; rename one of them, or drop it")


def known_types(rows: DataFrame) -> dict[str, str]:
    """The types of the columns of a verdict and of the source, by the names that they have here."""
    found = {}
    for name, kind in rows.dtypes:
        known = _KNOWN.get(name.lower())
        if known is not None and (known == name or ignores_case(rows)):
            found[known] = kind
    return found


def type_of_nothing(name: str) -> str:
    """The type that a void column is read as."""
    known = _KNOWN.get(name.lower(), "")
    return VERDICT_TYPES[known][0] if known in VERDICT_TYPES else COLUMNS.get(known, "string")


def check_verdict(verdicts: DataFrame) -> None:
    """Raises ConfigurationError (no DataFrame, two columns of one name, no verdict or two, or a type)."""
    if not hasattr(verdicts, "dtypes"):
        raise ConfigurationError(
            f"the function given to foreach_batch returned {type(verdicts).__name__}; return the rows with a column action or failed, "
            "the good ones among them"
        )
    check_names("the judged rows have two columns", [name for name, _ in verdicts.dtypes], verdicts)
    types = known_types(verdicts)
    for name, kind in types.items():
        allowed = VERDICT_TYPES.get(name)
        if allowed is not None and kind not in allowed:
            raise ConfigurationError(f"column {name!r} of the judged rows is {kind}; {allowed[0]} is allowed; cast it")
    if ("action" in types) == ("failed" in types):
        have = "both an action and a failed column" if "action" in types else "neither an action nor a failed column"
        raise ConfigurationError(f"the judged rows have {have}; return them with one of the two")


def check_source_types(verdicts: DataFrame, with_content: bool) -> None:
    """Check the types of the source's columns that send-back uses. ``with_content``: whether bad rows are sent as a whole. A body that
    was cast to a string still has its bytes. Raises ConfigurationError (a column is not what the source made)."""
    types = known_types(verdicts)
    for name in (*_REQUEST, *(COPY_COLUMNS if with_content else ())):
        allowed = (
            (COLUMNS[name], "string") if name == "body" else _WHOLE if COLUMNS[name] in _WHOLE else (COLUMNS[name],)
        )
        if types.get(name, allowed[0]) not in (*allowed, *(() if name in PLACE_COLUMNS else (_NOTHING,))):
            raise ConfigurationError(
                f"column {name!r} of the judged rows is {types[name]}, and the source's is {COLUMNS[name]}, by which a bad row is "
                "sent back; keep it as it is, and give your column another name"
            )


def as_stored(name: str) -> str:
    """The column of the source as a copy needs it, in SQL: a body as bytes."""
    return "CAST(body AS binary)" if name == "body" else name


def action_of(value: str | None, otherwise: str) -> str:
    """One of ``ACTIONS``; ``otherwise`` for null. Raises ConfigurationError for another value."""
    if value is None:
        return otherwise
    action = value.strip(BLANKS).lower()
    if action not in ACTIONS:
        raise ConfigurationError(_no_action(value))
    return action


def check_delay_level(level: int) -> int:
    if not 0 <= level <= _HIGHEST_LEVEL:
        raise ConfigurationError(_no_level(level))
    return level


def is_bad(columns: Container[str]) -> str:
    """A condition in SQL: each method of a ``Column`` looks for its caller and asks the JVM, a text does so once."""
    verdict = f"{_ACTION} != 'ack'" if "action" in columns else "failed"
    return f"coalesce({verdict}, false)"


def verdict_checks(columns: Container[str]) -> list[tuple[str, Callable[[Any], str]]]:
    """For each check an aggregate over the rows, null or an invalid value, and a function from that value to an error message."""
    found: list[tuple[str, Callable[[Any], str]]] = []
    if "action" in columns:
        found.append((f"max(CASE WHEN {_ACTION} NOT IN {ACTIONS} THEN action END)", _no_action))
    if "delayLevel" in columns:
        found.append((f"max(CASE WHEN delayLevel NOT BETWEEN 0 AND {_HIGHEST_LEVEL} THEN delayLevel END)", _no_level))
    return found


def _no_action(value: str) -> str:
    return f"action is {value!r}; allowed is null, {', '.join(ACTIONS)}"


def _no_level(value: int) -> str:
    allowed = f"null, 0 (the broker chooses) or a level to {_HIGHEST_LEVEL}"
    return f"delayLevel is {value}; allowed is {allowed}; action dlq makes a row a dead letter"
