# SPDX-License-Identifier: Apache-2.0
"""The state of a broker, with the keys of both generations (Java: prepareRuntimeInfo, StoreStatsService). mqadmin needs all keys, so parts
that do not exist here have the values of an idle broker. Gaps: distributions and maxima of response times."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import KVTable
from sprocketmq.wire.codes import ANNOUNCED_VERSION
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_NO_TRANSIENT_POOL: Final = 2**31 - 1


@serves(requests.brokers.GET_BROKER_RUNTIME_INFO)
def broker_runtime_info(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    table = {**_of_broker(broker, now_ms), **_of_store(broker), **_rates(broker, now_ms)}
    for pool in _POOLS:
        table[f"{pool}ThreadPoolQueueSize"] = "0"
        table[f"{pool}ThreadPoolQueueCapacity"] = "0"
        table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    for level in range(1, broker.schedule.levels.max_level + 1):
        progress = broker.schedule.progress(level)
        table[f"scheduleMessageOffset_{level}"] = f"{progress},{progress + broker.schedule.waiting(level)}"
    return response(command, body=KVTable(table=table).encode())


def _of_broker(broker: Broker, now_ms: int) -> dict[str, str]:
    minutes, seconds = divmod((now_ms - broker.start_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    statistics = broker.statistics
    put, pulled = statistics.totals()
    return {
        "brokerVersionDesc": "V4_9_8",
        "brokerVersion": str(ANNOUNCED_VERSION),
        "brokerActive": "true",
        "bootTimestamp": str(broker.start_ms),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        "startAcceptSendRequestTimeStamp": "0",
        "msgPutTotalYesterdayMorning": str(statistics.yesterday_morning[0]),
        "msgPutTotalTodayMorning": str(statistics.today_morning[0]),
        "msgPutTotalTodayNow": str(put),
        "msgGetTotalYesterdayMorning": str(statistics.yesterday_morning[1]),
        "msgGetTotalTodayMorning": str(statistics.today_morning[1]),
        "msgGetTotalTodayNow": str(pulled),
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
        **broker.timers.runtime_info(),
    }


def _of_store(broker: Broker) -> dict[str, str]:
    store, puts = broker.store, broker.counters.puts.values()
    times, size = max(1, broker.counters.put), sum(tally.bytes for tally in puts)
    table = {
        "commitLogMinOffset": str(store.min_physical_offset),
        "commitLogMaxOffset": str(store.max_physical_offset),
        "dispatchBehindBytes": str(store.undispatched_bytes),
        "dispatchMaxBuffer": "0",
        "remainHowManyDataToFlush": _bytes(store.max_physical_offset - store.flushed_offset),
        "remainHowManyDataToCommit": "0 B",
        "remainTransientStoreBufferNumbs": str(_NO_TRANSIENT_POOL),
        "pageCacheLockTimeMills": "0",
        "earliestMessageTimeStamp": str(broker.earliest_store_time()),
        "putMessageEntireTimeMax": "0",
        "getMessageEntireTimeMax": "0",
        "putMessageTimesTotal": str(times),
        "putMessageFailedTimes": "0",
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / times),
        "commitLogDiskRatio": "0.0",
        "consumeQueueDiskRatio": "0.0",
    }
    root = broker.config.store_path_root_dir
    if root:
        usage = shutil.disk_usage(root)
        ratio = f"{usage.used / max(1, usage.used + usage.free):.2f}"
        log_path = broker.config.store_path_commit_log or f"{root}/commitlog"
        table.update(
            {"commitLogDiskRatio": ratio, "consumeQueueDiskRatio": ratio, f"commitLogDiskRatio_{log_path}": ratio}
        )
        table["commitLogDirCapacity"] = f"Total : {_bytes(usage.total)}, Free : {_bytes(usage.free)}."
    return table


def _rates(broker: Broker, now_ms: int) -> dict[str, str]:
    put, pulled = broker.counters.put_tps.text(now_ms), broker.counters.pulled_tps.text(now_ms)
    return {
        "putTps": put,
        "getFoundTps": pulled,
        "getMissTps": "0.0 0.0 0.0",
        "getTotalTps": pulled,
        "getTransferedTps": pulled,
        "getTransferredTps": pulled,
    }


def _bytes(number: int) -> str:
    """A size as in MixAll.humanReadableByteCount: 1.5 KiB."""
    if number < 1024:
        return f"{number} B"
    scaled, unit = float(number), ""
    for letter in "KMGTPE":
        scaled, unit = scaled / 1024, letter
        if scaled < 1024:
            break
    return f"{scaled:.1f} {unit}iB"
