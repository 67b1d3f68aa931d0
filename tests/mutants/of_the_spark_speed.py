"""The short cuts of the Spark read and write, broken on purpose: each must see what it cannot take."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

SPARK: Final = "src/sprocketmq/spark"
SHAPES: Final = "tests/unit/spark/test_property_columns.py"
STARTS: Final = "tests/unit/spark/test_record_starts.py"
ROWS: Final = "tests/unit/spark/test_row_columns.py"

SPARK_SPEED_MUTANTS = [
    Mutant(
        "spark-speed",
        "a separator inside a value is taken for the value",
        f"{SPARK}/columns/property_columns.py",
        "    if np.count_nonzero(separators) == count * len(texts) and not differing.any():",
        "    if not differing.any():",
        f"{SHAPES}::test_a_text_of_the_same_length_and_another_shape_is_not_taken_for_the_first",
    ),
    Mutant(
        "spark-speed",
        "texts of one length are taken for texts of one shape",
        f"{SPARK}/columns/property_columns.py",
        "    differing = (words ^ words[0]) & fixed.view(np.uint64)",
        "    differing = (words ^ words[0]) & np.uint64(0)",
        f"{SHAPES}::test_a_text_of_the_same_length_and_another_shape_is_not_taken_for_the_first",
    ),
    Mutant(
        "spark-speed",
        "a message without a property has it, empty",
        f"{SPARK}/columns/property_columns.py",
        "        if valid < self._count:\n",
        "        if False:\n",
        f"{SHAPES}::test_both_ways_give_what_one_by_one_gives",
    ),
    Mutant(
        "spark-speed",
        "a record may reach into the next body",
        f"{SPARK}/columns/record_starts.py",
        "    return starts if (starts[np.minimum(at, len(starts) - 1)] == begins).all() else None",
        "    return starts",
        f"{STARTS}::test_a_record_that_reaches_into_the_next_body_is_refused",
    ),
    Mutant(
        "spark-speed",
        "a run of records goes on over one of another size",
        f"{SPARK}/columns/record_starts.py",
        "        if not same.all():\n",
        "        if False:\n",
        f"{STARTS}::test_runs_of_alike_records_behind_each_other",
    ),
    Mutant(
        "spark-speed",
        "a row of the source is written back with RocketMQ's own properties",
        f"{SPARK}/send/row_columns.py",
        "        keep &= ~np.isin(codes, left_out)",
        "        pass",
        f"{ROWS}::test_plain_rows_go_by_columns",
    ),
    Mutant(
        "spark-speed",
        "a row with a sharding key goes by columns, to any queue",
        f"{SPARK}/send/row_columns.py",
        "    if any(columns[name].null_count < batch.num_rows for name in _UNUSUAL & columns.keys()):",
        "    if False:",
        f"{ROWS}::test_what_is_not_plain_is_left_to_one_by_one",
    ),
    Mutant(
        "spark-speed",
        "a part is larger than a broker takes",
        f"{SPARK}/send/row_columns.py",
        "            upto = max(at + 1, min(upto, at + most_rows, count))",
        "            upto = max(at + 1, min(at + most_rows, count))",
        f"{ROWS}::test_parts_hold_all_elements_within_both_limits",
    ),
    Mutant(
        "spark-speed",
        "freed memory goes back to the system",
        "src/sprocketmq/net/kept_memory.py",
        "mallopt(_M_MMAP_THRESHOLD, _MOST_UNMAPPED_BYTES) and mallopt",
        "True or mallopt",
        "tests/unit/net/test_kept_memory.py::test_blocks_that_are_made_again_need_no_new_pages",
    ),
    Mutant(
        "spark-speed",
        "a large read brings other queues' records along",
        "src/sprocketmq/store/plain_reads.py",
        "        if place != end:\n            runs.append((begin, end))",
        "        if place < end:\n            runs.append((begin, end))",
        "tests/unit/store/test_read_at_once.py",
    ),
]
