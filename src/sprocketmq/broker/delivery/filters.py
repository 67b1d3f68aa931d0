# SPDX-License-Identifier: Apache-2.0
"""Filters of consumer groups other than tags, one per group and topic (Java: ConsumerFilterManager, ExpressionMessageFilter).

1. A filter is replaced only by one of a higher version; the same version only revives a dead filter.
2. An expression that cannot be compiled removes the former filter: pulls are answered with FILTER_DATA_NOT_EXIST, never unfiltered.
3. The filter of a topic is dead as soon as the group's heartbeat does not name the topic any more; it stays for 24 h, because pulls
   may be on their way.
4. Each text is compiled once, also if it is refused, because heartbeats repeat every 30 s.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from msgspec import Struct

from sprocketmq.broker.tables.table_file import TableFile
from sprocketmq.core.group.subscription import SQL92, is_tag_type
from sprocketmq.core.sql92 import Predicate, compile_sql92
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.net.process.clock import Clock
from sprocketmq.store import MessageStore, ReadStatus
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.troubles import Troubles
from sprocketmq.wire.bodies import (
    ConsumerFilterData,
    ConsumerFilterWrapper,
    FilterDataMapByTopic,
    SubscriptionData,
)
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.properties import RETRY_TOPIC, get_property
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.record_layout import HOSTS_V6, MAGIC_V1, PROPERTIES_LENGTH, RECORD, TOPIC_LENGTH_V1

log = logging.getLogger("sprocketmq.broker")

_FIXED: Final = RECORD.subset("magic", "sys_flag", "body_length")
_LENGTHS_BYTES: Final = TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
_TIME_SLICE_S: Final = 0.01
# Expressions come from the network, so the cache is limited. A character of the most expensive ones takes some 200 bytes compiled.
_MAX_COMPILED: Final = 1024
_MAX_COMPILED_LENGTH: Final = 128 * 1024
_MAX_FILTERS_LENGTH: Final = 512 * 1024  # of all groups together
# Java: what was alive when the file was written is taken as dead half a minute before it is read.
_DEAD_BEFORE_LOAD_MS: Final = 30_000


class PullFilter(NamedTuple):
    """``match`` checks the tags code of a queue entry, ``match_record`` the bytes of the record; None lets everything pass."""

    match: Callable[[int], bool] | None = None
    match_record: Callable[[memoryview], bool] | None = None

    def within_time_slice(self) -> Callable[[memoryview], bool | None] | None:
        """``match_record`` for one read: of the first record, and of further ones for ``_TIME_SLICE_S``; then None. A long expression takes
        milliseconds for each record."""
        match_record = self.match_record
        if match_record is None:
            return None
        ends_s = 0.0

        def match_in_time(record: memoryview) -> bool | None:
            nonlocal ends_s
            now_s = perf_counter()
            if not ends_s:
                ends_s = now_s + _TIME_SLICE_S
            return match_record(record) if now_s < ends_s else None

        return match_in_time


NO_FILTER: Final = PullFilter()


class ConsumerFilter(Struct):
    data: ConsumerFilterData
    predicate: Predicate
    wanted: PullFilter

    @property
    def is_dead(self) -> bool:
        return self.data.dead_time >= self.data.born_time


class FilterTable:
    """A part of the broker, which reads and writes ``consumerFilter.json``."""

    def __init__(
        self, clock: Clock, root: Path | None, max_filters: int = 2_000, troubles: Troubles | None = None
    ) -> None:
        self._clock, self._max_filters, self._troubles = clock, max_filters, troubles or Troubles(log)
        self._on_disk = ConfigFile(None if root is None else root / "config" / "consumerFilter.json")
        self._file = TableFile(self._on_disk, lambda: self.content().encode(), troubles=self._troubles)
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._compiled: dict[tuple[str, str], Predicate | str] = {}  # a text is the reason of a refusal
        self._compiled_length = 0
        self._dirty = False

    async def start(self) -> None:
        content = self._on_disk.load(ConsumerFilterWrapper.decode, key="filterDataByTopic")
        if content is not None:
            self.load(content)

    async def stop(self) -> None:
        self.save()
        self._file.close()

    # -- what consumers say ------------------------------------------------------------------------------------------------------

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        named: dict[str, SubscriptionData] = {}
        for subscription in subscriptions:  # for one topic the newest counts
            other = named.get(subscription.topic)
            if other is None or other.sub_version < subscription.sub_version:
                named[subscription.topic] = subscription
        for subscription in named.values():
            if _is_filter(subscription):
                self._register(group, subscription, now_ms)
        for topic, known in self._by_group.get(group, {}).items():
            if topic not in named and not known.is_dead:  # rule 3
                known.data.dead_time = now_ms
                self._dirty = True

    def restore(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        """A subscription counts again, although the filter here has a higher version: the members with that one have left."""
        if self.get(group, subscription.topic) is not None:
            del self._by_group[group][subscription.topic]
            self._dirty = True
        if _is_filter(subscription):
            self._register(group, subscription, now_ms)
        elif not self._by_group.get(group, True):
            del self._by_group[group]

    def unregister(self, group: str, now_ms: int) -> None:
        self.register(group, (), now_ms)

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def _length(self) -> int:
        """Number of characters of all expressions; computed only for new texts, like the number of filters."""
        return sum(
            len(known.data.expression or "") for filters in self._by_group.values() for known in filters.values()
        )

    def get(self, group: str, topic: str) -> ConsumerFilter | None:
        filters = self._by_group.get(group)
        return None if filters is None else filters.get(topic)

    def compiled(self, expression_type: str | None, expression: str | None) -> Predicate:
        """The predicate of an expression. Raises ConfigurationError (the expression or its type is not known)."""
        key = (expression_type or "", expression or "")
        known = self._compiled.get(key)
        if known is None:
            try:
                if expression_type != SQL92:
                    raise ConfigurationError(f"the expression type is {expression_type!r}, TAG and SQL92 are allowed")
                known = compile_sql92(key[1])
            except ConfigurationError as error:
                known = str(error)  # not the error itself, which refers to the frames of the parser
            length = len(key[1])
            if len(self._compiled) >= _MAX_COMPILED or self._compiled_length + length > _MAX_COMPILED_LENGTH:
                self._compiled.clear()
                self._compiled_length = 0
            self._compiled[key] = known
            self._compiled_length += length
        if isinstance(known, str):
            raise ConfigurationError(known)
        return known

    def wanted_in_retry_topic(self, group: str) -> PullFilter:
        """With ``filterSupportRetry``: check a retry copy with the filter of its original topic. Java: ExpressionForRetryMessageFilter."""

        def match_record(record: memoryview) -> bool:
            raw = raw_properties(record)
            origin = self.get(group, get_property(raw, RETRY_TOPIC) or "")
            return origin is None or origin.predicate(raw)

        return PullFilter(None, match_record)

    def _register(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        topic, expression, version = subscription.topic, subscription.sub_string, subscription.sub_version
        filters = self._by_group.setdefault(group, {})
        old = filters.get(topic)
        if old is not None:
            data = old.data
            if version < data.client_version or (version == data.client_version and not old.is_dead):  # rule 1
                return
            same = (data.expression, data.expression_type) == (expression, subscription.expression_type)
            if same or version == data.client_version:
                data.client_version, data.dead_time = version, 0
                self._dirty = True
                return
        try:
            if old is None and len(self) >= self._max_filters:
                raise ConfigurationError(f"there are {len(self)} filters, no more are allowed; raise maxFilters")
            length = len(expression) - (0 if old is None else len(old.data.expression or ""))
            if self._length() + length > _MAX_FILTERS_LENGTH:
                raise ConfigurationError(
                    f"the filters of all groups would have more than {_MAX_FILTERS_LENGTH} characters; shorten them"
                )
            predicate = self.compiled(subscription.expression_type, expression)
        except ConfigurationError as error:  # rule 2
            sentence = "the filter of group %s for topic %s is not accepted: %s"
            self._troubles.failed("filters", sentence, group, topic, error, of=group)
            if filters.pop(topic, None) is not None:
                self._dirty = True
        else:
            data = ConsumerFilterData(
                consumer_group=group,
                topic=topic,
                expression=expression,
                expression_type=subscription.expression_type,
                born_time=now_ms,
                client_version=version,
            )
            filters[topic] = ConsumerFilter(data, predicate, record_filter(predicate))
            self._dirty = True
            log.info("group %s filters topic %s by %r", group, topic, expression)
        if not filters:
            del self._by_group[group]

    # -- time and disk -----------------------------------------------------------------------------------------------------------

    def clean(self, now_ms: int, dead_for_ms: int) -> None:
        for group in list(self._by_group):
            filters = self._by_group[group]
            for topic, known in list(filters.items()):
                if known.is_dead and now_ms - known.data.dead_time >= dead_for_ms:
                    del filters[topic]
                    self._dirty = True
            if not filters:
                del self._by_group[group]
        self.save()

    def save(self) -> None:
        self._file.retry()
        if self._dirty:
            self._dirty = False
            self._file.changed()

    def load(self, content: ConsumerFilterWrapper) -> None:
        """Load ``consumerFilter.json``. All filters are dead until their groups come back; those that cannot be compiled are left out."""
        now_ms = self._clock.now_ms()
        for topic, by_group in content.filter_data_by_topic.items():
            for group, data in by_group.group_filter_data.items():
                if self.get(group, topic) is not None:  # a heartbeat came before the file was loaded
                    continue
                try:
                    predicate = self.compiled(data.expression_type, data.expression)
                except ConfigurationError as error:
                    log.warning("the stored filter of group %s for topic %s is left out: %s", group, topic, error)
                    continue
                if data.dead_time == 0:
                    data.dead_time = max(data.born_time, now_ms - _DEAD_BEFORE_LOAD_MS)
                self._by_group.setdefault(group, {})[topic] = ConsumerFilter(data, predicate, record_filter(predicate))

    def content(self) -> ConsumerFilterWrapper:
        by_topic: dict[str, FilterDataMapByTopic] = {}
        for group, filters in self._by_group.items():
            for topic, known in filters.items():
                of_topic = by_topic.setdefault(topic, FilterDataMapByTopic(topic=topic))
                of_topic.group_filter_data[group] = known.data
        return ConsumerFilterWrapper(filter_data_by_topic=by_topic)

    def check_invariants(self) -> None:
        for group, filters in self._by_group.items():
            assert filters, f"group {group} is kept without a filter"
            for topic, known in filters.items():
                assert (known.data.consumer_group, known.data.topic) == (group, topic), "a filter lies in a wrong place"
                assert known.wanted.match_record is not None, "a filter lets everything pass"


def _is_filter(subscription: SubscriptionData) -> bool:
    return not is_tag_type(subscription.expression_type) and bool(subscription.sub_string)


def record_filter(predicate: Predicate) -> PullFilter:
    """A check whether a record's properties fulfil ``predicate``. A record that cannot be read passes, as without a filter."""

    def match_record(record: memoryview) -> bool:
        try:
            return predicate(raw_properties(record))
        except ProtocolError:
            return True

    return PullFilter(None, match_record)


