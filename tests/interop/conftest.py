"""Fixtures of the interop tests. Every JVM server is started once per run.

SPROCKETMQ_REQUIRE_PEERS=1              a peer that cannot be had fails the test instead of skipping it
SPROCKETMQ_INTEROP_SERVER=5.4.0|4.9.7   run the tests of our server against Apache's: what fails there is wrong in the test
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.java_host import JavaHost
from interop.mqadmin_session import MqadminSession
from interop.peers import (
    APACHE_4,
    APACHE_5,
    VERSIONS,
    ApacheCluster,
    JavaPeers,
    JavaProgram,
    SprocketServer,
    unwind_on_sigterm,
)
from interop.spark_flow import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Server = ApacheCluster | SprocketServer
StartProgram = Callable[..., JavaProgram]

# Waits that would make the tests slow, as short as they can be. 5.x gathers the marks of what was committed for 3 s
# (transactionOpBatchInterval): below that a check-back would ask for transactions that are long decided.
FAST: dict[str, Any] = {
    "messageDelayLevel": "1s 1s 1s 1s",
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 6000,
}

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.peer)
            # A run's first test starts the servers and, in an empty cache, fetches the jars.
            item.add_marker(pytest.mark.timeout(900))
            # What docs/gaps.md lists: the test says what Apache does, and fails here the day our broker does it too.
            gap = item.get_closest_marker("gap")
            if gap is not None and not os.environ.get("SPROCKETMQ_INTEROP_SERVER"):
                item.add_marker(pytest.mark.xfail(reason=gap.args[0], strict=True))


@pytest.fixture(scope="session")
def java_peers() -> Iterator[None]:
    """Skips (or fails) when no Apache RocketMQ can be had here."""
    unwind_on_sigterm()
    if reason := JavaPeers.available():
        if os.environ.get("SPROCKETMQ_REQUIRE_PEERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    ApacheCluster.starts_quickly = True
    yield
    JavaHost.stop_all()


@pytest.fixture(scope="session")
def apache5(java_peers: None) -> Iterator[ApacheCluster]:
    with ApacheCluster(APACHE_5, **FAST) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def apache4(java_peers: None) -> Iterator[ApacheCluster]:
    with ApacheCluster(APACHE_4, **FAST) as cluster:
        yield cluster


@pytest.fixture(params=VERSIONS)
def apache(request: pytest.FixtureRequest) -> ApacheCluster:
    """Apache's servers of either version: for tests of our client."""
    cluster: ApacheCluster = request.getfixturevalue("apache4" if request.param == APACHE_4 else "apache5")
    return cluster


@pytest.fixture
def flow(spark: SparkSession, apache: ApacheCluster, tmp_path: Path) -> Iterator[Flow]:
    """A real Spark at Apache's servers of either version."""
    with Flow(spark, apache, tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def server(java_peers: None) -> Iterator[Server]:
    """The server under test: ours, unless SPROCKETMQ_INTEROP_SERVER names an Apache version."""
    version = os.environ.get("SPROCKETMQ_INTEROP_SERVER")
    under_test: Server = (
        ApacheCluster(version, **FAST) if version else SprocketServer(enablePropertyFilter=True, **FAST)
    )
    with under_test as started:
        yield started


@pytest.fixture(scope="session")
def tools(java_peers: None) -> Iterator[Callable[[str], MqadminSession]]:
    """The mqadmin of a version, in one JVM for all tests."""
    with contextlib.ExitStack() as running:
        yield cache(lambda version: running.enter_context(MqadminSession(version)))


@pytest.fixture(params=VERSIONS)
def java_version(request: pytest.FixtureRequest) -> str:
    """The version of the Java client."""
    return str(request.param)


@pytest.fixture
def topic(server: Server) -> str:
    """A fresh topic with four queues."""
    name = f"interop-{os.getpid()}-{next(_numbers)}"
    server.create_topic(name, 4)
    return name


@pytest.fixture
def start(server: Server, java_version: str) -> Iterator[StartProgram]:
    """Starts Java programs of the client version against the server under test, and stops them after the test."""
    running: list[JavaProgram] = []

    def start_program(name: str, **options: str | int | bool) -> JavaProgram:
        program = JavaProgram(java_version, name, jvm_flags=(), namesrv=server.namesrv_addr, **options)
        running.append(program)
        return program

    yield start_program
    for program in running:
        program.stop()
