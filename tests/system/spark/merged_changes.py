# SPDX-License-Identifier: Apache-2.0
"""The example that keeps a table (examples/spark_merge_changes.py) with another source, as a process that test_random_database kills."""

from __future__ import annotations

import json
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


def main(namesrv_addr: str, folder: str, source: str, follow: str) -> None:
    import spark_merge_changes as merging

    from spark_session import SHORT_LIVED, spark_session

    spark = spark_session("merging", f"{folder}/warehouse", settings=SHORT_LIVED)
    query = merging.run(spark, namesrv_addr, Path(folder), follow == "follow", merging.Source(**json.loads(source)))
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "examples")]
    main(*sys.argv[1:])
