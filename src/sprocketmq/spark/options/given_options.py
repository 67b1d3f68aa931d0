# SPDX-License-Identifier: Apache-2.0
"""The options that the user gave, under their documented spelling, and the conversion of each kind of value. Every error is one sentence:
the option, its value, what is allowed (as in ``option_table``), and a suggestion."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NoReturn

from sprocketmq.core.resource_names import NAME_PATTERN
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_value
from sprocketmq.spark.options.option_table import OPTION_OF, SECRETS

# Spark adds these itself: load(path), a stream's checkpoint, and the reserved properties of a catalog table (TableCatalog)
SPARK_OPTIONS: Final = (
    "path", "checkpointLocation", "queryName",
    "serialization.format", "provider", "owner", "comment", "location", "external", "is_managed_location", "collation",
)  # fmt: skip
# A catalog repeats a table's options under this prefix; an option that is given directly wins.
CATALOG_PREFIX: Final = "option."

_NAMES: Final = {name.lower(): name for name in (*OPTION_OF, *SPARK_OPTIONS)}
# Names of the same options elsewhere (Spark's Kafka source, RocketMQ's Flink connector and Java clients) that difflib would not find.
_NAMES_ELSEWHERE: Final = {
    "subscribe": "topic", "subscribepattern": "topicsPattern",
    "kafka.bootstrap.servers": "namesrvAddr", "bootstrap.servers": "namesrvAddr",
    "nameserver": "namesrvAddr", "nameserveraddress": "namesrvAddr", "endpoints": "namesrvAddr", "brokers": "namesrvAddr",
    "kafka.group.id": "group", "groupidprefix": "group", "consumergroup": "group", "producergroup": "group",
    "includeheaders": "includeProperties", "headers": "properties", "value": "body", "partition": "queueId",
    "offset": "queueOffset", "key": "keys", "tag": "tags", "sql": "sql92",
    "kafka.max.request.size": "maxMessageBytes", "maxmessagesize": "maxMessageBytes",
    "kafka.compression.type": "compressType", "compression": "compressType", "compressmsgbodyoverhowmuch": "compressOverBytes",
    "kafka.request.timeout.ms": "sendTimeoutMs", "kafka.delivery.timeout.ms": "retryTimeoutMs", "sendmsgtimeout": "sendTimeoutMs",
    "retrytimeswhensendfailed": "retryTimeoutMs", "kafka.retries": "retryTimeoutMs", "fetchoffset.numretries": "retryTimeoutMs",
    "kafkaconsumer.polltimeoutms": "pullTimeoutMs", "kafka.max.poll.records": "pullBatchSize", "pullbatchsizeinbytes": "pullBatchSize",
}  # fmt: skip
# Options of other connectors that do not exist here, and what to use instead.
_INSTEAD: Final = {
    "assign": "a read takes all queues of its topics: write topic, and startingOffsets for where each queue begins",
    "namespace": "write the names of topic and group as brokers know them, with the namespace in front: namespace%topic",
    "kafka.auto.offset.reset": "write startingOffsets",
    "kafka.isolation.level": "leave it out: a broker shows no message before its commit",
}
# The same for all that begin with a prefix; the first that fits counts.
_INSTEAD_OF_ALL: Final = {
    "kafka.security.": "write tls and the options beside it, accessKey and secretKey",
    "kafka.ssl.": "write tls and the options beside it",
    "kafka.sasl.": "write accessKey, and secretKey or secretKeyFile",
    "kafka.": "Kafka's client has this setting; leave it out, or look for it among the options",
}
_ADDRESS: Final = re.compile(r"[^\s/]+:[0-9]{1,9}")
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)?")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}
# A thousand years, and the last millisecond of the year 9999: larger values are typing errors.
_LONGEST_MS: Final = 365_000 * 86_400_000
_LAST_MS: Final = 253_402_300_799_999


class GivenOptions:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        self._of_table = any(key.lower().startswith(CATALOG_PREFIX) for key in options)
        for key, value in sorted(options.items(), key=lambda item: not item[0].lower().startswith(CATALOG_PREFIX)):
            name = _NAMES.get(key.lower().removeprefix(CATALOG_PREFIX))
            if name is None:
                raise _unknown(key[len(CATALOG_PREFIX) :] if key.lower().startswith(CATALOG_PREFIX) else key)
            self._values[name] = plain_value(value)

    def __str__(self) -> str:
        """As in an OPTIONS clause of SQL."""
        return ", ".join(f"{name} '{value}'" for name, value in sorted(self._values.items()) if name in OPTION_OF)

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def refuse(self, name: str, allowed: str | None = None) -> NoReturn:
        """Raise ConfigurationError for the value of ``name``. ``allowed`` replaces the table's text where less is allowed."""
        row = OPTION_OF.get(name)
        value = self._values.get(name, "")
        near = difflib.get_close_matches(value.strip(), row.choices, 1) if row is not None else []
        shown = "not shown" if name in SECRETS else repr(value)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(
            f"{name} is {shown}; allowed is {allowed or (row.allowed if row is not None else '')}{hint}"
        )

    def refuse_other_side(self, side: Literal["read", "write"]) -> None:
        """Refuse options of the other side, which would have no effect. The options of a table may be of both sides."""
        strange = [name for name in self._values if name in OPTION_OF and OPTION_OF[name].side not in (side, "both")]
        if strange and not self._of_table:
            here, there = ("a read", "writing") if side == "read" else ("a write", "reading")
            raise ConfigurationError(f"{strange[0]} is given for {here} and is an option of {there}; leave it out")

    def refuse_unused(self, names: Iterable[str], without: str, remedy: str) -> None:
        """Refuse the first of ``names`` that is given: without another option it would have no effect."""
        found = next((name for name in names if self.has(name)), None)
        if found is not None:
            raise ConfigurationError(f"{found} is given {without}; {remedy}, or leave {found} out")

    def one_of(self, names: Sequence[str]) -> str | None:
        """The one of ``names`` that is given, or None. Raises ConfigurationError if several are given."""
        found = [name for name in names if self.has(name)]
        if len(found) > 1:
            raise ConfigurationError(f"{' and '.join(found)} are both given; keep one of them")
        return found[0] if found else None

    def namesrv_addr(self) -> str:
        text = (self.text("namesrvAddr") or os.environ.get("NAMESRV_ADDR") or "").strip()
        if not text:
            raise ConfigurationError(
                'no name server is given; add .option("namesrvAddr", "host:9876") or set NAMESRV_ADDR on the driver'
            )
        for address in text.replace(",", ";").split(";"):
            if not _ADDRESS.fullmatch(address.strip()) or not 0 < int(address.rpartition(":")[2]) < 65_536:
                raise ConfigurationError(f"namesrvAddr is {text!r}; allowed is host:port, several separated by ;")
        return text.replace(",", ";")

    def name(self, name: str, default: str) -> str:
        text = self._values.get(name, default).strip()
        if (text or name in self._values) and (not NAME_PATTERN.fullmatch(text) or len(text) > 127):
            self.refuse(name)
        return text

    def choice(self, name: str, default: str | None = None) -> str:
        """One of the table's words, in the table's spelling. ``default`` replaces the table's where it depends on other options."""
        row = OPTION_OF[name]
        text = self._values.get(name, default or row.default).strip().lower()
        found = next((word for word in row.choices if word.lower() == text), None)
        if found is None:
            self.refuse(name)
        return found

    def flag(self, name: str) -> bool:
        return self.choice(name) == "true"

    def tags(self) -> str:
        """The tag expression. An expression that names no tag is refused: some brokers would read it as all tags, others refuse it."""
        text = self._values.get("tags", "*").strip()
        if not any(tag.strip() for tag in text.split("||")):
            self.refuse("tags")
        return text

    def count(self, name: str) -> int | None:
        """A whole number; the table's default if that is a number, otherwise None."""
        row = OPTION_OF[name]
        text = self._values.get(name, row.default if row.default.isdecimal() else None)
        if text is None:
            return None
        text = text.strip()
        if not text.isdecimal() or not 0 < int(text) <= row.at_most:
            self.refuse(name)
        return int(text)

    def duration_ms(self, name: str) -> int:
        match = _DURATION.fullmatch(self._values.get(name, OPTION_OF[name].default).strip().lower())
        ms = int(match[1]) * _UNIT_MS[match[2]] if match is not None else 0
        if not 0 < ms <= _LONGEST_MS:
            self.refuse(name)
        return ms

    def timestamp_ms(self, name: str) -> int:
        text = self._values.get(name, "").strip()
        ms = int(text) if text.isdecimal() else _moment_ms(text)
        if ms is None or not 0 <= ms <= _LAST_MS:
            self.refuse(name)
        if text.isdecimal():
            from sprocketmq.client.settings.validators import check_time_ms  # few give times

            check_time_ms(name, ms, or_zero=True)
        return ms


def _unknown(key: str) -> ConfigurationError:
    word = key.lower()
    known = _INSTEAD.get(word)
    if known is None and (near := our_name_for(word, OPTION_OF)) is not None:
        known = f"did you mean {near}?"
    if known is None:
        known = next((what for prefix, what in _INSTEAD_OF_ALL.items() if word.startswith(prefix)), None)
    if known is None:
        near = next((_NAMES[close] for close in difflib.get_close_matches(word, _NAMES, 1)), None)
        known = f"did you mean {near}?" if near else f"known are {', '.join(sorted(OPTION_OF))}"
    return ConfigurationError(f"option {key!r} is unknown to the rocketmq data source; {known}")


def _moment_ms(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return int(moment.timestamp() * 1000) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def our_name_for(word: str, known: Container[str]) -> str | None:
    """The option or column that is called ``word`` in other connectors, if it is among ``known``."""
    ours = _NAMES_ELSEWHERE.get(word.lower())
    return ours if ours is not None and ours in known else None
