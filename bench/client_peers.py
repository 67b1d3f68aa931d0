# SPDX-License-Identifier: Apache-2.0
"""The clients that client_bench.py compares, each as a command that runs one load.

Python peers get a venv each below the cache of the interop peers (``SPROCKETMQ_PEERS_CACHE``, default ``~/.cache/sprocketmq/peers``), made
once from the pinned list beside its program; not the project's. Clients that are not available here are left out, with the reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from interop.java_peers import APACHE_5, JavaPeers, PeersUnavailable, _cache_dir, _run

_HERE: Final = Path(__file__).resolve().parent
_JAVA_HEAP: Final = ("-Xms256m", "-Xmx512m")
OURS, CPP, GRPC, JAVA = "SprocketMQ", "rocketmq 0.4.4", "rocketmq-python-client 5.1.2", f"Java {APACHE_5}"
CLIENTS: Final = (OURS, CPP, GRPC, JAVA)
_PROGRAMS: Final = {CPP: "rocketmq_cpp", GRPC: "rocketmq_grpc"}


class Client(NamedTuple):
    """A client and the command of its program, to which the options of a load are added; ``home`` is the folder of its logs."""

    name: str
    command: tuple[str, ...]
    home: Path

    @property
    def is_ours(self) -> bool:
        """Whether it is ours, from this checkout or from another one."""
        return self.name.startswith(OURS)

    @property
    def is_python_peer(self) -> bool:
        return self.name in _PROGRAMS


def client(name: str) -> Client:
    """One of CLIENTS, ready to run; the first call may download.

    Raises:
        PeersUnavailable: it is not available on this machine.
    """
    home = Path(tempfile.mkdtemp(prefix="bench-client-"))
    if name == OURS:
        return Client(name, (sys.executable, str(_HERE / "clients/ours.py")), home)
    if name == JAVA:
        java = JavaPeers.java(APACHE_5)
        return Client(name, tuple(java.command("peers.ClientLoad", flags=_JAVA_HEAP, home=home)), home)
    program = _HERE / f"clients/{_PROGRAMS[name]}.py"
    return Client(name, (str(_venv(name, program.with_suffix(".txt"))), str(program)), home)


def client_beside(checkout: Path) -> Client:
    """Our client from another checkout, to compare before and after a change.

    Raises:
        PeersUnavailable: `make setup` was not run there.
    """
    python = checkout.absolute() / ".venv/bin/python"
    if not python.exists():
        raise PeersUnavailable(f"no .venv/bin/python in {checkout}; run `make setup` in that checkout first")
    home = Path(tempfile.mkdtemp(prefix="bench-client-"))
    return Client(f"{OURS} of {checkout.name}", (str(python), str(checkout.absolute() / "bench/clients/ours.py")), home)


def _venv(name: str, pinned: Path) -> Path:
    """The Python of a venv that holds what ``pinned`` lists."""
    digest = hashlib.sha256(f"{sys.version} {sys.platform}".encode() + pinned.read_bytes()).hexdigest()[:12]
    folder = _cache_dir("clients") / f"{pinned.stem}-{digest}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)], f"no venv for {name}")
        install = [str(python), "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
        _run([*install, "-r", str(pinned)], f"{name} could not be installed")
        (folder / "complete").touch()
    if subprocess.run([str(python), "-c", _IMPORT[name]], capture_output=True, check=False).returncode:
        raise PeersUnavailable(f"{name} is installed and does not load on this machine")
    return python


_IMPORT: Final = {CPP: "import rocketmq.client", GRPC: "import rocketmq"}
