# SPDX-License-Identifier: Apache-2.0
"""How fast pull bodies become Arrow batches on one core: `python bench/spark_decode.py [--quick] [--rounds N] [--json FILE]`.

The bodies are made here as a broker stores them (32 records each, four properties, one producer's host), with the size of a Spark task's
batch, without broker and Spark. The time is this process's CPU time (user and system), which depends less on other work on the machine.
Caches and memory are still shared, so two references run in the same rounds, and only the ratios to them can be compared between machines:

    Arrow alone   Arrow copies the finished columns once more (``take`` of every row): the minimal cost of making these columns
    one by one    one Python object per message with its properties, without columns, as for a consumer

The median round counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from rich.console import Console

from report import figures_table, new_console, write_figures
from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.spark.options.source_columns import COLUMNS
from sprocketmq.spark.source import message_schema
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import decode_records, encode_record

PULL_MESSAGES: Final = 32  # pullBatchSize
BATCH_BYTES: Final = 8 * 1024 * 1024  # where spark.reader closes a batch, with the next
BATCH_PULLS: Final = 512
QUEUES: Final = 8
HOST: Final = (b"\x0a\0\0\x01", 10_911)
BODY_ONLY: Final = ("queueOffset", "body")


class Case(NamedTuple):
    """One line of the table."""

    name: str
    body_bytes: int
    columns: tuple[str, ...]


WITHOUT_PROPERTIES: Final = tuple(name for name in COLUMNS if name != "properties")
CASES: Final = tuple(
    Case(f"{size}, {what}", size_bytes, columns)
    for size, size_bytes in (("100 B", 100), ("1 KB", 1024))
    for what, columns in (
        ("all columns", tuple(COLUMNS)),
        ("without properties", WITHOUT_PROPERTIES),
        ("body and offset", BODY_ONLY),
    )
)


class Speed(NamedTuple):
    """Rows per second of this process's time, and the bytes of records in them."""

    decode: float
    arrow: float
    one_by_one: float
    record_bytes: int


def pull_bodies(body_bytes: int, own: dict[str, str] | None = None) -> list[PulledChunk]:
    """One batch in the form that the reader returns: queues in turn. ``own``: properties of each message, in place of its tags and keys."""
    pulls: list[PulledChunk] = []
    size_bytes = number = 0
    while size_bytes < BATCH_BYTES and len(pulls) < BATCH_PULLS:
        queue = MessageQueue("flights", "broker-a", len(pulls) % QUEUES)
        start = len(pulls) // QUEUES * PULL_MESSAGES
        records = []
        for offset in range(start, start + PULL_MESSAGES):
            records.append(record(number, queue.queue_id, offset, body_bytes, own))
            number += 1
        pulls.append(PulledChunk(queue, start, start + PULL_MESSAGES, memoryview(b"".join(records))))
        size_bytes += len(pulls[-1].body)
    return pulls


def record(number: int, queue_id: int, offset: int, body_bytes: int, own: dict[str, str] | None) -> bytes:
    properties = {"UNIQ_KEY": f"0A0000011A2B18B4AAC2{number:012X}"}
    properties |= own or {
        "WAIT": "true",
        "TAGS": ("UA", "AA", "DL", "B6")[number % 4],
        "KEYS": f"N{number % 4000:05d}",
    }
    body = number.to_bytes(8, "big") * (body_bytes // 8) + b"\0" * (body_bytes % 8)
    return encode_record(
        b"flights",
        body,
        encode_properties(properties),
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=number * (body_bytes + 200),
        born_timestamp_ms=1_700_000_000_000 + number,
        born_host=(b"\x0a\0\0\x02", 50_000),
        store_timestamp_ms=1_700_000_000_001 + number,
        store_host=HOST,
    )


def rows_per_second(work: Callable[[], object], rows: int, at_least_s: float) -> float:
    """Run ``work`` repeatedly for ``at_least_s`` of CPU time."""
    runs, begin_s = 0, time.process_time()
    while (spent_s := time.process_time() - begin_s) < at_least_s or not runs:
        work()
        runs += 1
    return runs * rows / spent_s


def measure(case: Case, rounds: int, each_s: float) -> Speed:
    """Measure decoding and the two references in turns; the median of each."""
    raise_malloc_thresholds()  # as a task does
    pulls = pull_bodies(case.body_bytes)
    decoder = BatchDecoder(to_arrow_schema(message_schema(case.columns), timezone="UTC"))
    (batch,) = decoder.decode(pulls)
    every_row = pa.array(range(batch.num_rows), pa.int32())
    ways: tuple[tuple[Callable[[], object], float], ...] = (
        (lambda: list(decoder.decode(pulls)), each_s),
        (lambda: batch.take(every_row), each_s),
        (lambda: [message.properties for pull in pulls for message in decode_records(pull.body)], each_s / 2),
    )
    found = [[rows_per_second(work, batch.num_rows, seconds) for work, seconds in ways] for _ in range(rounds)]
    decode, arrow, one_by_one = (statistics.median(column) for column in zip(*found, strict=True))
    return Speed(decode, arrow, one_by_one, sum(len(pull.body) for pull in pulls) // batch.num_rows)


def print_table(results: dict[str, Speed], console: Console) -> None:
    figures = ("rows/s", "MB/s", "Arrow alone", "of Arrow", "one by one", "against it")
    table = figures_table("pull bodies to Arrow on one core, median round", ("messages",), *figures)
    for name, speed in results.items():
        table.add_row(
            name,
            f"{speed.decode:,.0f}",
            f"{speed.decode * speed.record_bytes / 1e6:,.0f}",
            f"{speed.arrow:,.0f}",
            f"{speed.decode / speed.arrow:.2f}x",
            f"{speed.one_by_one:,.0f}",
            f"{speed.decode / speed.one_by_one:.1f}x",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding speed of the Spark source on one core.")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per line, default 5")
    parser.add_argument("--json", type=Path, help="write the medians to this file as well")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    rounds, each_s = (1, 0.3) if options.quick else (options.rounds, 1.0)
    console = new_console(120)
    results: dict[str, Speed] = {}
    for case in CASES:
        with console.status(case.name):
            results[case.name] = measure(case, rounds, each_s)
    print_table(results, console)
    write_figures(options.json, {name: speed._asdict() for name, speed in results.items()})


if __name__ == "__main__":
    main()
