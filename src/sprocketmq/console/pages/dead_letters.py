# SPDX-License-Identifier: Apache-2.0
"""Pages about dead letters: groups with dead letters and their reasons, one letter with an editor for its body, and sending them again.

A dry run makes the same checks and sends nothing. Each letter has its own result; a failure does not stop the others. A form is sent once,
however often its button is pressed. A body that was not edited is sent byte for byte as it is stored.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.client.dead_letters.async_dead_letters import AsyncDeadLetters
from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage
from sprocketmq.console.pages.message import place_of, shown_body_async, stored_at
from sprocketmq.console.pages.outcome import Outcome, body_facts, changing, outcome_response
from sprocketmq.console.pages.page import ConsoleParts, Refused, change_of, form_of, given, page, parts_of
from sprocketmq.console.pages.topic import held, last_ms, message_address
from sprocketmq.console.show.bodies import MOST_EDITED_BYTES, editable_text, edited_body, preview
from sprocketmq.console.show.values import number, whole_number
from sprocketmq.core.resource_names import DLQ_PREFIX, dlq_topic
from sprocketmq.errors import ConfigurationError, RocketMQError, TopicNotExist
from sprocketmq.wire.bodies import TopicOffset
from sprocketmq.wire.records.message import MessageQueue

_MOST_SHOWN: Final = 200
_MOST_SELECTED: Final = 200


# -- reading ---------------------------------------------------------------------------------------------------------------------


async def dead_letters(request: Request) -> Response:
    if "group" in request.query_params:
        return await _letters_of(request, given(request, "group"))
    parts = parts_of(request)
    proxy = parts.watcher.view.proxy
    if proxy is not None:
        why = f"the proxy at {proxy} does not tell which groups have dead letters; open a group by its name"
        return page(request, "dead_letters.html", rows=[], missing=[why])
    names = await parts.cluster.ask("the topics", parts.cluster.admin.topics())
    groups = [name.removeprefix(DLQ_PREFIX) for name in names.value or () if name.startswith(DLQ_PREFIX)]
    turn = asyncio.Semaphore(8)

    async def row_of(group: str) -> dict[str, Any]:
        async with turn:
            stats, missing = await _stats(parts, group)
        return {"group": group, "held": held(stats), "last_ms": last_ms(stats) or None, "missing": missing}

    rows = await asyncio.gather(*map(row_of, groups))
    shown = sorted((row for row in rows if row["held"] or row["missing"]), key=lambda row: -row["held"])
    missing = sorted({why for row in rows for why in row["missing"]})
    return page(request, "dead_letters.html", rows=shown, missing=[*names.why, *missing])


async def _stats(parts: ConsoleParts, group: str) -> tuple[dict[MessageQueue, TopicOffset], list[str]]:
    topic, admin = dlq_topic(group), parts.cluster.admin

    async def brokers() -> list[str]:
        try:
            return sorted({one.broker_name for one in (await admin.route(topic)).queue_datas})
        except TopicNotExist:  # the group has had no dead letter
            return []

    found = await parts.cluster.ask(f"the dead letters of {group}", brokers())
    answers, missing = await parts.ask_masters(
        "dead letters", lambda broker: admin.topic_stats(topic, broker=broker), found.value or []
    )
    return {queue: at for table in answers.values() for queue, at in table.items()}, [*missing, *found.why]


async def _letters_of(request: Request, group: str) -> Response:
    parts = parts_of(request)
    reason = request.query_params.get("reason", "")
    topic = request.query_params.get("topic", "").strip()
    key = request.query_params.get("key", "").strip()
    stats, missing = await _stats(parts, group)
    count = held(stats)
    read: list[dict[str, Any]] = []

    async def newest() -> None:
        begin = {queue: max(at.min_offset, at.max_offset - _MOST_SHOWN) for queue, at in stats.items()}
        async with parts.cluster.dead_letters(group) as letters:
            async for letter in letters.read(start_offsets=begin, topic=topic or None, key=key or None):
                # Keep only the row: two hundred bodies of 4 MB would need too much memory.
                row = _row(letter, parts)
                read.append(row)

    if count or not missing:
        done = await parts.cluster.ask("the dead letters", newest(), limits=3)
        missing += [f"{done.missing}; those that were read until then are shown"] if done.missing is not None else []
    read.sort(key=lambda row: -row["dead_since_ms"])
    reasons = Counter(row["reason"] for row in read)
    shown = [row for row in read if not reason or row["reason"] == reason][:_MOST_SHOWN]
    return page(
        request,
        "dead_letters_group.html",
        once=secrets.token_urlsafe(9),
        group=group,
        held=count if stats or not missing else None,
        read=len(read),
        rows=shown,
        reasons=reasons.most_common(),
        reason=reason,
        topic=topic,
        key=key,
        missing=missing,
        most=_MOST_SHOWN,
    )


def _reason(letter: DeadLetterMessage, parts: ConsoleParts) -> str:
    return parts.mask.text(letter.reason) if letter.reason else "no reason given"


def _row(letter: DeadLetterMessage, parts: ConsoleParts) -> dict[str, Any]:
    message, mask = letter.message, parts.mask
    return {
        "id": f"{message.broker_name}/{message.queue_id}/{message.queue_offset}",
        "message_id": letter.message_id,
        "href": message_address(message).replace("/message?", "/dead-letter?", 1),
        "dead_since_ms": letter.dead_since_ms,
        "topic": letter.origin_topic,
        "reason": _reason(letter, parts),
        "tries": letter.deliveries,
        "keys": mask.words(message.keys),
        "size": len(message.body),
        "body": preview(message.body, mask),
    }


async def dead_letter(request: Request) -> Response:
    parts = parts_of(request)
    queue, offset = place_of(request)
    if not queue.topic.startswith(DLQ_PREFIX):
        raise Refused(404, "There is no such page", f"Topic {queue.topic} holds no dead letters.")
    message = await stored_at(parts, queue, offset)
    letter = DeadLetterMessage(message)
    text, why_not = editable_text(message.body, parts.mask)
    return page(
        request,
        "dead_letter.html",
        once=secrets.token_urlsafe(9),
        group=queue.topic.removeprefix(DLQ_PREFIX),
        letter=letter,
        row=_row(letter, parts),
        message=message,
        message_href=message_address(message),
        properties=sorted(parts.mask.properties(message.properties).items()),
        body=await shown_body_async(message.body, None, parts),
        text=text,
        why_not=why_not,
    )


# -- sending again ---------------------------------------------------------------------------------------------------------------


async def replay(request: Request) -> Response:
    dry_run = "dry_run" in (await form_of(request))
    form = await (form_of(request) if dry_run else change_of(request))
    parts = parts_of(request)
    group, to_topic = str(form.get("group", "")), str(form.get("to_topic", "")).strip() or None
    once = str(form.get("once", ""))
    if not dry_run and once in request.state.session.sent_forms:
        sentence = "This form was sent before, and its letters with it. Load the page again to send them once more."
        raise Refused(409, "It was not sent again", sentence)
    places = list(dict.fromkeys(str(one) for one in form.getlist("letter")))
    if not places:
        return outcome_response(request, [Outcome(False, "Nothing was sent", "no letter is selected")])
    if len(places) > _MOST_SELECTED:
        sentence = f"{len(places)} letters are selected; {_MOST_SELECTED} at once are allowed"
        return outcome_response(request, [Outcome(False, "Nothing was sent", sentence)])
    outcomes: list[Outcome] = []
    if not dry_run and once:
        request.state.session.sent_forms.append(once)  # before anything is awaited: a second press comes meanwhile
    try:
        async with parts.cluster.dead_letters(group) as letters:
            outcomes += [await _send_again(request, form, letters, place, to_topic, dry_run) for place in places]
    except RocketMQError as error:
        outcomes.append(Outcome(False, "Nothing was sent", str(error)))
    return outcome_response(request, outcomes, dry_run=dry_run)


async def _send_again(
    request: Request, form: FormData, letters: AsyncDeadLetters, place: str, to_topic: str | None, dry_run: bool
) -> Outcome:
    parts = parts_of(request)
    try:
        letter = await _letter_at(parts, letters.topic, place)
        is_edited = _edit(letter, form, parts)
        target = to_topic or letter.origin_topic
        if target is None:
            raise ConfigurationError("it does not name the topic it came from; give a topic to send it to")
        route = await parts.cluster.ask(f"topic {target}", parts.cluster.admin.route(target))
        if route.missing is not None:
            raise ConfigurationError(f"it cannot be sent: {route.missing}")
    except Refused as error:
        return Outcome(False, place, error.sentence)
    except RocketMQError as error:
        return Outcome(False, place, str(error))
    what = letter.message_id
    body = letter.message.body
    if dry_run:
        edited = ", with the edited body" if is_edited else ""
        return Outcome(True, what, f"would be sent to {target}, {number(len(body))} bytes{edited}")

    async def carry_out() -> str:
        sent = await letters.replay(letter, topic=to_topic)
        return f"sent to {sent.message_queue} at offset {sent.queue_offset}; the letter itself stays"

    facts = {"letter": place, "message_id": what, "to": target, "edited": is_edited, **body_facts(body)}
    return await changing(request, "replay", carry_out, what=what, **facts)


async def _letter_at(parts: ConsoleParts, topic: str, place: str) -> DeadLetterMessage:
    broker_and_queue, _, offset = place.rpartition("/")
    broker, _, queue = broker_and_queue.rpartition("/")
    queue_id, at = whole_number(queue), whole_number(offset)
    if not broker or queue_id is None or at is None:
        raise Refused(400, "There is no such letter", f"{place} is no place of a letter")
    return DeadLetterMessage(await stored_at(parts, MessageQueue(topic, broker, queue_id), at))


def _edit(letter: DeadLetterMessage, form: FormData, parts: ConsoleParts) -> bool:
    """Returns whether the body changed."""
    submitted = form.get("body")
    if not isinstance(submitted, str):
        return False
    message = letter.message
    text, why_not = editable_text(message.body, parts.mask)
    if text is None:
        raise ConfigurationError(f"its body cannot be changed here: {why_not}")
    body = edited_body(message.body, submitted)
    if len(body) > MOST_EDITED_BYTES:
        raise ConfigurationError(f"the edited body has {len(body):,} bytes; {MOST_EDITED_BYTES:,} are allowed here")
    if body == message.body:
        return False
    message.body = body
    return True
