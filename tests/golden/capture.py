# SPDX-License-Identifier: Apache-2.0
"""Captures the golden bytes again: `python tests/golden/capture.py` (a JDK, Maven and about five minutes).

Java clients and admin tools talk to a Java broker and name server, of the same version, through recording proxies:

    client  --client-namesrv-->  name server  <--broker-namesrv--  broker  <--client-broker--  client

Each version is run twice, with JSON and with ROCKETMQ headers. Of each distinct frame (version, header type, link, sender, code, and
what distinguishes it within its code) one is kept. The stores are taken from the JSON runs, after a clean stop.

`python tests/golden/capture.py sends` captures the rarer forms of a send alone (sends-*.bin), and leaves everything else.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.recording_proxy import RecordingProxy
from golden.scenario import play, play_sends
from golden.store_heads import keep_store
from interop.apache_cluster import ApacheCluster, free_ports
from interop.child import unwind_on_sigterm
from interop.java_peers import VERSIONS
from interop.remoting import decode_header, split_frame
from sprocketmq.wire.codes import RequestCode

HERE = Path(__file__).resolve().parent
SERIALIZE_TYPES = ("JSON", "ROCKETMQ")
# A frame that shows more is better, up to a size that a repository can carry.
GOOD_SIZE_BYTES = 6_000
SENDS = (10, 310, 320)

NAMES = {int(code): code.name for code in RequestCode}


class Recorder:
    """Keeps one frame of each kind for one version and header type. Called from the threads of all proxies."""

    def __init__(self, version: str, serialize: str) -> None:
        self.version = version
        self.serialize = serialize
        self._kept: dict[tuple[Any, ...], tuple[bytes, dict[str, Any]]] = {}
        self._asked: dict[tuple[str, int, bool, int], int] = {}
        self._lock = threading.Lock()

    def __call__(self, link: str, connection: int, from_caller: bool, frame: bytes) -> None:
        kind, header_bytes, body = split_frame(frame)
        header = decode_header(kind, header_bytes)
        response = bool(header["flag"] & 1)
        caller, server = link.split("-")
        entry: dict[str, Any] = {
            "version": self.version,
            "serialize": SERIALIZE_TYPES[kind],
            "link": link,
            "sender": caller if from_caller else server,
            "kind": "response" if response else "request",
        }
        with self._lock:
            if response:
                code = self._asked.pop((link, connection, not from_caller, header["opaque"]), -1)
            else:
                code = header["code"]
                self._asked[link, connection, from_caller, header["opaque"]] = code
            detail = _detail(code, header, body, response)
            entry.update(code=code, response_code=header["code"] if response else None, oneway=bool(header["flag"] & 2))
            entry["shows"] = " ".join((NAMES.get(code, f"code {code}"), entry["kind"], *detail))
            key = (link, entry["sender"], response, code, header["code"], entry["oneway"], *detail)
            if key not in self._kept or _is_better(frame, self._kept[key][0]):
                self._kept[key] = (frame, entry)

    def write(self, prefix: str = "", codes: tuple[int, ...] = ()) -> list[dict[str, Any]]:
        """Write the .bin files (of `codes`, if there are some) and return their index entries."""
        folder = HERE / "frames" / self.version
        folder.mkdir(parents=True, exist_ok=True)
        entries = []
        kept = [one for one in self._kept.values() if not codes or one[1]["code"] in codes]
        for number, (frame, entry) in enumerate(sorted(kept, key=lambda one: _order(one[1]))):
            name = f"{prefix}{self.serialize.lower()}-{number:03}-{entry['code']}-{entry['kind']}.bin"
            if private := _private_word(frame):
                print(f"not kept: {entry['shows']} holds {private!r}")
                continue
            (folder / name).write_bytes(frame)
            entries.append({"file": f"frames/{self.version}/{name}", **entry})
        return entries


def _detail(code: int, header: dict[str, Any], body: bytes, response: bool) -> list[str]:
    """What distinguishes frames of one code, as words of the index."""
    ext = header.get("extFields") or {}
    words: list[str] = []
    if response:
        words.append(f"answers {header['code']}")
    elif header["flag"] & 2:
        words.append("oneway")
    if body:
        words.append("with body")
    if code in (310, 320, 325) and not response:
        words.append(f"sysFlag {ext.get('f')}")
        words += [
            word for word in ("DELAY", "TRAN_MSG", "REPLY_TO_CLIENT", "__SHARDINGKEY") if word in ext.get("i", "")
        ]
        words += [word for word in ("TIMER_DELIVER_MS", "WAIT\x01false") if word in ext.get("i", "")]
        words += (
            ["KEYS"] if code == 320 and "KEYS" in ext.get("i", "") else []
        )  # a batch that the client made by itself
    if code == 10 and not response:
        words.append(f"sysFlag {ext.get('sysFlag')}")
    if code in (10, 310, 320) and not response and "Signature" in ext:
        words.append("signed")
    if code in (11, 361) and not response:
        words.append(f"sysFlag {ext.get('sysFlag')} {ext.get('expressionType', 'no expression')}")
    if code == 37 and not response:
        words.append(
            f"commitOrRollback {ext.get('commitOrRollback')} fromTransactionCheck {ext.get('fromTransactionCheck')}"
        )
    if code == 34 and not response:
        words += [word for word in ("CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "SQL92") if word.encode() in body]
    if code in (208, 202, 14, 307):
        words += ["empty table"] if b'"offsetTable":{}' in body else []
    if code == 35 and not response:
        words += [word for word in ("producerGroup", "consumerGroup") if word in ext]
    return words


def _is_better(new: bytes, old: bytes) -> bool:
    return len(old) < len(new) <= GOOD_SIZE_BYTES or len(new) < len(old) > GOOD_SIZE_BYTES


def _order(entry: dict[str, Any]) -> tuple[Any, ...]:
    return (entry["code"], entry["link"], entry["kind"], entry["shows"])


def _private_word(frame: bytes) -> str | None:
    """A word of the machine that captured, which nobody else needs to see."""
    words = (str(Path.home()) + "/", str(HERE.parents[1]), f'"{socket.gethostname()}"')
    return next((word for word in words if word.encode() in frame), None)


def _capture(version: str, serialize: str, *, sends: bool = False) -> list[dict[str, Any]]:
    recorder = Recorder(version, serialize)
    flags = (f"-Drocketmq.serialize.type={serialize}",)
    broker_port, broker_proxy_port = free_ports(-2, 1), free_ports()
    # Wherever the broker's port is written in an answer, its proxy's goes: as text, in an id, in a record's store host.
    rewrite = {
        f"127.0.0.1:{broker_port}".encode(): f"127.0.0.1:{broker_proxy_port}".encode(),
        b"7F000001%08X" % broker_port: b"7F000001%08X" % broker_proxy_port,
        bytes((127, 0, 0, 1)) + broker_port.to_bytes(4, "big"): bytes((127, 0, 0, 1))
        + broker_proxy_port.to_bytes(4, "big"),
    }
    conf: dict[str, Any] = {
        "transactionCheckInterval": 1000,
        "transactionTimeOut": 1000,
        "messageDelayLevel": "1s 2s 3s",
        "registerNameServerPeriod": 10_000,
    }
    cluster = ApacheCluster(version, jvm_flags=flags, **conf)
    try:
        cluster.start_namesrv()
        with (
            RecordingProxy("broker-namesrv", free_ports(), cluster.namesrv_addr, recorder, {}) as for_broker,
            RecordingProxy("client-namesrv", free_ports(), cluster.namesrv_addr, recorder, rewrite) as for_clients,
            RecordingProxy("client-broker", broker_proxy_port, f"127.0.0.1:{broker_port}", recorder, rewrite),
        ):
            cluster.start_broker(for_broker.address, broker_port)
            if sends:
                play_sends(version, for_clients.address, flags)
                return recorder.write("sends-", SENDS)
            play(version, for_clients.address, f"127.0.0.1:{broker_proxy_port}", flags, everything=serialize == "JSON")
            cluster.stop_broker()  # while the proxies listen: the broker takes its leave of the name server
        if serialize == "JSON":
            keep_store(cluster.store_dir, HERE / "store" / version)
    finally:
        cluster.stop()
    return recorder.write()


def main() -> None:
    unwind_on_sigterm()
    sends = sys.argv[1:] == ["sends"]
    index: list[dict[str, Any]] = []
    if sends:
        index = [e for e in json.loads((HERE / "index.json").read_text("utf-8")) if "/sends-" not in e["file"]]
        for path in HERE.glob("frames/*/sends-*.bin"):
            path.unlink()
    else:
        for folder in ("frames", "store"):
            shutil.rmtree(HERE / folder, ignore_errors=True)
    for version in VERSIONS:
        for serialize in SERIALIZE_TYPES:
            entries = _capture(version, serialize, sends=sends)
            print(f"{version} {serialize}: {len(entries)} frames")
            index += entries
    (HERE / "index.json").write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