def raw_properties(record: memoryview) -> bytes:
    """The properties of a whole record as text, the common form first. Raises ProtocolError (it is not a whole record)."""
    try:
        magic, sys_flag, body_bytes = _FIXED.unpack_from(record)
        if magic == MAGIC_V1 and not sys_flag & HOSTS_V6 and body_bytes >= 0:
            topic_at = RECORD.size + body_bytes
            # Behind the topic and the properties' own length.
            return bytes(record[topic_at + _LENGTHS_BYTES + record[topic_at] :])
    except (IndexError, struct.error):
        pass
    return RecordView(record).raw_properties


class ArrivalProbe:
    """Whether arrived messages wake a parked pull with a filter on records. It reads on from the last record that did not match, so each is
    checked once (Java: NotifyMessageArrivingListener passes the properties; here nothing is added to a send)."""

    __slots__ = ("_header", "_offset", "_store", "_wanted")

    def __init__(self, store: MessageStore, header: PullMessageRequestHeader, wanted: PullFilter) -> None:
        self._store, self._header, self._wanted = store, header, wanted
        self._offset = header.queue_offset

    def __call__(self, tags_code: int) -> bool:
        header, wanted = self._header, self._wanted
        match_record = wanted.within_time_slice()
        found = self._store.read(header.topic, header.queue_id, self._offset, 1, 1, wanted.match, match_record)
        if found.status is ReadStatus.OFFSET_OVERFLOW_ONE:
            return False  # checked already: several codes arrived in one turn of the loop
        if found.status is not ReadStatus.NO_MATCHED_MESSAGE:
            return True  # found, or not to be checked by this probe
        self._offset = found.next_offset
        return found.next_offset < found.max_offset  # the scan limit was reached: report progress to the client
