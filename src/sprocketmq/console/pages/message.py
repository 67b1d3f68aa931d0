# SPDX-License-Identifier: Apache-2.0
"""Pages about messages: search by id, key or time, and one message with its place, consumers, retries, dead letter, trace and body."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.client.admin import TrackType
from sprocketmq.console.cluster import Known
from sprocketmq.console.pages.page import ConsoleParts, Refused, given, page, parts_of
from sprocketmq.console.pages.topic import message_address, message_line
from sprocketmq.console.show.bodies import FORMS, ShownBody, shown_body
from sprocketmq.console.show.values import moment_ms, whole_number
from sprocketmq.core.resource_names import dlq_topic, retry_topic
from sprocketmq.errors import ConfigurationError, TopicNotExist
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue

_MOST_FOUND: Final = 64
_LARGE: Final = 64 << 10
_MOST_GROUPS: Final = 24
_TRACKS: Final = {
    TrackType.CONSUMED: "consumed: the group is past it",
    TrackType.CONSUMED_BUT_FILTERED: "left out: the group is past it, and its filter does not want it",
    TrackType.PULL: "a pull consumer; only its application knows",
    TrackType.NOT_CONSUME_YET: "not consumed yet",
    TrackType.NOT_ONLINE: "no member is online",
    TrackType.CONSUME_BROADCASTING: "broadcasting: each member keeps its own progress",
}

_STEPS: Final = {
    "Pub": "sent",
    "SubBefore": "a listener began",
    "SubAfter": "the listener ended",
    "EndTransaction": "its transaction ended",
    "Recall": "taken back",
}


# -- finding ------------------------------------------------------------------------------------------------------------------------------


async def messages(request: Request) -> Response:
    parts = parts_of(request)
    topic = request.query_params.get("topic", "").strip()
    wanted = request.query_params.get("q", "").strip()
    by, place = request.query_params.get("by", "id"), request.query_params.get("queue", "").strip()
    found: list[MessageExt] = []
    missing: list[str] = []
    if wanted:
        found, missing = await _find(parts, topic, wanted, by, place)
    lines = [message_line(one, parts) for one in found]
    return page(request, "messages.html", topic=topic, q=wanted, by=by, queue=place, lines=lines, missing=missing)


async def _find(
    parts: ConsoleParts, topic: str, wanted: str, by: str, place: str
) -> tuple[list[MessageExt], list[str]]:
    admin, ask = parts.cluster.admin, parts.cluster.ask
    if by == "id":
        stored = await _stored_copy(parts, wanted)
        if stored is not None:
            return [stored], []
    if not topic:
        return [], ["the topic is missing; it is needed for keys, times and the id that a producer got"]
    broker, _, number = place.rpartition("/")
    queue_id = whole_number(number)
    queue = MessageQueue(topic, broker, queue_id) if broker and queue_id is not None else None
    if place and queue is None:
        return [], [f"the queue is {place!r}; BROKER/NUMBER, as in broker-a/3, is allowed"]
    if by == "offset":
        return await _from_offset(parts, queue, wanted)
    if by == "time":
        return await _stored_from(parts, topic, wanted, queue)
    route = await ask(f"topic {topic}", admin.route(topic))
    if route.value is None:
        return [], [route.missing or ""]
    brokers = sorted({one.broker_name for one in route.value.broker_datas})
    if by == "key":
        answers, missing = await parts.cluster.ask_each(
            "the search",
            brokers,
            lambda one: admin.messages_by_key(topic, wanted, max_messages=_MOST_FOUND, broker=one),
            limits=2,
        )
    else:
        answers, missing = await parts.cluster.ask_each(
            "the search", brokers, lambda one: admin.messages_by_unique_key(topic, wanted, broker=one), limits=2
        )
    found = [one for answer in answers.values() for one in answer]
    found.sort(key=lambda one: (one.store_timestamp_ms, one.broker_name, one.commit_log_offset))
    return found[-_MOST_FOUND:], missing


async def _from_offset(
    parts: ConsoleParts, queue: MessageQueue | None, offset: str
) -> tuple[list[MessageExt], list[str]]:
    begin = whole_number(offset)
    if queue is None or begin is None:
        return [], ["an offset is a number, and needs the queue, as in broker-a/3"]
    read = parts.cluster.admin.read_messages(queue, begin, max_messages=_MOST_FOUND)
    found = await parts.cluster.ask(f"queue {queue}", read, limits=2)
    return found.value or [], found.why


async def _stored_from(
    parts: ConsoleParts, topic: str, time: str, queue: MessageQueue | None
) -> tuple[list[MessageExt], list[str]]:
    admin, ask = parts.cluster.admin, parts.cluster.ask
    time_ms = moment_ms(time)
    if time_ms is None:
        return [], [f"the time is {time!r}; 2026-11-22T08:30 or milliseconds since 1970 are allowed"]
    queues = Known([queue]) if queue is not None else await ask(f"topic {topic}", admin.queues(topic))

    async def read(queue: MessageQueue, from_ms: int) -> list[MessageExt]:
        begin = await admin.offset_by_time(queue, from_ms)
        found = await admin.read_messages(queue, begin, max_messages=_MOST_FOUND)
        return [
            one for one in found if one.store_timestamp_ms >= from_ms
        ]  # 4.9 answers with the newest message if there is none

    answers = await asyncio.gather(
        *(ask(f"the search in queue {one}", read(one, time_ms), limits=4) for one in queues.value or ())
    )
    found = [one for answer in answers for one in answer.value or ()]
    found.sort(key=lambda one: (one.store_timestamp_ms, one.broker_name, one.commit_log_offset))
    return found[:_MOST_FOUND], queues.why + [why for answer in answers for why in answer.why]


async def _stored_copy(parts: ConsoleParts, message_id: str) -> MessageExt | None:
    """The copy with an offset message id, if its address is a broker of this cluster. No request is sent to other addresses."""
    try:
        asked, _ = parts.cluster.admin.decode_message_id(message_id)
    except ConfigurationError:
        return None
    broker = next((one.broker_name for one in parts.watcher.view.brokers if one.address == asked), None)
    if broker is None:
        return None
    found = await parts.cluster.ask("the stored copy", parts.cluster.admin.view_message(message_id))
    if found.value is not None:
        found.value.broker_name = broker  # the answer does not contain the name
    return found.value


# -- one message --------------------------------------------------------------------------------------------------------------------------


def place_of(request: Request) -> tuple[MessageQueue, int]:
    queue, offset = whole_number(given(request, "queue")), whole_number(given(request, "offset"))
    if queue is None or offset is None:
        raise Refused(404, "There is no such page", "Queue and offset are numbers.")
    return MessageQueue(given(request, "topic"), given(request, "broker"), queue), offset


async def stored_at(parts: ConsoleParts, queue: MessageQueue, offset: int) -> MessageExt:
    """The message at an offset. Raises Refused: it does not exist, or the broker did not answer."""
    found = await parts.cluster.ask(f"the message at {queue}", parts.cluster.admin.message_at(queue, offset), limits=2)
    if found.missing is not None:
        raise Refused(504, "The message could not be read", found.missing)
    if found.value is None:
        raise Refused(
            404,
            "There is no such message",
            f"Queue {queue} has none at offset {offset}; it may be older than brokers keep messages.",
        )
    return found.value


async def shown_body_async(body: bytes, form: str | None, parts: ConsoleParts) -> ShownBody:
    """``shown_body``; on a thread for a large body, because a broker may run on this loop."""
    if len(body) > _LARGE:
        return await asyncio.to_thread(shown_body, body, form, parts.mask)
    return shown_body(body, form, parts.mask)


async def message(request: Request) -> Response:
    parts = parts_of(request)
    queue, offset = place_of(request)
    form = request.query_params.get("form")
    found = await stored_at(parts, queue, offset)
    mask = parts.mask
    return page(
        request,
        "message.html",
        message=found,
        href=message_address(found),
        body=await shown_body_async(found.body, form if form in FORMS else None, parts),
        forms=FORMS,
        tags=mask.text(found.tags) if found.tags else None,
        keys=mask.words(found.keys),
        mine=sorted(
            mask.properties({k: v for k, v in found.properties.items() if k not in props.OF_ONE_MESSAGE}).items()
        ),
        system=sorted(
            mask.properties({k: v for k, v in found.properties.items() if k in props.OF_ONE_MESSAGE}).items()
        ),
    )


async def message_body(request: Request) -> Response:
    parts = parts_of(request)
    queue, offset = place_of(request)
    found = await stored_at(parts, queue, offset)
    masked = await asyncio.to_thread(parts.mask.body, found.body)
    return Response(
        masked,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="message-{queue.queue_id}-{offset}.bin"'},
    )


# -- what became of it ----------------------------------------------------------------------------------------------------


async def message_fate(request: Request) -> Response:
    parts = parts_of(request)
    queue, offset = place_of(request)
    found = await stored_at(parts, queue, offset)
    admin, ask, message_id = parts.cluster.admin, parts.cluster.ask, found.message_id
    tracks, copies, trace = await asyncio.gather(
        ask("who consumed it", admin.message_track(found), limits=3),
        ask("its copies", admin.messages_by_unique_key(queue.topic, message_id), limits=2),
        ask("its trace", _trace(parts, message_id), limits=2),
    )
    names = [one.group for one in tracks.value or ()][:_MOST_GROUPS]
    later = await asyncio.gather(*(_retries_and_dead_letters(parts, name, message_id) for name in names))
    missing = tracks.why + copies.why + trace.why + [why for _, whys in later for why in whys]
    rows = [
        {
            "group": one.group,
            "track": _TRACKS.get(one.track_type, "unknown"),
            "copies": next((rows for name, (rows, _) in zip(names, later, strict=True) if name == one.group), []),
        }
        for one in tracks.value or ()
    ]
    return page(
        request,
        "message_fate.html",
        topic=queue.topic,
        rows=rows,
        tracked=tracks.is_known,
        copies=[message_line(one, parts) for one in copies.value or ()],
        trace=trace.value,
        steps=_STEPS,
        missing=missing,
    )


async def _trace(parts: ConsoleParts, message_id: str) -> list[Any]:
    try:
        return list(await parts.cluster.admin.message_trace(message_id))
    except TopicNotExist:  # no client has sent a trace message yet
        return []


async def _retries_and_dead_letters(
    parts: ConsoleParts, group: str, message_id: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The copies of a message in the retry topic and in the dead letters of a group, and a sentence for each failed request."""
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for kind, topic in (("retry", retry_topic(group)), ("dead letter", dlq_topic(group))):

        async def search(topic: str = topic) -> list[MessageExt]:
            try:
                return await parts.cluster.admin.messages_by_unique_key(topic, message_id)
            except TopicNotExist:  # the group has never used this topic
                return []

        found = await parts.cluster.ask(f"copies in {topic}", search(), limits=2)
        missing += found.why
        for one in found.value or ():
            reason = one.properties.get(props.RETRY_REASON)
            rows.append(
                {
                    "kind": kind,
                    "tries": one.reconsume_times,
                    "href": message_address(one),
                    "at_ms": one.store_timestamp_ms,
                    "reason": parts.mask.text(reason) if reason else None,
                }
            )
    return rows, missing
