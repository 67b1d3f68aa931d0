# SPDX-License-Identifier: Apache-2.0
"""One of our Java programs (java/peers/*.java), running against Apache's own client library of a given version."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from interop.child import HANG_S, Child, JsonLines
from interop.java_host import JAVA_FLAGS, HostedRun, JavaHost
from interop.java_peers import JavaPeers


class JavaProgram(JsonLines):
    """Started when made; read its lines with `read`, `read_events` or `read_rest`, end it with `stop` (or `with`).

    Without `jvm_flags` it shares the JVM of its version with the other programs, as if it were alone there.

    Args:
        version: which Apache client library, APACHE_5 or APACHE_4.
        name: Producer, PushConsumer, OrderlyConsumer or Probe; the head comment of each source lists its options.
        options: given as `--name value`; an underscore in a name becomes a dash, a bool true or false.
        jvm_flags: e.g. -Drocketmq.serialize.type=ROCKETMQ.
    """

    def __init__(
        self, version: str, name: str, *, jvm_flags: tuple[str, ...] = (), **options: str | int | bool
    ) -> None:
        super().__init__()
        args: list[str] = []
        for option, value in options.items():
            args += [f"--{option.replace('_', '-')}", str(value).lower() if isinstance(value, bool) else str(value)]
        self._home: Path | None = None
        self._run: Child | HostedRun
        if not jvm_flags:
            self._run = JavaHost.of(version).run(name, *args)
            return
        java = JavaPeers.java(version)
        self._home = Path(tempfile.mkdtemp(prefix=f"java-{name.lower()}-"))
        archive = java.archive("tools" if name == "Mqadmin" else "programs")
        self._archive = archive if archive.exists or name == "Mqadmin" else None
        flags = (*JAVA_FLAGS, "-Xmx256m", *(self._archive.flags if self._archive else ()), *jvm_flags)
        # Some tools leave files where they are started.
        command = java.command(f"peers.{name}", *args, flags=flags, home=self._home)
        self._run = Child(command, self._home / "err.log", cwd=self._home)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._run.exit_code

    def read_line(self, timeout_s: float = HANG_S) -> str:
        return self._run.read_line(timeout_s)

    def write_line(self, line: str) -> None:
        """One line to the standard input of a program with a process of its own."""
        assert isinstance(self._run, Child)
        self._run.write_line(line)

    def last_words(self) -> str:
        """The end of its standard error, for a failure message."""
        return self._run.last_words()

    def wait(self, timeout_s: float = HANG_S) -> int:
        """The exit code, once it has ended by itself."""
        return self._run.wait(timeout_s)

    def close_input(self) -> None:
        """End of input: the programs take it as the request to finish."""
        self._run.close_input()

    def ready(self, timeout_s: float = HANG_S) -> JavaProgram:
        """Return when the program said that its client is started."""
        self.read_events("ready", 1, timeout_s)
        return self

    def stop(self, timeout_s: float = 30.0) -> int:
        """Close its input, which lets its client unregister; insist after `timeout_s`. Removes its local offsets and logs."""
        self.close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout_s)
        code = self._run.stop(1.0)
        if self._home is not None:
            if self._archive is not None:
                self._archive.keep(code)
            shutil.rmtree(self._home, ignore_errors=True)
        return code

    def __enter__(self) -> JavaProgram:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
