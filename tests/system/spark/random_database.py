# SPDX-License-Identifier: Apache-2.0
"""A database whose changes are random, and its log as MySQL's has it: SQLite holds the rows, ``change`` returns what was committed.

Transactions of several statements, statements of several rows, transactions that are rolled back, rows that change often, keys that come
back after a delete, and, with ``moves``, updates of keys. The values are what breaks decoders: nulls, odd strings, numbers at their
limits, decimals, bytes.
"""

from __future__ import annotations

import datetime
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
Key = tuple[str, int]

KEYS: Final = ("shop", "id")
# Column, its type in Spark, and whether SQLite keeps it as text: it has no exact decimals and no times.
COLUMNS: Final = {
    "shop": ("string", False),
    "id": ("bigint", False),
    "name": ("string", False),
    "price": ("decimal(30,4)", True),
    "amount": ("decimal(20,0)", True),
    "at": ("timestamp_ntz", True),
    "day": ("date", True),
    "flag": ("boolean", False),
    "ratio": ("double", False),
    "raw": ("binary", False),
}
_FROM_TEXT: Final[dict[str, Callable[[Any], Any]]] = {
    "price": Decimal,
    "amount": Decimal,
    "at": datetime.datetime.fromisoformat,
    "day": datetime.date.fromisoformat,
    "flag": bool,
}
_ODD: Final = [
    "",
    "a\nb\t",
    "\x00",
    "\x01\x02",
    "\u2028",
    *[" ", "null", "NULL", "é", "日本", "🚀", "a'b", 'a"b', "a\\b", "{}", "0", "true"],
]
_SHOPS: Final = ("a", "b'", "é", "日本 ")
_EPOCH: Final = datetime.datetime.fromisoformat("1970-01-01")
_BEGIN_S: Final = 1_700_000_000
_HOT_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One entry of the log: the rows of one statement, each before and after it."""

    transaction: int
    second: int
    file: int
    offset: int
    operation: str
    rows: tuple[tuple[Row | None, Row | None], ...]


class RandomDatabase:
    """One table; ``changes`` counts the changed rows that were committed."""

    def __init__(self, path: Path, seed: int, *, moves: bool) -> None:
        self._random = random.Random(seed)
        self._moves = moves
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(
            "CREATE TABLE items (shop TEXT, id INTEGER, name TEXT, price TEXT, amount TEXT, at TEXT, day TEXT, flag INTEGER, "
            "ratio REAL, raw BLOB, PRIMARY KEY (shop, id)) WITHOUT ROWID"
        )
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}  # of each in _keys
        self._gone: list[Key] = []
        self._clock_s, self._file, self._offset = _BEGIN_S, 1, 4
        self.transactions = self.changes = 0

    def rows(self) -> dict[Key, Row]:
        """What is in the table."""
        return {(row["shop"], row["id"]): row for row in map(_row, self._database.execute("SELECT * FROM items"))}

    def change(self, count: int) -> Iterator[LogEvent]:
        """Commit transactions until at least ``count`` rows have changed; the events of each are yielded when it is committed."""
        wanted = self.changes + count
        while self.changes < wanted:
            yield from self._transaction()

    def touch(self, keys: set[Key]) -> Iterator[LogEvent]:
        """Change these rows once more, and delete those that do not exist once more."""
        present = self.rows()
        for key in sorted(keys):
            if key in present:
                yield self._commit(
                    [("update", [(present[key], self._write({**present[key], "name": "touched"}, key))])]
                )[0]
            else:
                row = self._insert(key)
                yield from self._commit([("insert", [(None, row)]), ("delete", [(self._delete(key), None)])])

    # -- transactions --------------------------------------------------------------------------------------------------------------

    def _transaction(self) -> list[LogEvent]:
        is_rolled_back = self._random.random() < 0.02
        kept = (list(self._keys), dict(self._places), list(self._gone)) if is_rolled_back else None
        self._database.execute("BEGIN")
        statements = [self._statement() for _ in range(self._random.choice((1, 1, 1, 2, 5)))]
        if kept is not None:
            self._database.execute("ROLLBACK")
            self._keys, self._places, self._gone = kept
            return []
        self._database.execute("COMMIT")
        return self._commit(statements)

    def _commit(self, statements: list[tuple[str, list[tuple[Row | None, Row | None]]]]) -> list[LogEvent]:
        self.transactions += 1
        self._clock_s += self._random.random() < 0.02
        if self._random.random() < 0.002:  # binlogs rotate between transactions
            self._file, self._offset = self._file + 1, 4
        events = []
        for operation, rows in statements:
            self._offset += self._random.randrange(40, 400)
            self.changes += len(rows)
            # A statement that took long began earlier than others that are in the log before it.
            began_s = self._clock_s - self._random.choice((0, 0, 0, 1, 7))
            events.append(LogEvent(self.transactions, began_s, self._file, self._offset, operation, tuple(rows)))
        return events

    def _statement(self) -> tuple[str, list[tuple[Row | None, Row | None]]]:
        count = self._random.choice((1, 1, 1, 1, 2, 5))
        draw = self._random.random()
        if draw < 0.35 or len(self._keys) < 100:
            return "insert", [(None, self._insert(self._new_key())) for _ in range(count)]
        if draw < 0.55:
            return "delete", [(self._delete(self._some_key()), None) for _ in range(count)]
        # INSERT ... ON DUPLICATE KEY UPDATE updates one row several times in one statement.
        keys = [self._some_key()] * count if draw < 0.6 else [self._some_key() for _ in range(count)]
        is_move = self._moves and self._random.random() < 0.2
        if is_move:
            keys = keys[:1]
        return "update", [self._update(key, self._new_key() if is_move else key) for key in keys]

    def _insert(self, key: Key) -> Row:
        self._places[key] = len(self._keys)
        self._keys.append(key)
        return self._write(self._values(key), None)

    def _delete(self, key: Key) -> Row:
        row = self._read(key)
        self._database.execute("DELETE FROM items WHERE shop = ? AND id = ?", key)
        last = self._keys.pop()
        if last != key:
            self._keys[self._places[key]] = last
            self._places[last] = self._places[key]
        del self._places[key]
        self._gone.append(key)
        return row

    def _update(self, key: Key, new: Key) -> tuple[Row, Row]:
        old = self._read(key)
        drawn = self._values(new)
        row = {name: drawn[name] if name in KEYS or self._random.random() < 0.4 else old[name] for name in old}
        if new != key:
            self._places[new] = self._places.pop(key)
            self._keys[self._places[new]] = new
            self._gone.append(key)
        return old, self._write(row, key)

    def _some_key(self) -> Key:
        return self._keys[self._random.randrange(_HOT_ROWS if self._random.random() < 0.3 else len(self._keys))]

    def _new_key(self) -> Key:
        while True:
            limits = self._random.choice(((1, 1 << 31), (-(1 << 63), (1 << 63) - 1)))
            key = (self._random.choice(_SHOPS), self._random.randint(*limits))
            if self._gone and self._random.random() < 0.5:
                key = self._gone.pop(self._random.randrange(len(self._gone)))
            if key not in self._places:
                return key

    # -- values ----------------------------------------------------------------------------------------------------------------------

    def _values(self, key: Key) -> Row:
        draw = self._random
        seconds = draw.randrange(-(1 << 32), 1 << 32)
        at = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=draw.choice((0, 1, 999_999)))
        ratios = (
            0.1,
            -0.0,
            5e-324,
            1.7976931348623157e308,
            1e16,
            1e-5,
            draw.uniform(-1e6, 1e6),
            float(draw.randrange(1 << 53)),
        )
        row = {
            "name": draw.choice(_ODD) * draw.choice((1, 1, 3)),
            "price": Decimal(f"{draw.choice((0, 1, -1, 10**30 - 1, draw.randrange(1 - 10**30, 10**30)))}e-4"),
            "amount": Decimal(draw.choice((0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, draw.randrange(1 << 64)))),
            "at": at,
            "day": at.date(),
            "flag": draw.random() < 0.5,
            "ratio": draw.choice(ratios),
            "raw": draw.randbytes(draw.choice((0, 1, 8, 40))),
        }
        row = {name: None if draw.random() < 0.1 else value for name, value in row.items()}
        return {"shop": key[0], "id": key[1], **row}

    def _read(self, key: Key) -> Row:
        return _row(self._database.execute("SELECT * FROM items WHERE shop = ? AND id = ?", key).fetchone())

    def _write(self, row: Row, over: Key | None) -> Row:
        """Insert ``row``, or put it in the place of the row ``over``."""
        values = [
            str(row[name]) if is_text and row[name] is not None else row[name] for name, (_, is_text) in COLUMNS.items()
        ]
        if over is None:
            self._database.execute(f"INSERT INTO items VALUES ({', '.join('?' * len(values))})", values)
        else:
            assigned = ", ".join(f"{name} = ?" for name in COLUMNS)
            self._database.execute(f"UPDATE items SET {assigned} WHERE shop = ? AND id = ?", [*values, *over])
        return row


def _row(values: tuple[Any, ...]) -> Row:
    named = dict(zip(COLUMNS, values, strict=True))
    return {name: value if value is None else _FROM_TEXT.get(name, _same)(value) for name, value in named.items()}


def _same(value: Any) -> Any:
    return value
