# SPDX-License-Identifier: Apache-2.0
"""Run by test_stream as a process of its own, to be killed: one streaming query that never gets past its first batch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))
from spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(namesrv_addr: str, directory: str) -> None:
    spark = spark_session("killed", directory + "/warehouse")

    def stuck(rows: DataFrame, batch_id: int) -> None:
        if rows.count():
            Path(directory, "in-first-batch").touch()
            time.sleep(600)  # killed in here

    query = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="flights", group="delays")
        .load()
        .writeStream.foreachBatch(stuck)
        .option("checkpointLocation", directory + "/checkpoint")
        .start()
    )
    Path(directory, "started").touch()
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
