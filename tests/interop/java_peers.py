"""Where the Java peers come from: jars from Maven Central by the pom files beside this module, our own programs compiled against them.

Both land in a cache (`SPROCKETMQ_PEERS_CACHE`, default `~/.cache/sprocketmq/peers`), made once and shared by every run:

    <cache>/5.4.0/lib/*.jar            what maven/rocketmq-5/pom.xml names, with dependencies
    <cache>/5.4.0/classes-<digest>/    java/peers/*.java compiled against them; another digest when a source changes
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["APACHE_4", "APACHE_5", "VERSIONS", "Java", "JavaPeers", "PeersUnavailable"]

APACHE_5: Final = "5.4.0"
APACHE_4: Final = "4.9.7"
VERSIONS: Final = (APACHE_5, APACHE_4)

_HERE: Final = Path(__file__).resolve().parent
_POMS: Final = {APACHE_5: _HERE / "maven/rocketmq-5/pom.xml", APACHE_4: _HERE / "maven/rocketmq-4/pom.xml"}
_SOURCES: Final = sorted((_HERE / "java/peers").glob("*.java"))
_DOWNLOAD_TIMEOUT_S: Final = 600

# What RocketMQ needs of Java 17: it reaches into direct buffers to free them.
_JAVA_17_FLAGS: Final = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-XX:+IgnoreUnrecognizedVMOptions",
)


class PeersUnavailable(RuntimeError):
    """The Java peers cannot be had on this machine; the message is the reason, in one sentence."""


class Java(NamedTuple):
    """A `java` command line without its main class."""

    version: str
    classpath: str

    def command(self, main_class: str, *args: str, flags: tuple[str, ...] = (), home: Path) -> list[str]:
        """The argument list; `home` becomes user.home, because RocketMQ writes its logs and local offsets below it."""
        return ["java", *_JAVA_17_FLAGS, *flags, f"-Duser.home={home}", "-cp", self.classpath, main_class, *args]


class JavaPeers:
    """The jars and programs of each Apache RocketMQ version."""

    @staticmethod
    @cache
    def available() -> str | None:
        """None when every version can be started here, otherwise the reason why not. The first call may download (about 115 MB)."""
        try:
            for version in VERSIONS:
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
        lib = _jars(version)
        return Java(version, os.pathsep.join((str(_programs(version, lib)), f"{lib}/*")))


def _cache_dir(version: str) -> Path:
    root = os.environ.get("SPROCKETMQ_PEERS_CACHE") or Path.home() / ".cache/sprocketmq/peers"
    path = Path(root) / version
    path.mkdir(parents=True, exist_ok=True)
    return path


def _jars(version: str) -> Path:
    lib = _cache_dir(version) / "lib"
    if lib.is_dir():
        return lib
    if shutil.which("mvn") is None:
        raise PeersUnavailable(f"mvn is not on the PATH, and {lib} does not hold the jars of Apache RocketMQ {version}")
    # A folder of its own until complete: a download that breaks off must not look like a finished one.
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        command = ["mvn", "-q", "-B", "-f", str(_POMS[version]), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={scratch}/lib"]
        _run(command, f"Apache RocketMQ {version} could not be fetched from Maven Central")
        _move_into_place(Path(scratch) / "lib", lib)
    return lib


def _programs(version: str, lib: Path) -> Path:
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()[:12]
    classes = lib.parent / f"classes-{digest}"
    if classes.is_dir():
        return classes
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        command = ["javac", "-nowarn", "-cp", f"{lib}/*", "-d", f"{scratch}/classes", *map(str, _SOURCES)]
        _run(command, f"the interop programs do not compile against Apache RocketMQ {version}")
        _move_into_place(Path(scratch) / "classes", classes)
    return classes


def _move_into_place(made: Path, wanted: Path) -> None:
    try:
        made.rename(wanted)
    except OSError:
        if not wanted.is_dir():  # otherwise another run was faster, and made the same
            raise


def _run(command: list[str], sentence: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise PeersUnavailable(f"{sentence}: no end after {_DOWNLOAD_TIMEOUT_S} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise PeersUnavailable(f"{sentence}: {said[0] if said else f'exit code {done.returncode}'}")
