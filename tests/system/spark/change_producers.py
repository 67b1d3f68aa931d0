# SPDX-License-Identifier: Apache-2.0
"""A database's log as messages: what Canal and Debezium Server write, in their order, to their queues, with their crashes.

Fields and order are those of ``FlatMessage``, ``MQMessageUtils`` and ``CanalRocketMQProducer`` (alibaba/canal), and of Debezium's MySQL and
PostgreSQL connectors and ``RocketMqChangeConsumer`` (debezium/debezium-server).

- Both send in batches, and after a crash begin again at an earlier place: events come twice. Canal counts its batches from 1 then.
- Canal sends each queue's part of a batch by itself: a crash leaves any prefix of each. Debezium sends all events of a batch at once, so
  those of one key may change places.
- Now and then a body is damaged on its way (``bad``). The rows that it was about are in ``damaged``.
"""

from __future__ import annotations

import base64
import datetime
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import sprocketmq as rmq
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records.message import MessageQueue
from system.spark.random_database import COLUMNS, KEYS, Key, LogEvent, RandomDatabase, Row

TOPIC: Final = "changes"
BAD: Final = "BAD"
_EPOCH: Final = datetime.datetime.fromisoformat("1970-01-01")
_WIDE: Final = Context(prec=60)


@dataclass
class Sent:
    """One message to come: the event, and the rows that it is about."""

    event: dict[str, Any]
    rows: set[Key]
    queue: MessageQueue | None = None
    key: str | None = None


