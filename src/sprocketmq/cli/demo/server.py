# SPDX-License-Identifier: Apache-2.0
"""The demo's own RocketMQ: ``sprocketmq serve`` as a child process, and queries to it from further processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import sprocketmq as rmq
from sprocketmq.cli.frame.target import Target
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError, TopicNotExist
from sprocketmq.wire.records.record import decode_records

_READY: Final = re.compile(r"ready namesrv=(\S+) broker=(\S+) pid=(\d+)")
_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 20.0


class ServerProcess:
    """``sprocketmq serve`` on free ports with its store in ``store``, until the ``with`` block or the demo's process ends."""

    def __init__(self, store: Path, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "sprocketmq.cli", "serve", "--store", str(store)]
        command += ["--namesrv-port", "0", "--broker-port", "0", "--until-stdin-closes"]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
            )
        self.namesrv_addr, self.broker_addr = self._wait_until_ready()

    def _wait_until_ready(self) -> tuple[str, str]:
        assert self.process.stdout is not None
        # A server that neither becomes ready nor ends is killed, which ends the read below.
        watchdog = threading.Timer(_START_TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        ready = _READY.match(line)
        if ready is None:
            self.stop()
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise ConfigurationError(f"the demo's broker did not start: {said[-1] if said else 'it said nothing'}")
        return ready[1], ready[2]

    def stop(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.stdout.close()
        return self.process.wait()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


def ask_lag(group: str, topic: str, target: Target) -> int | str:
    """The lag of ``group`` in ``topic`` as reported by ``sprocketmq lag`` in a separate process, or its error text."""
    words = f"lag {group} --topic {topic} -n {target.namesrv_addr} --json" + (" --tls" if target.tls else "")
    command = [sys.executable, "-m", "sprocketmq.cli", *words.split()]
    keys = {
        "ROCKETMQ_ACCESS_KEY": target.access_key or "",
        "ROCKETMQ_SECRET_KEY": target.secret_key or "",
        "ROCKETMQ_SECRET_KEY_FILE": target.secret_key_file or "",
        "ROCKETMQ_TLS_CA": target.tls_ca or "",
    }
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **keys})
    if asked.returncode:
        return asked.stderr.strip()
    return int(json.loads(asked.stdout)["lag"])


def count_messages(target: Target, topic: str) -> int:
    return sum(end - start for _, start, end in _ranges(target, topic))


def read_topic(target: Target, topic: str) -> list[rmq.MessageExt]:
    messages: list[rmq.MessageExt] = []
    options = ClientOptions(**target.options())
    with rmq.QueueReader(
        target.namesrv_addr,
        "flights-auditor",
        _ranges(target, topic),
        credentials=options.credentials,
        ssl_context=options.new_ssl_context(),
    ) as reader:
        for chunk in reader:
            decoded = decode_records(chunk.body, broker_name=chunk.queue.broker_name)
            messages += [message for message in decoded if chunk.start <= message.queue_offset < chunk.end]
    return messages


def _ranges(target: Target, topic: str) -> list[tuple[rmq.MessageQueue, int, int]]:
    with rmq.Admin(**target.options()) as admin:
        try:
            stats = admin.topic_stats(topic)
        except TopicNotExist:
            return []
    return [(queue, offsets.min_offset, offsets.max_offset) for queue, offsets in stats.items()]
