# SPDX-License-Identifier: Apache-2.0
"""mqadmin in one long-lived JVM: a command costs milliseconds instead of a JVM start."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from interop.apache_cluster import write_logback
from interop.child import HANG_S
from interop.java_program import JavaProgram

# 5.x tells on standard output how it configured its logging.
_LOGGING: Final = re.compile(r"\d\d:\d\d:\d\d,\d{3} \|-|RocketMQLog:WARN|SLF4J")


class MqadminSession:
    """The tools of one version. Use with ``with``; any number of servers may be asked in turn."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._home = Path(tempfile.mkdtemp(prefix="mqadmin-"))
        write_logback(self._home)  # 4.9 looks for it before each command
        self._program = JavaProgram(
            version, "Mqadmin", jvm_flags=("-Djava.security.manager=allow", f"-Drocketmq.home.dir={self._home}")
        )

    def run(self, *words: str, timeout_s: float = HANG_S, keys: tuple[str, str] | None = None) -> str:
        """One command, e.g. ("topicStatus", "-n", namesrv_addr, "-t", "flights"): what it printed, stack traces included.

        `keys` are an access key and its secret, which the tools find in conf/tools.yml.
        """
        credentials = self._home / "conf/tools.yml"
        credentials.unlink(missing_ok=True)
        if keys is not None:
            credentials.write_text("accessKey: {}\nsecretKey: {}\n".format(*keys), "utf-8")
        self._program.write_line("\t".join(words))
        printed = str(self._program.read_events("printed", 1, timeout_s)[0]["text"])
        return "".join(line for line in printed.splitlines(keepends=True) if not _LOGGING.match(line))

    def request_codes(self) -> dict[str, int]:
        """The constants of this version's RequestCode."""
        self._program.write_line("codes")
        found = self._program.read_events("codes", 1)[0]["codes"]
        return {name: int(code) for name, code in found.items()}

    def commands(self) -> list[str]:
        """The names of all commands of this version, as its help lists them."""
        return sorted(re.findall(r"^   (\w+)\s", self.run(), re.MULTILINE))

    def __enter__(self) -> MqadminSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop()
        shutil.rmtree(self._home, ignore_errors=True)
