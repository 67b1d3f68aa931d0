# SPDX-License-Identifier: Apache-2.0
"""Name server and broker of the long stream, a process of its own: files of 16 MiB, which go when they are six minutes old.

``serve`` is not used because ``fileReservedTime`` is in whole hours. Ends when its standard input does.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import msgspec

from sprocketmq.broker import Broker, BrokerConfig, NameServer

KEPT_HOURS: Final = 0.1
# Of two digits of seconds each level, so that many tries fit into a short run.
LEVELS: Final = "1s 2s 5s 2s 4s 8s 10s"


def main(directory: str) -> None:
    config = BrokerConfig.from_properties(
        {
            "messageDelayLevel": LEVELS,
            "mappedFileSizeCommitLog": str(16 << 20),
            "mappedFileSizeConsumeQueue": str(20 * 20_000),
            "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
            "diskSpaceWarningLevelRatio": "99",
            "cleanFileForciblyEnable": "false",
        }
    )
    config = msgspec.structs.replace(config, file_reserved_time=KEPT_HOURS)
    with (
        NameServer(host="127.0.0.1", port=0) as name_server,
        Broker(
            namesrv_addr=name_server.address, host="127.0.0.1", port=0, store_dir=directory, config=config
        ) as broker,
    ):
        print(f"ready namesrv={name_server.address} broker={broker.address} pid={os.getpid()}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
