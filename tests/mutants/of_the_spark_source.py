"""What the Spark source and its ledger believe, broken on purpose: replicas, brokers that come late, the ledger's place, planned anew."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

__all__ = ["SPARK_SOURCE_MUTANTS"]

SPARK: Final = "src/sprocketmq/spark"

SPARK_SOURCE_MUTANTS = [
    Mutant(
        "exactly-once",
        "a decided batch that was planned anew with other rows is skipped",
        "src/sprocketmq/core/decision_ledger.py",
        "    if decision.rows is not None and rows is not None and decision.rows != rows:",
        "    if False:",
        "tests/inproc/spark/test_replanned_batches.py::"
        "test_a_decided_batch_that_comes_again_with_other_rows_is_refused",
    ),
]
