# SPDX-License-Identifier: Apache-2.0
"""The middlemen of the outage drill, in a process of their own so that they take no time from the clients that are judged.

    outage_middlemen.py NAME=UPSTREAM=LISTEN ...

Reads ``NAME MOOD`` and answers ``done NAME``; tells each heartbeat as ``heartbeat NAME CLIENT_ID SECONDS``, of the clock of all processes.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from interop.middleman import Middleman  # noqa: E402
from sprocketmq.wire.codes import RequestCode  # noqa: E402
from sprocketmq.wire.frames.command import Command  # noqa: E402

_LOOK_S: Final = 0.1
_CLIENT_ID: Final = re.compile(rb'"clientID":"([^"]+)"')


_saying: Final = threading.Lock()


def _say(line: str) -> None:
    with _saying:
        print(line, flush=True)


def _tell(middlemen: dict[str, Middleman], ends: threading.Event) -> None:
    """What clients asked is told, and forgotten: twenty minutes of it are much."""
    taken: dict[str, list[tuple[float, Command]]] = {}
    while not ends.wait(_LOOK_S):
        for name, middleman in middlemen.items():
            # A turn later: who was about to append when the list was taken has done so by now.
            asked = taken.get(name, [])
            taken[name], middleman.asked = middleman.asked, []
            for at_s, command in asked:
                if command.code == RequestCode.HEART_BEAT and (found := _CLIENT_ID.search(bytes(command.body))):
                    _say(f"heartbeat {name} {found[1].decode()} {at_s:.3f}")


def main(args: list[str]) -> None:
    with contextlib.ExitStack() as life:
        middlemen: dict[str, Middleman] = {}
        for arg in args:
            name, upstream, address = arg.split("=")
            middlemen[name] = life.enter_context(Middleman(upstream, address))
        ends = threading.Event()
        life.callback(ends.set)
        threading.Thread(target=_tell, args=(middlemen, ends), daemon=True).start()
        _say("ready")
        for line in sys.stdin:
            name, mood = line.split()
            middlemen[name].set_mood(mood)
            _say(f"done {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
