"""The columns by which a judge tells bad rows from good ones, and their types: looked at before a row is written or sent back.

Spark turns a string into a boolean where one is wanted: ``failed = 'no'`` would be false, 'maybe' null, and every such row good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_verdict"]

_NOTHING: Final = "void"  # the type of a literal null
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "action": ("string", _NOTHING),
    "failed": ("boolean", _NOTHING),
    "delayLevel": ("int", "bigint", "smallint", "tinyint", _NOTHING),
    "reason": ("string", _NOTHING),
}


def check_verdict(judged: DataFrame) -> None:
    """Check what a function given to ``foreach_batch`` returned.

    Raises:
        ConfigurationError: it is no DataFrame, or a column of the verdict is of another type; the sentence names it.
    """
    if not hasattr(judged, "dtypes"):
        raise ConfigurationError(
            f"the function given to foreach_batch returned {type(judged).__name__}; return the rows with a column action or failed, or "
            "None if nothing is bad"
        )
    for name, kind in judged.dtypes:
        allowed = _TYPES.get(name)
        if allowed is not None and kind not in allowed:
            raise ConfigurationError(f"column {name!r} of the judged rows is {kind}; {allowed[0]} is allowed; cast it")
