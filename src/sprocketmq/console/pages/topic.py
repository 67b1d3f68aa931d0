# SPDX-License-Identifier: Apache-2.0
"""Pages about topics: the list, and one topic with its queues, groups, new messages, and a form to send a message."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.console.pages.outcome import Outcome, body_facts, changing, outcome_response
from sprocketmq.console.pages.page import ConsoleParts, address, change_of, event_stream, given, page, parts_of
from sprocketmq.console.safety.sessions import Session
from sprocketmq.console.show.bodies import preview
from sprocketmq.console.show.values import local_time, size
from sprocketmq.core.resource_names import is_system_topic
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import TopicConfig, TopicOffset
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

_MOST_SHOWN: Final = 200
_AT_ONCE: Final = 16
_TAIL_EACH_S: Final = 1.0
_TAIL_FOR_S: Final = 900.0
_BEGIN_BEFORE: Final = 5
_MOST_A_TURN: Final = 60
_PULL: Final = 32
_MOST_TAILS: Final = 16


# -- all topics -------------------------------------------------------------------------------------------------------------------------


async def topics(request: Request) -> Response:
    parts = parts_of(request)
    wanted, with_all = request.query_params.get("q", "").strip(), "all" in request.query_params
    view, admin = parts.watcher.view, parts.cluster.admin
    if view.proxy is not None:
        why = f"the proxy at {view.proxy} lists no topics; open one by its name"
        return page(request, "topics.html", rows=[], count=0, q=wanted, with_all=with_all, missing=[why])
    names = await parts.cluster.ask("the topics", admin.topics())
    system = await parts.cluster.ask("which topics are the brokers' own", admin.system_topics())
    configs, missing = await parts.ask_masters("the topics", admin.topic_configs, limits=2)
    known = set(system.value or ())
    found = set(names.value or ()) | {name for table in configs.values() for name in table}
    shown = sorted(
        name for name in found if (with_all or not is_system_topic(name, known)) and wanted.lower() in name.lower()
    )
    stats = await _stats_of(parts, shown[:_MOST_SHOWN], configs)
    rows = [_row(name, configs, stats.get(name)) for name in shown[:_MOST_SHOWN]]
    missing += names.why
    if system.missing is not None and not with_all and not missing:
        missing.append(f"{system.missing}; so some of them may be in this list")
    return page(request, "topics.html", rows=rows, count=len(shown), q=wanted, with_all=with_all, missing=missing)


async def _stats_of(
    parts: ConsoleParts, names: list[str], configs: Mapping[str, Mapping[str, TopicConfig]]
) -> dict[str, dict[MessageQueue, TopicOffset]]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def stats_of(name: str) -> dict[MessageQueue, TopicOffset] | None:
        brokers = [broker for broker, table in configs.items() if name in table]
        async with turn:
            answers, missing = await parts.cluster.ask_each(
                name, brokers, lambda broker: parts.cluster.admin.topic_stats(name, broker=broker)
            )
        return None if missing else {queue: at for one in answers.values() for queue, at in one.items()}

    found = await asyncio.gather(*map(stats_of, names))
    return {name: one for name, one in zip(names, found, strict=True) if one is not None}


def _row(
    name: str, configs: Mapping[str, Mapping[str, TopicConfig]], stats: Mapping[MessageQueue, TopicOffset] | None
) -> dict[str, Any]:
    mine = {broker: table[name] for broker, table in configs.items() if name in table}
    perm = 7
    for config in mine.values():
        perm &= config.perm
    return {
        "topic": name,
        "brokers": sorted(mine),
        "queues": sum(one.read_queue_nums for one in mine.values()) if mine else None,
        "perm": perm if mine else None,
        "messages": held(stats) if stats is not None else None,
        "last_ms": last_ms(stats) if stats is not None else None,
    }


def held(stats: Mapping[MessageQueue, TopicOffset]) -> int:
    return sum(at.max_offset - at.min_offset for at in stats.values())


def last_ms(stats: Mapping[MessageQueue, TopicOffset]) -> int:
    return max((at.last_update_timestamp for at in stats.values()), default=0)


# -- one topic --------------------------------------------------------------------------------------------------------------------------


async def topic(request: Request) -> Response:
    name, parts = given(request, "name"), parts_of(request)
    admin = parts.cluster.admin
    route = await parts.cluster.ask(f"topic {name}", admin.route(name))
    brokers = sorted({one.broker_name for one in route.value.queue_datas}) if route.value is not None else []
    stats, missing = await parts.ask_masters("the queues", lambda one: admin.topic_stats(name, broker=one), brokers)
    gone = {one.broker_name for one in parts.watcher.view.brokers if one.absence} - set(brokers)
    missing += [f"what it has at broker {one}, which is not registered any more" for one in sorted(gone)]
    missing += route.why
    configs = await parts.cluster.ask("its attributes", admin.topic_config(name)) if brokers else None
    queues = sorted(((queue, at) for table in stats.values() for queue, at in table.items()), key=lambda pair: pair[0])
    return page(
        request,
        "topic.html",
        name=name,
        route=route.value,
        configs=configs.value if configs is not None and configs.value is not None else {},
        no_attributes=configs.missing if configs is not None else None,
        queues=queues,
        held=held(dict(queues)) if stats else None,
        last_ms=last_ms(dict(queues)) or None,
        is_whole=not missing,
        missing=missing,
        settings=sorted(route.value.queue_datas, key=lambda one: one.broker_name) if route.value is not None else [],
    )


async def topic_traffic(request: Request) -> Response:
    name, parts = given(request, "name"), parts_of(request)
    traffic = await parts.cluster.ask("rates and groups", parts.cluster.admin.topic_traffic(name), limits=3)
    rows = [one for one in traffic.value or () if one.group is not None]
    incoming = traffic.value[0] if traffic.value else None
    return page(
        request,
        "topic_traffic.html",
        rows=rows,
        incoming=incoming,
        missing=traffic.why,
    )


# -- new messages -----------------------------------------------------------------------------------------------------------------------


async def tail(request: Request) -> Response:
    name, parts = given(request, "name"), parts_of(request)
    expression = request.query_params.get("tags", "").strip() or "*"
    return event_stream(request, _Tail(parts, request.state.session, name, expression).events())


class _Tail:
    """One browser that follows one topic. It begins shortly before the end, and skips messages that arrive too fast to be read."""

    running = 0

    def __init__(self, parts: ConsoleParts, session: Session, topic: str, expression: str) -> None:
        self._parts, self._session, self._topic, self._expression = parts, session, topic, expression
        self._positions: dict[MessageQueue, int] = {}

    async def events(self) -> AsyncIterator[str]:
        if _Tail.running >= _MOST_TAILS:
            yield _event("ended", f"{_MOST_TAILS} topics are followed already; stop another one first.")
            return
        _Tail.running += 1
        try:
            async for event in self._follow():
                yield event
        finally:
            _Tail.running -= 1

    async def _follow(self) -> AsyncIterator[str]:
        parts, loop = self._parts, asyncio.get_running_loop()
        end_s = loop.time() + _TAIL_FOR_S
        queues = await parts.cluster.ask(f"topic {self._topic}", parts.cluster.admin.queues(self._topic))
        if queues.value is None:
            yield _event("ended", queues.missing or "")
            return
        missing = await self._move_to_end(queues.value, _BEGIN_BEFORE)
        yield _event("status", "; ".join(["Following.", *missing]))
        while not parts.watcher.is_closed and parts.sessions.is_open(self._session) and loop.time() < end_s:
            begun_s = loop.time()
            found, missing = await self._turn()
            if len(found) > _MOST_A_TURN:
                yield _event(
                    "status", f"Messages come faster than they can be read: {len(found) - _MOST_A_TURN} were left out."
                )
                found = found[-_MOST_A_TURN:]
            elif missing:
                yield _event("status", "; ".join(missing))
            for message in found:
                yield _event("message", json.dumps(message_line(message, parts)))
            if not found:
                yield ": still here\n\n"
            await asyncio.sleep(max(0.0, _TAIL_EACH_S - (loop.time() - begun_s)))
        yield _event("ended", "Stopped; it ends after 15 minutes, with the session, or with the console.")

    async def _move_to_end(self, queues: list[MessageQueue], before: int) -> list[str]:
        """Move to ``before`` messages before the end of each queue; return a sentence for each failed request."""
        ask, admin = self._parts.cluster.ask, self._parts.cluster.admin
        ends = await asyncio.gather(*(ask(f"queue {queue}", admin.max_offset(queue)) for queue in queues))
        for queue, end in zip(queues, ends, strict=True):
            if end.value is not None:
                self._positions[queue] = max(0, end.value - before)
        return [end.missing for end in ends if end.missing is not None]

    async def _turn(self) -> tuple[list[MessageExt], list[str]]:
        brokers = sorted({queue.broker_name for queue in self._positions})
        answers, missing = await self._parts.cluster.ask_each("new messages", brokers, self._pull)
        found = [message for messages in answers.values() for message in messages]
        counts = Counter(one.message_queue for one in found)
        behind = [queue for queue, count in counts.items() if count >= _PULL and queue in self._positions]
        if behind:
            missing += await self._move_to_end(behind, 0)
        found.sort(key=lambda one: (one.store_timestamp_ms, one.broker_name, one.commit_log_offset))
        return found, missing

    async def _pull(self, broker: str) -> list[MessageExt]:
        mine = {queue: at for queue, at in self._positions.items() if queue.broker_name == broker}
        found, behind = await self._parts.cluster.admin.read_onward(
            mine, max_messages=_PULL, expression=self._expression
        )
        self._positions.update(behind)
        return found


def message_line(message: MessageExt, parts: ConsoleParts) -> dict[str, Any]:
    mask = parts.mask
    marks = [local_time(message.store_timestamp_ms)]
    marks += [f"tag {mask.text(message.tags)}"] if message.tags else []
    marks += [f"keys {' '.join(mask.words(message.keys))}"] if message.keys else []
    return {
        "href": message_address(message),
        "place": f"{message.broker_name}/{message.queue_id} at {message.queue_offset}",
        "marks": [*marks, size(len(message.body))],
        "body": preview(message.body, mask),
    }


def message_address(message: MessageExt) -> str:
    return address(
        "/message", topic=message.topic, broker=message.broker_name, queue=message.queue_id, offset=message.queue_offset
    )


def _event(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


# -- sending ----------------------------------------------------------------------------------------------------------------------------


async def send(request: Request) -> Response:
    form = await change_of(request)
    parts = parts_of(request)
    fields = {name: str(form.get(name, "")) for name in ("topic", "body", "tags", "keys", "sharding_key", "properties")}
    body = fields["body"].replace("\r\n", "\n").encode()
    facts = {"topic": fields["topic"], **body_facts(body)}
    try:
        message = Message(
            fields["topic"],
            body,
            tags=fields["tags"].strip() or None,
            keys=fields["keys"].split() or None,
            properties=_properties(fields["properties"]),
        )
    except ConfigurationError as error:
        return outcome_response(request, [Outcome(False, "Nothing was sent", str(error))])

    async def carry_out() -> str:
        producer: AsyncProducer = await parts.cluster.producer()
        sent = await producer.send(message, sharding_key=fields["sharding_key"].strip() or None)
        queue = sent.message_queue
        return f"stored in {queue} at offset {sent.queue_offset} ({sent.status}), id {sent.message_id}"

    return outcome_response(request, [await changing(request, "send", carry_out, **facts)])


def _properties(text: str) -> dict[str, str] | None:
    """The properties in lines of NAME=VALUE. Raises ConfigurationError for another line."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not (name.strip() and equals):
            raise ConfigurationError(f"a property is {line!r}; NAME=VALUE, one a line, is allowed")
        found[name.strip()] = value
    return found or None
