"""One of our Java programs (java/peers/*.java), running against Apache's own client library of a given version."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from interop.child import JsonChild
from interop.java_peers import JavaPeers

__all__ = ["JavaProgram"]

# Short-lived and small: no time for the second compiler, no need of a parallel collector.
_FLAGS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaProgram(JsonChild):
    """Started when made; read its lines with `read`, `read_events` or `read_rest`, end it with `stop` (or `with`).

    Args:
        version: which Apache client library, APACHE_5 or APACHE_4.
        name: Producer, PushConsumer, OrderlyConsumer or Probe; the head comment of each source lists its options.
        options: given as `--name value`; an underscore in a name becomes a dash, a bool true or false.
        jvm_flags: e.g. -Drocketmq.serialize.type=ROCKETMQ.
    """

    def __init__(
        self, version: str, name: str, *, jvm_flags: tuple[str, ...] = (), **options: str | int | bool
    ) -> None:
        self._home = Path(tempfile.mkdtemp(prefix=f"java-{name.lower()}-"))
        args: list[str] = []
        for option, value in options.items():
            args += [f"--{option.replace('_', '-')}", str(value).lower() if isinstance(value, bool) else str(value)]
        flags = (*_FLAGS, *jvm_flags)
        command = JavaPeers.java(version).command(f"peers.{name}", *args, flags=flags, home=self._home)
        super().__init__(
            command, self._home / "err.log", cwd=self._home
        )  # some tools leave files where they are started

    def ready(self, timeout_s: float = 60.0) -> JavaProgram:
        """Return when the program said that its client is started."""
        self.read_events("ready", 1, timeout_s)
        return self

    def stop(self, timeout_s: float = 30.0) -> int:
        """Close its input, which lets its client unregister; insist after `timeout_s`. Removes its local offsets and logs."""
        self.close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout_s)
        code = super().stop(1.0)
        shutil.rmtree(self._home, ignore_errors=True)
        return code

    def __enter__(self) -> JavaProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
