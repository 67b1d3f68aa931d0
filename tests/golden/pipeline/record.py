# SPDX-License-Identifier: Apache-2.0
"""Write ``recording.jsonl.xz`` anew: ``python tests/golden/pipeline/record.py``.

Only when a change of answers or of stored bytes is meant, and then with a look at what changed: the recording is what holds them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_TESTS)]

from golden.pipeline import RECORDING, Scene, write  # noqa: E402 - the path comes first
from golden.pipeline.scenes import all_scenes  # noqa: E402
from inproc.broker.played_frames import play  # noqa: E402
from sprocketmq.broker import lazy_imports  # noqa: E402


def main() -> None:
    """Play each scene and keep what came of it."""
    lazy_imports._loaded.update(lazy_imports.Library)  # else the first filter is answered later than the others
    loop = asyncio.new_event_loop()
    played = [Scene(name, host, reads, *play(loop, host, reads)) for name, host, reads in all_scenes()]
    loop.close()
    write(played)
    print(f"{len(played)} scenes, {RECORDING.stat().st_size} bytes")


if __name__ == "__main__":
    main()
