"""``sprocketmq dead-letters list | show | replay GROUP``: what a group gave up, one by one, and back to where it came from."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, Final

from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage
from sprocketmq.client.dead_letters.dead_letters import DeadLetters
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.logs import escaped

__all__ = ["list_letters", "replay_letters", "show_letter", "time_ms"]

_SHOWN_BODY: Final = 2_000
_EVERY: Final = 1_000


def time_ms(text: str | None) -> int | None:
    """``2026-11-22T08:30:00`` (local time unless it names a zone), or milliseconds since 1970.

    Raises:
        ConfigurationError: neither.
    """
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as error:
        raise ConfigurationError(
            f"the time is {text!r}; 2026-11-22, 2026-11-22T08:30:00 or milliseconds since 1970 are allowed"
        ) from error


def list_letters(
    group: str, namesrv_addr: str, *, limit: int, as_json: bool, where: dict[str, Any], **access: Any
) -> None:
    """Print the dead letters that fit, oldest first, one line each (or one JSON object per line), at most ``limit``."""
    shown = 0
    more = False
    with DeadLetters(group, namesrv_addr=namesrv_addr, **access) as letters:
        for letter in letters.read(**where):
            if shown == limit:
                more = True
                break
            shown += 1
            print(json.dumps(_as_dict(letter)) if as_json else escaped(_line(letter)))
        held = letters.count()
    if not as_json:
        print(
            f"{shown:,} shown, group {group} has {held:,} dead letters" + (", give --limit to see more" if more else "")
        )


def show_letter(group: str, message_id: str, namesrv_addr: str, *, as_json: bool, body: bool, **access: Any) -> None:
    """Print all of one dead letter; with ``body`` only its body, byte for byte.

    Raises:
        ConfigurationError: there is no such letter.
    """
    with DeadLetters(group, namesrv_addr=namesrv_addr, **access) as letters:
        letter = letters.get(message_id)
    message = letter.message
    if body:
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
        return
    if as_json:
        text = message.body.decode("utf-8", "backslashreplace")
        print(json.dumps({**_as_dict(letter), "properties": message.properties, "body": text}))
        return
    rows = [
        ("message id", letter.message_id),
        ("from topic", letter.origin_topic or "unknown"),
        ("dead since", _time(letter.dead_since_ms)),
        ("first sent", f"{_time(message.born_timestamp_ms)} by {message.born_host}"),
        ("deliveries", str(letter.deliveries)),
        ("tags", message.tags or ""),
        ("keys", " ".join(message.keys)),
        ("first copy", letter.origin_offset_message_id or ""),
        ("this copy", f"{message.offset_message_id} ({message.message_queue} offset {message.queue_offset})"),
        *(("property", f"{name}={value}") for name, value in sorted(message.properties.items())),
        ("body", f"{len(message.body):,} bytes"),
    ]
    for name, value in rows:
        print(escaped(f"{name:<11} {value}".rstrip()))
    print(_readable(message.body))


def replay_letters(
    group: str,
    message_ids: tuple[str, ...],
    namesrv_addr: str,
    *,
    everything: bool,
    to_topic: str | None,
    dry_run: bool,
    as_json: bool,
    where: dict[str, Any],
    **access: Any,
) -> int:
    """Send letters again to the topic they came from: those named, or with conditions or ``everything`` all that fit.

    Returns:
        The exit code: 1 when one could not be sent; those behind it were not tried then.

    Raises:
        ConfigurationError: nothing, or both ids and conditions, are given; or an id is unknown (nothing is sent then).
    """
    conditions = any(value is not None for value in where.values())
    if message_ids and (everything or conditions):
        raise ConfigurationError("message ids and conditions are given; name letters, or describe them")
    if not message_ids and not everything and not conditions:
        raise ConfigurationError("which letters? name their message ids, give conditions such as --topic, or --all")
    with DeadLetters(group, namesrv_addr=namesrv_addr, **access) as letters:
        chosen = [letters.get(message_id) for message_id in message_ids] if message_ids else letters.read(**where)
        done = 0
        for letter in chosen:
            try:
                target = letter.origin_topic if dry_run else letters.replay(letter, topic=to_topic).message_queue
            except RocketMQError as error:
                said = f"sprocketmq: {letter.message_id} was not sent, nor what is behind it: {error}"
                print(escaped(said), file=sys.stderr)
                _say(done, dry_run, as_json)
                return 1
            done += 1
            if as_json:
                print(json.dumps({"message_id": letter.message_id, "to": str(to_topic or target)}))
            elif message_ids or dry_run or done % _EVERY == 0:
                print(escaped(f"{letter.message_id} -> {to_topic or target}"))
    _say(done, dry_run, as_json)
    return 0


def _say(done: int, dry_run: bool, as_json: bool) -> None:
    if not as_json:
        print(f"{done:,} would be replayed" if dry_run else f"{done:,} replayed; the letters themselves stay")


def _line(letter: DeadLetterMessage) -> str:
    message = letter.message
    tags_and_keys = " ".join(
        [f"tags={message.tags}"] * bool(message.tags) + [f"keys={','.join(message.keys)}"] * bool(message.keys)
    )
    return (
        f"{letter.message_id}  {_time(letter.dead_since_ms)}  {letter.origin_topic or '?'}  "
        f"{letter.deliveries} tries  {len(message.body):,} bytes  {tags_and_keys}"
    ).rstrip()


def _as_dict(letter: DeadLetterMessage) -> dict[str, object]:
    message = letter.message
    return {
        "message_id": letter.message_id,
        "topic": letter.origin_topic,
        "dead_since_ms": letter.dead_since_ms,
        "born_timestamp_ms": message.born_timestamp_ms,
        "deliveries": letter.deliveries,
        "tags": message.tags,
        "keys": message.keys,
        "body_bytes": len(message.body),
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "offset_message_id": message.offset_message_id,
    }


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(timespec="seconds")


def _readable(body: bytes) -> str:
    """Text as it is, without what would steer a terminal; anything else as its repr."""
    head = body[:_SHOWN_BODY]
    try:
        text = head.decode()
    except UnicodeDecodeError:
        text = repr(head)
    text = "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)
    return text + (
        f"\n... {len(body) - _SHOWN_BODY:,} bytes more, --body writes all" if len(body) > _SHOWN_BODY else ""
    )