class ChangeProducer:
    """What both have in common. ``send``: the log from where the producer is to its end; ``bodies`` are damaged while ``damages``."""

    def __init__(self, namesrv_addr: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._producer = rmq.Producer("changes", namesrv_addr=namesrv_addr, retry_times_when_send_failed=0)
        self._log: list[Any] = []
        self._at = 0
        self.damaged: set[Key] = set()
        self.damages = True
        self.crashes = self.repeated = self.sent = 0

    def start(self) -> None:
        self._producer.start()
        self._queues = self._producer.publish_queues(TOPIC)

    def shutdown(self) -> None:
        self._producer.shutdown()

    def send(self, events: Iterable[LogEvent]) -> None:
        for event in events:
            self._log.extend(self._entries(event))
        while self._at < len(self._log):
            batch = self._log[self._at : self._at + self._random.randint(1, self._batch_size)]
            is_crash = self._random.random() < 0.01
            try:
                self._send_batch(batch, is_crash)
            except (
                rmq.NetworkError,
                rmq.RemoteError,
            ):  # the broker is away; the batch is sent again, whatever of it is stored
                time.sleep(0.1)
                continue
            self._at += len(batch)
            if is_crash:
                back = min(self._at, len(batch) + self._random.randint(0, 5 * self._batch_size))
                self._at -= back
                self.crashes += 1
                self.repeated += back
                self._start_again()

    # -- what differs ----------------------------------------------------------------------------------------------------------------

    _batch_size = 50

    def _entries(self, event: LogEvent) -> Iterator[Any]:
        yield event

    def _send_batch(self, batch: list[Any], is_crash: bool) -> None:
        raise NotImplementedError

    def _start_again(self) -> None:
        pass

    def _row_of(self, event: dict[str, Any]) -> Row:
        """A row in ``event`` that can be damaged."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------------------------------------

    def _message(self, sent: Sent) -> rmq.Message:
        self.sent += 1
        body = json.dumps(sent.event, ensure_ascii=False).encode()
        message = rmq.Message(TOPIC, body, keys=sent.key)
        if sent.rows and self.damages and self._random.random() < 0.003:
            message.body = self._damaged(sent.event, body)
            message.properties[BAD] = "1"
            self.damaged |= sent.rows
        return message

    def _damaged(self, event: dict[str, Any], body: bytes) -> bytes:
        at = self._random.randrange(1, len(body))
        kind = self._random.randrange(4)
        if kind == 0:
            return body[:at]
        if kind == 1:
            return body[:at] + b"\xff" + body[at:]
        event = json.loads(body)
        row = self._row_of(event)
        if kind == 2:
            row["day"] = "tomorrow"
        else:
            del row["id"]
        return json.dumps(event).encode()


def _keys_of(*rows: Row | None) -> set[Key]:
    return {(row["shop"], row["id"]) for row in rows if row is not None}


# -- Canal -----------------------------------------------------------------------------------------------------------------------------


class Canal(ChangeProducer):
    """``gtids``: canal.instance.gtidon. ``by_key``: canal.mq.partitionHash says ``$pk$``; otherwise all of a table is in one queue."""

    def __init__(self, namesrv_addr: str, seed: int, *, gtids: bool, by_key: bool) -> None:
        super().__init__(namesrv_addr, seed)
        self._gtids, self._by_key = gtids, by_key
        self._id = 1

    def _send_batch(self, batch: list[LogEvent], is_crash: bool) -> None:
        parts: dict[int, list[Sent]] = {}
        for event in batch:
            flat = self._flat(event)
            if self._random.random() < 0.005:
                ddl = {
                    **flat,
                    "type": "ALTER",
                    "isDdl": True,
                    "data": None,
                    "old": None,
                    "sql": "ALTER TABLE items ADD x INT",
                }
                parts.setdefault(0, []).append(Sent(ddl, set()))
            for queue, rows in self._partitioned(event).items():
                old = [flat["old"][n] for n in rows] if flat["old"] is not None else None
                part = {**flat, "data": [flat["data"][n] for n in rows], "old": old}
                parts.setdefault(queue, []).append(Sent(part, _keys_of(*(row for n in rows for row in event.rows[n]))))
        for queue, sent in parts.items():
            if is_crash:
                del sent[self._random.randint(0, len(sent)) :]
            if sent:
                self._producer.send_batch([self._message(one) for one in sent], queue=self._queues[queue])
        self._id += 1

    def _start_again(self) -> None:
        self._id = 1  # MemoryMetaManager

    def _row_of(self, event: dict[str, Any]) -> Row:
        return self._random.choice(event["data"])

    def _partitioned(self, event: LogEvent) -> dict[int, list[int]]:
        """MQMessageUtils.messagePartition: of a changed key it takes the new one."""
        queues: dict[int, list[int]] = {}
        for number, (before, after) in enumerate(event.rows):
            hashed = java_hash("items")
            if self._by_key:
                row = after or before
                assert row is not None
                hashed = 0
                for name in KEYS:
                    hashed ^= java_hash(str(row[name]))
            queues.setdefault(abs(hashed) % len(self._queues), []).append(number)
        return queues

    def _flat(self, event: LogEvent) -> dict[str, Any]:
        updated: set[str] = set()  # grows from row to row, as there
        old = []
        for before, after in event.rows:
            if before is not None and after is not None:
                updated |= {name for name in COLUMNS if before[name] != after[name]}
                old.append({name: _canal_text(before[name]) for name in COLUMNS if name in updated})
        return {
            "data": [
                {name: _canal_text(value) for name, value in (after or before or {}).items()}
                for before, after in event.rows
            ],
            "database": "shop",
            "es": event.second * 1000,
            "gtid": f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{event.transaction}" if self._gtids else "",
            "id": self._id,
            "isDdl": False,
            "mysqlType": dict(_MYSQL_TYPES),
            "old": old or None,
            "pkNames": list(KEYS),
            "sql": "",
            "sqlType": dict.fromkeys(_MYSQL_TYPES, 12),
            "table": "items",
            "ts": int(time.time() * 1000),
            "type": event.operation.upper(),
        }


_MYSQL_TYPES: Final = {
    "shop": "varchar(20)", "id": "bigint", "name": "varchar(100)", "price": "decimal(30,4)", "amount": "bigint unsigned",
    "at": "datetime(6)", "day": "date", "flag": "tinyint(1)", "ratio": "double", "raw": "varbinary(100)",
}  # fmt: skip


def _canal_text(value: Any) -> str | None:
    """LogEventConvert: String.valueOf, BigDecimal.toPlainString, bytes as ISO-8859-1."""
    match value:
        case None:
            return None
        case bool():
            return str(int(value))
        case bytes():
            return value.decode("latin-1")
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value).replace("e+", "E").replace("e", "E")
        case _:
            return str(value)


# -- Debezium --------------------------------------------------------------------------------------------------------------------------


class Debezium(ChangeProducer):
    """Debezium Server with its sink for RocketMQ, ``tombstones.on.delete=false``. ``connector``: mysql or postgresql; the latter with
    REPLICA IDENTITY DEFAULT, whose updates and deletes do not have the row before."""

    _batch_size = 200

    def __init__(self, namesrv_addr: str, seed: int, *, connector: str) -> None:
        super().__init__(namesrv_addr, seed)
        self._connector = connector
        self._lsn = 1 << 40

    def snapshot(self, database: RandomDatabase) -> None:
        """What is there at the beginning comes first."""
        for row in database.rows().values():
            self._log.append(self._sent("r", None, row, self._source(0, 1, 4, 0) | {"snapshot": "true"}))

    def _entries(self, event: LogEvent) -> Iterator[Sent]:
        for number, (before, after) in enumerate(event.rows):
            source = self._source(event.second, event.file, event.offset, number)
            is_whole = self._connector == "mysql"
            if before is not None and after is not None and _keys_of(before) != _keys_of(after):
                yield self._sent("d", before if is_whole else _only_key(before), None, source)
                yield self._sent("c", None, after, source)
            elif after is None:
                assert before is not None
                yield self._sent("d", before if is_whole else _only_key(before), None, source)
            else:
                yield self._sent("c" if before is None else "u", before if is_whole else None, after, source)

    def _send_batch(self, batch: list[Sent], is_crash: bool) -> None:
        batch = list(batch)
        for at in range(0, len(batch), 8):  # as threads of the sender happen to come by
            near = batch[at : at + 8]
            self._random.shuffle(near)
            batch[at : at + 8] = near
        if is_crash:
            batch = [sent for sent in batch if self._random.random() < 0.5]
        for sent in batch:
            self._producer.send(self._message(sent), sharding_key=sent.key)
            if self._random.random() < 0.002:
                beat = Sent({"schema": None, "payload": {"ts_ms": int(time.time() * 1000)}}, set(), key="heartbeat")
                self._producer.send(self._message(beat), sharding_key=beat.key)

    def _row_of(self, event: dict[str, Any]) -> Row:
        payload = event["payload"]
        row: Row = payload["after"] or payload["before"]
        return row

    def _source(self, second: int, file: int, offset: int, row: int) -> dict[str, Any]:
        common = {
            "version": "3.1.0.Final",
            "connector": self._connector,
            "name": "shop",
            "ts_ms": second * 1000,
            "snapshot": "false",
        }
        common |= {"db": "shop", "sequence": None, "table": "items"}
        if self._connector == "mysql":
            binlog = {"file": f"mysql-bin.{file:06}", "pos": offset, "row": row, "thread": 7, "query": None}
            return common | {"server_id": 1, "gtid": None, **binlog}
        self._lsn += 8
        return common | {"schema": "public", "txId": 7, "lsn": self._lsn, "xmin": None}

    def _sent(self, op: str, before: Row | None, after: Row | None, source: dict[str, Any]) -> Sent:
        rows = _keys_of(before, after)
        (key,) = rows
        sides = {"before": _debezium_row(before), "after": _debezium_row(after)}
        payload = {**sides, "source": source, "transaction": None, "op": op, "ts_ms": int(time.time() * 1000)}
        key_schema = {"type": "struct", "fields": _FIELDS[:2], "optional": False, "name": "shop.shop.items.Key"}
        key_text = json.dumps({"schema": key_schema, "payload": dict(zip(KEYS, key, strict=True))})
        return Sent({"schema": _ENVELOPE, "payload": payload}, rows, key=key_text)


def _only_key(row: Row) -> Row:
    return {name: value if name in KEYS else None for name, value in row.items()}


_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_FIELDS: Final[list[dict[str, Any]]] = [
    {"type": "string", "optional": False, "field": "shop"},
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
    {"type": "bytes", "optional": True, "name": _DECIMAL, "version": 1, "parameters": {"scale": "4"}, "field": "price"},
    {"type": "bytes", "optional": True, "name": _DECIMAL, "version": 1, "parameters": {"scale": "0"}, "field": "amount"},
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "at"},
    {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1, "field": "day"},
    {"type": "boolean", "optional": True, "field": "flag"},
    {"type": "double", "optional": True, "field": "ratio"},
    {"type": "bytes", "optional": True, "field": "raw"},
]  # fmt: skip
_SIDE: Final = {"type": "struct", "fields": _FIELDS, "optional": True, "name": "shop.shop.items.Value"}
_ENVELOPE: Final = {
    "type": "struct",
    "fields": [
        {**_SIDE, "field": "before"},
        {**_SIDE, "field": "after"},
        {"type": "struct", "fields": [], "optional": False, "name": "io.debezium.connector.Source", "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
    "optional": False,
    "name": "shop.shop.items.Envelope",
}


def _debezium_row(row: Row | None) -> Row | None:
    return (
        None
        if row is None
        else {name: None if value is None else _DEBEZIUM.get(name, _same)(value) for name, value in row.items()}
    )


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _unscaled(scale: int) -> Callable[[Decimal], str]:
    """BigInteger.toByteArray of the unscaled value."""

    def written(value: Decimal) -> str:
        number = int(value.scaleb(scale, _WIDE))
        length = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return _base64(number.to_bytes(length, "big", signed=True))

    return written


def _same(value: Any) -> Any:
    return value


_DEBEZIUM: Final[dict[str, Callable[[Any], Any]]] = {
    "price": _unscaled(4),
    "amount": _unscaled(0),
    "at": lambda at: (at - _EPOCH) // datetime.timedelta(microseconds=1),
    "day": lambda day: (day - _EPOCH.date()).days,
    "raw": _base64,
}
