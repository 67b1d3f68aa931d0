"""The marks that ``delivery=idempotent`` leaves in each message (message_sender), and how a reader drops by them what was written twice.

Law: a row has the same marks in each run of its batch, as long as the rows come out of the same source in the same order; no two rows of a
query have the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["each_write_once"]

_MARKS: Final = ("SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_PARTITION", "SPARK_SEQUENCE")


def each_write_once(rows: DataFrame, within: str = "3 hours") -> DataFrame:
    """Rows that a sink with ``delivery=idempotent`` wrote, without those that it wrote again after a crash, and without its marks.

    Rows without marks, which somebody else has sent, are told apart by their ``messageId``.

    Args:
        rows: of the source, batch or stream, with the columns ``messageId`` and ``properties``.
        within: of a stream: for how long repeats are known, counted from when a row was first read. Longer than the writer may be down
            between two runs of one batch. A batch compares all rows that it reads.

    Returns:
        The rows, each once; ``properties`` has no marks.
    """
    from pyspark.sql import functions as f

    missing = [name for name in ("messageId", "properties") if name not in rows.columns]
    if missing:
        raise ConfigurationError(f"the rows given to each_write_once lack {' and '.join(missing)}; keep these columns")
    marks = f.concat_ws("/", *(f.try_element_at("properties", f.lit(name)) for name in _MARKS))
    is_marked = f.try_element_at("properties", f.lit(_MARKS[0])).isNotNull()
    named = rows.withColumn("sparkWrite", f.when(is_marked, marks).otherwise(f.col("messageId")))
    named = named.withColumn("properties", f.map_filter("properties", lambda name, _: ~name.isin(*_MARKS)))
    if not rows.isStreaming:
        return named.dropDuplicates(["sparkWrite"]).drop("sparkWrite")
    seen = named.withColumn("firstRead", f.current_timestamp()).withWatermark("firstRead", within)
    return seen.dropDuplicatesWithinWatermark(["sparkWrite"]).drop("sparkWrite", "firstRead")
