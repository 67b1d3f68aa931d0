"""The columns by which a judge tells bad rows from good ones, their types and their values: looked at before a row is written or sent back.

Spark turns a string into a boolean where one is wanted: ``failed = 'no'`` would be false, 'maybe' null, and every such row good.

``action`` and ``failed`` are two ways to say one thing, so rows have one of them. Words are read as those of options are: in any case,
blanks around them are nothing. An empty word is none of them, it is a slip: null says that a row is good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "ACTIONS",
    "BLANKS",
    "VERDICT_TYPES",
    "action_of",
    "check_delay_level",
    "check_verdict",
    "said",
    "wrong_verdicts",
]

# What a row's ``action`` may say; null and "ack" mean that the row is good.
ACTIONS: Final = ("ack", "retry", "dlq", "drop")
BLANKS: Final = " \t\r\n"
# As the option: brokers have eighteen levels, or as many as their messageDelayLevel names, and take a higher one for their last.
_HIGHEST_LEVEL: Final = 1000
_NOTHING: Final = "void"  # the type of a literal null
VERDICT_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "action": ("string", _NOTHING),
    "failed": ("boolean", _NOTHING),
    "delayLevel": ("int", "bigint", "smallint", "tinyint", _NOTHING),
    "reason": ("string", _NOTHING),
}


def check_verdict(judged: DataFrame) -> None:
    """Check what a function given to ``foreach_batch`` returned.

    Raises:
        ConfigurationError: it is no DataFrame, it has no verdict or two, or a column of the verdict is of another type.
    """
    if not hasattr(judged, "dtypes"):
        raise ConfigurationError(
            f"the function given to foreach_batch returned {type(judged).__name__}; return the rows with a column action or failed, "
            "the good ones among them"
        )
    types = dict(judged.dtypes)
    for name, kind in types.items():
        allowed = VERDICT_TYPES.get(name)
        if allowed is not None and kind not in allowed:
            raise ConfigurationError(f"column {name!r} of the judged rows is {kind}; {allowed[0]} is allowed; cast it")
    if ("action" in types) == ("failed" in types):
        have = "both an action and a failed column" if "action" in types else "neither an action nor a failed column"
        raise ConfigurationError(f"the judged rows have {have}; return them with one of the two")


def action_of(value: str | None, otherwise: str) -> str:
    """One of ``ACTIONS``. Raises ConfigurationError: something else."""
    if value is None:
        return otherwise
    action = value.strip(BLANKS).lower()
    if action not in ACTIONS:
        raise ConfigurationError(_no_action(value))
    return action


def check_delay_level(level: int) -> int:
    """``level``, if a row may ask for it. Raises ConfigurationError."""
    if not 0 <= level <= _HIGHEST_LEVEL:
        raise ConfigurationError(_no_level(level))
    return level


def said(column: str) -> Column:
    """``action_of`` for a column, null for null."""
    from pyspark.sql import functions as f

    return f.lower(f.btrim(f.col(column), f.lit(BLANKS)))


def wrong_verdicts(columns: Sequence[str]) -> list[tuple[Column, Callable[[Any], str]]]:
    """Aggregates over rows with ``columns``: each is null, or a value that a verdict must not have; and the sentence about that value."""
    from pyspark.sql import functions as f

    found: list[tuple[Column, Callable[[Any], str]]] = []
    if "action" in columns:
        found.append((f.max(f.when(~said("action").isin(*ACTIONS), f.col("action"))), _no_action))
    if "delayLevel" in columns:
        level = f.col("delayLevel")
        found.append((f.max(f.when(~level.between(0, _HIGHEST_LEVEL), level)), _no_level))
    return found


def _no_action(value: str) -> str:
    return f"action is {value!r}; allowed is null, {', '.join(ACTIONS)}"


def _no_level(value: int) -> str:
    return f"delayLevel is {value}; allowed is null, 0 (the broker chooses) or a level to {_HIGHEST_LEVEL}; action dlq gives a row up"
