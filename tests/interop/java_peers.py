# SPDX-License-Identifier: Apache-2.0
"""Where the Java peers come from: jars from Maven Central by the pom files beside this module, our own programs compiled against them.

Both land in a cache (`SPROCKETMQ_PEERS_CACHE`, default `~/.cache/sprocketmq/peers`), made once and shared by every run:

    <cache>/5.4.0/lib-<digest>/*.jar         what maven/rocketmq-5/pom.xml names, with dependencies; another digest when the pom changes
    <cache>/5.4.0/peers-<digest>.jar         java/peers/*.java compiled against them; another digest when a source or the JDK changes
    <cache>/5.4.0/peers-<digest>-<role>.jsa  the classes that a process of this role loaded, as the JVM wants to find them: its next
                                             start costs about half (class data sharing; the first clean end of such a process writes it)
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

APACHE_5: Final = "5.4.0"
APACHE_55: Final = "5.5.0"
APACHE_4: Final = "4.9.7"
# One of each generation; the other 5.x beside them where it can differ.
VERSIONS: Final = (APACHE_5, APACHE_4)
ALL_VERSIONS: Final = (APACHE_4, APACHE_5, APACHE_55)

_HERE: Final = Path(__file__).resolve().parent
_SOURCES: Final = sorted((_HERE / "java/peers").glob("*.java"))
_DOWNLOAD_TIMEOUT_S: Final = 600
_STALE_S: Final = 3600

# What RocketMQ needs of Java 17: it reaches into direct buffers to free them.
_JAVA_17_FLAGS: Final = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-XX:+IgnoreUnrecognizedVMOptions",
)
# Nothing of the JVM's own on standard output, where our programs speak: it warns there of every class that it cannot archive.
_QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")


class PeersUnavailable(RuntimeError):
    """The Java peers cannot be had on this machine; the message is the reason, in one sentence."""


class Java(NamedTuple):
    """A `java` command line without its main class."""

    version: str
    programs: Path
    lib: Path

    def command(self, main_class: str, *args: str, flags: tuple[str, ...] = (), home: Path) -> list[str]:
        """The argument list; `home` becomes user.home, because RocketMQ writes its logs and local offsets below it, and the folder for
        temporary files: a broker that is killed leaves its RocksDB library (13 MB) there."""
        classpath = f"{self.programs}{os.pathsep}{self.lib}/*"
        folders = (f"-Duser.home={home}", f"-Djava.io.tmpdir={home}")
        return ["java", *_JAVA_17_FLAGS, *flags, *folders, "-cp", classpath, main_class, *args]

    def archive(self, role: str) -> ClassArchive:
        """The archived classes of the processes of one role, e.g. "broker"; made by the first that is started with its flags."""
        return ClassArchive(self.programs.with_name(f"{self.programs.stem}-{role}.jsa"))


class ClassArchive:
    """One start with, or for, a class archive. A JVM that finds it unfit (another collector, say) starts without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.exists = path.exists()
        # Under a name of its own until it is complete: another run must not find half of it.
        self._unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        for left in path.parent.glob("*.jsa.*"):  # by runs that were killed
            with contextlib.suppress(FileNotFoundError):
                if left.stat().st_mtime < time.time() - _STALE_S:
                    left.unlink()

    @property
    def flags(self) -> tuple[str, ...]:
        """Use the archive, or write it at the end."""
        if self.exists:
            return (*_QUIET, f"-XX:SharedArchiveFile={self._path}")
        return (*_QUIET, f"-XX:ArchiveClassesAtExit={self._unfinished}")

    def keep(self, exit_code: int) -> None:
        """To be called when the process has ended: what it wrote is there for the next one, unless it was killed meanwhile."""
        if exit_code >= 0 and self._unfinished.exists():
            self._unfinished.replace(self._path)


