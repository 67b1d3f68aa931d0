# SPDX-License-Identifier: Apache-2.0
"""The load generator load.c, for the benches that run it; `make -C bench` compiles it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).resolve().parent
Form = tuple[str, ...]


def build_programs() -> None:
    """Raises SystemExit (they cannot be compiled; `make` has said why)."""
    if subprocess.run(["make", "-s", "-C", str(_HERE)], check=False).returncode:
        raise SystemExit("bench: the programs in C could not be built, see above")


def random_form(seed: int) -> Form:
    """The options for messages that are drawn at random."""
    return "--form", "random", "--seed", str(seed)


def load_command(broker_addr: str, topic: str, queues: int, messages: int, seconds: float, *more: str) -> list[str]:
    host, port = broker_addr.rsplit(":", 1)
    command = [str(_HERE / "build/load"), "--host", host, "--port", port, "--topic", topic, "--queues", str(queues)]
    return [*command, "--messages", str(messages), "--seconds", str(seconds), *more]


def run_load_program(
    broker_addr: str, topic: str, queues: int, messages: int, seconds: float, *more: str
) -> dict[str, Any]:
    """Run it to its end, and return its figures. Raises SystemExit: it failed; the text is its error."""
    command = load_command(broker_addr, topic, queues, messages, seconds, *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 300, check=False)
    if done.returncode:
        raise SystemExit(
            f"load of {topic} at {broker_addr}: {done.stderr.strip() or f'it ended with {done.returncode}'}"
        )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
