# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq group members | stack | doctor``: members that are online, their threads' stacks, and why the group makes no progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.output import Column, Output, note
from sprocketmq.cli.frame.target import Target, group_argument
from sprocketmq.cli.frame.values import DURATION
from sprocketmq.cli.frame.verbs import reads
from sprocketmq.core.resource_names import is_system_group
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestNotServed, RequestTimeout
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.core.doctor.group_doctor import HeadMessage
    from sprocketmq.wire.bodies import ConsumerRunningInfo

_VERSION: Final = "PROP_CLIENT_VERSION"
_DIAGNOSED_AT_ONCE: Final = 16


@click.command()
@group_argument(metavar="GROUP")
@reads
def members(target: Target, output: Output, group: str) -> None:
    """List the members that are online, and their queues."""
    with target.admin() as admin:
        known = admin.consumer_connection(group)
        if known is None:
            output.rows((), [], empty=_nobody(admin, group))
            return
        rows = []
        for one in sorted(known.connection_set, key=lambda one: one.client_id):
            info, why = _info(admin, group, one.client_id, jstack=False)
            rows.append(
                {
                    "client_id": one.client_id,
                    "address": one.client_addr,
                    "language": one.language,
                    "version": info.properties.get(_VERSION) if info else None,
                    "queues": sorted(str(queue) for queue in info.mq_table) if info else None,
                    "queue_count": len(info.mq_table) if info else None,
                    "cached": sum(queue.cached_msg_count for queue in info.mq_table.values()) if info else None,
                    "topics": sorted(one.topic for one in info.subscription_set) if info else None,
                    "unavailable_because": why,
                }
            )
    output.rows(_MEMBERS, rows)
    for why in sorted({str(row["unavailable_because"]) for row in rows if row["unavailable_because"] is not None}):
        note(f"sprocketmq: what members do is not known: {why}")


_MEMBERS: Final = (
    Column("client id", "client_id"),
    Column("address"),
    Column("language"),
    Column("version"),
    Column("queues", "queue_count"),
    Column("cached"),
    Column("topics", wide=True),
    Column("which queues", "queues", wide=True),
)


def _nobody(admin: Admin, group: str) -> str:
    proxy = admin.proxy()
    if proxy is None:
        return f"no member of group {group} is online"
    return f"no member of group {group} is connected to the proxy at {proxy}, which does not see others"


def _info(admin: Admin, group: str, client_id: str, *, jstack: bool) -> tuple[ConsumerRunningInfo | None, str | None]:
    """The running info of a member, or why there is none: some clients of other languages do not answer, or it has just left."""
    try:
        return admin.running_info(group, client_id, jstack=jstack), None
    except RequestNotServed as error:
        if jstack:
            raise
        return None, str(error)
    except (RemoteError, NetworkError, RequestTimeout) as error:
        return None, str(error)


@click.command()
@group_argument(metavar="GROUP")
@click.argument("client_id", metavar="[CLIENT_ID]", required=False)
@reads
def stack(target: Target, output: Output, group: str, client_id: str | None) -> None:
    """Print the stacks of the members' threads."""
    with target.admin() as admin:
        ids = admin.consumer_ids(group)
        nobody = "" if ids else _nobody(admin, group)
        if client_id is not None and client_id not in ids:
            raise ConfigurationError(
                f"no member {client_id!r} of group {group!r} is online; these are: {', '.join(ids) or 'none'}"
            )
        found: list[dict[str, Any]] = []
        for one in [client_id] if client_id is not None else ids:
            info, why = _info(admin, group, one, jstack=True)
            found.append({"client_id": one, "stack": info.jstack if info else None, "unavailable_because": why})
    if output.is_json or not found:
        output.rows((), found, empty=nobody)
        return
    for row in found:
        print(escaped(f"-- {row['client_id']}"))
        if row["stack"] is None:
            note(
                f"sprocketmq: {row['client_id']} sent no stacks: {row['unavailable_because'] or 'its client has none'}"
            )
            continue
        for line in row["stack"].splitlines():
            print(escaped(line))


def _head(head: HeadMessage | None) -> dict[str, Any] | None:
    if head is None:
        return None
    queue = head.queue
    return {
        "topic": queue.topic,
        "broker_name": queue.broker_name,
        "queue_id": queue.queue_id,
        "offset": head.offset,
        "keys": list(head.keys),
        "message_id": head.message_id,
    }


@click.command()
@group_argument(metavar="GROUP", required=False)
@click.option("--all", "of_all", is_flag=True, help="One line for each group.")
@click.option(
    "--stuck-after",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long a listener call may take before it counts as stuck.",
)
@click.option(
    "--watch-for", type=DURATION, default="2s", show_default=True, help="How long to watch whether progress changes."
)
@reads
def doctor(target: Target, output: Output, group: str | None, of_all: bool, stuck_after: int, watch_for: int) -> None:
    """Find out why a group makes no progress, or all groups.

    Prints one verdict, its evidence and what to do, and changes nothing. Exit code 0 if the group makes progress or has nothing to consume,
    1 if something is wrong, or if there is not enough evidence.
    """
    if of_all == (group is not None):
        raise ConfigurationError("give one of the two: a group, or --all")
    with target.admin() as admin:
        if group is None:
            _diagnose_all(admin, output, stuck_after, watch_for)
            return
        found = admin.diagnose_group(group, stuck_after_ms=stuck_after, watch_ms=watch_for)
    if output.is_json:
        facts = {
            "group": group,
            "verdict": found.verdict.value,
            "is_well": found.verdict.is_well,
            "sentence": found.sentence,
            "evidence": list(found.evidence),
            "advice": found.advice or None,
            "caught_up_ms": found.caught_up_ms,
            "head": _head(found.head),
            "retries_waiting": found.retries_waiting,
            "not_learned": list(found.not_learned),
        }
        output.record((), facts)
    else:
        print(escaped(f"{found.verdict.value}: {found.sentence}"))
        for line in found.evidence:
            print(escaped(f"  {line}"))
        for line in found.not_learned:
            print(escaped(f"  not known: {line}"))
        if found.advice:
            print(escaped(f"what to do: {found.advice}"))
    if not found.verdict.is_well:
        sys.exit(1)


def _diagnose_all(admin: Admin, output: Output, stuck_after_ms: int, watch_ms: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def diagnose(name: str) -> dict[str, Any]:
        found = admin.diagnose_group(name, stuck_after_ms=stuck_after_ms, watch_ms=watch_ms)
        verdict = found.verdict
        return {"group": name, "verdict": verdict.value, "is_well": verdict.is_well, "sentence": found.sentence}

    names = [name for name in admin.groups() if not is_system_group(name)]
    with ThreadPoolExecutor(_DIAGNOSED_AT_ONCE) as threads:
        rows = sorted(threads.map(diagnose, names), key=lambda row: (row["is_well"], row["group"]))
    output.rows((Column("group"), Column("verdict"), Column("sentence")), rows, empty="no groups")
    if not all(row["is_well"] for row in rows):
        sys.exit(1)