class JavaPeers:
    """The jars and programs of each Apache RocketMQ version."""

    @staticmethod
    @cache
    def available() -> str | None:
        """None when every version can be started here, otherwise the reason why not. The first call may download (about 230 MB)."""
        try:
            for version in ALL_VERSIONS:
                JavaPeers.java(version)
        except PeersUnavailable as reason:
            return str(reason)
        return None

    @staticmethod
    @cache
    def java(version: str) -> Java:
        """The class path of a version: our programs, then the jars.

        Raises:
            PeersUnavailable: no JDK, no Maven, no way to Maven Central, or the programs do not compile.
        """
        for tool in ("java", "javac"):
            if shutil.which(tool) is None:
                raise PeersUnavailable(f"{tool} is not on the PATH: the Apache peers need a JDK (17 was tested)")
        pom = _HERE / f"maven/rocketmq-{version[0]}/pom.xml"
        lib = maven_jars(version, pom, f"Apache RocketMQ {version}", **{"rocketmq.version": version})
        return Java(version, _programs(version, lib), lib)


def _cache_dir(version: str) -> Path:
    root = os.environ.get("SPROCKETMQ_PEERS_CACHE") or Path.home() / ".cache/sprocketmq/peers"
    path = Path(root) / version
    path.mkdir(parents=True, exist_ok=True)
    return path


def maven_jars(name: str, pom: Path, what: str, **properties: str) -> Path:
    """The folder of the jars that ``pom`` names, with dependencies; the first call fetches them into ``<cache>/<name>/lib-<digest>``.

    Args:
        properties: override those of the pom.

    Raises:
        PeersUnavailable: no Maven, or no way to Maven Central; ``what`` says in the sentence what was to be had.
    """
    digest = hashlib.sha256(pom.read_bytes() + repr(sorted(properties.items())).encode())
    lib = _cache_dir(name) / f"lib-{digest.hexdigest()[:12]}"
    with _alone(lib.parent):
        return lib if lib.is_dir() else _fetched(lib, pom, what, properties)


def _fetched(lib: Path, pom: Path, what: str, properties: Mapping[str, str]) -> Path:
    if shutil.which("mvn") is None:
        raise PeersUnavailable(f"mvn is not on the PATH, and {lib} does not hold the jars of {what}")
    # A folder of its own until complete: a download that breaks off must not look like a finished one.
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={scratch}/lib"]
        command += [f"-D{name}={value}" for name, value in properties.items()]
        _run(command, f"{what} could not be fetched from Maven Central")
        _move_into_place(Path(scratch) / "lib", lib)
    return lib


def _programs(version: str, lib: Path) -> Path:
    jdk = Path(shutil.which("java") or "java").resolve()
    digest = hashlib.sha256(f"{jdk} {jdk.stat().st_mtime_ns} {lib.name}".encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    programs = lib.parent / f"peers-{digest.hexdigest()[:12]}.jar"
    with _alone(lib.parent):
        return programs if programs.exists() else _compiled(version, lib, programs)


def _compiled(version: str, lib: Path, programs: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        command = ["javac", "-nowarn", "-cp", f"{lib}/*", "-d", f"{scratch}/classes", *map(str, _SOURCES)]
        _run(command, f"the interop programs do not compile against Apache RocketMQ {version}")
        # A jar, because folders on the class path keep a JVM from archiving classes.
        made = shutil.make_archive(f"{scratch}/peers", "zip", f"{scratch}/classes")
        _move_into_place(Path(made), programs)
    return programs


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: two columns of tests begin together, and the second is to find what the first one fetched."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _move_into_place(made: Path, wanted: Path) -> None:
    try:
        made.rename(wanted)
    except OSError:
        if not wanted.exists():  # otherwise another run was faster, and made the same
            raise


def _run(command: list[str], sentence: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise PeersUnavailable(f"{sentence}: no end after {_DOWNLOAD_TIMEOUT_S} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise PeersUnavailable(f"{sentence}: {said[0] if said else f'exit code {done.returncode}'}")
