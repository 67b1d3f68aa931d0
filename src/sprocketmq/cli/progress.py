"""``sprocketmq lag GROUP`` and ``sprocketmq topics``: what the cluster has and how far groups are, as a table or as JSON."""

from __future__ import annotations

import json

from sprocketmq.client.admin import Admin
from sprocketmq.errors import ConfigurationError, TopicNotExist
from sprocketmq.logs import escaped

__all__ = ["show_lag", "show_topics"]


def show_lag(group: str, namesrv_addr: str, *, as_json: bool = False) -> None:
    """Print progress and lag of ``group`` per queue, and the sum.

    Raises:
        ConfigurationError: no broker knows progress of such a group.
        NetworkError, RequestTimeout, RemoteError: the cluster cannot be asked.
    """
    with Admin(namesrv_addr=namesrv_addr) as admin:
        progress = admin.consumer_progress(group)
    if not progress:
        raise ConfigurationError(
            f"group {group!r} has no progress on any broker of {namesrv_addr}; check its spelling, or let it consume first"
        )
    total = sum(queue.lag for queue in progress.values())
    if as_json:
        queues = [
            {
                "topic": queue.topic,
                "broker_name": queue.broker_name,
                "queue_id": queue.queue_id,
                "broker_offset": at.broker_offset,
                "consumer_offset": at.consumer_offset,
                "lag": at.lag,
            }
            for queue, at in progress.items()
        ]
        print(json.dumps({"group": group, "lag": total, "queues": queues}))
        return
    rows = [
        [
            queue.topic,
            queue.broker_name,
            str(queue.queue_id),
            f"{at.broker_offset:,}",
            f"{at.consumer_offset:,}",
            f"{at.lag:,}",
        ]
        for queue, at in progress.items()
    ]
    _print_table(["topic", "broker", "queue", "broker offset", "consumer offset", "lag"], rows, text_columns=2)
    print(f"lag of {group}: {total:,}")


def show_topics(namesrv_addr: str, *, as_json: bool = False) -> None:
    """Print every topic that the name server knows, with its readable queues and the messages in them.

    Raises:
        NetworkError, RequestTimeout, RemoteError: the cluster cannot be asked.
    """
    found: dict[str, tuple[int, int]] = {}
    with Admin(namesrv_addr=namesrv_addr) as admin:
        for topic in admin.topics():
            try:
                stats = admin.topic_stats(topic)
            except TopicNotExist:  # deleted meanwhile, or a name without queues, such as the cluster's own
                continue
            found[topic] = (len(stats), sum(offsets.max_offset - offsets.min_offset for offsets in stats.values()))
    if as_json:
        print(
            json.dumps(
                [{"topic": topic, "queues": queues, "messages": held} for topic, (queues, held) in found.items()]
            )
        )
        return
    rows = [[topic, f"{queues:,}", f"{held:,}"] for topic, (queues, held) in found.items()]
    _print_table(["topic", "queues", "messages"], rows, text_columns=1)


def _print_table(head: list[str], rows: list[list[str]], text_columns: int) -> None:
    """Columns of even width, the first ``text_columns`` to the left and numbers to the right: plain text, for eyes and for awk."""
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        cells = (
            cell.ljust(width) if column < text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
