# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the interop tests. A shared server is started once for each version and settings (`shared_servers`).

SPROCKETMQ_REQUIRE_PEERS=1                    a peer that cannot be had fails the test instead of skipping it
SPROCKETMQ_INTEROP_SERVER=5.5.0|5.4.0|4.9.7   run the tests of our server against Apache's: what fails there is wrong in the test
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.java_host import JavaHost
from interop.mqadmin_session import MqadminSession
from interop.peers import (
    ALL_VERSIONS,
    APACHE_5,
    APACHE_55,
    VERSIONS,
    ApacheCluster,
    ApacheProxy,
    JavaPeers,
    JavaProgram,
    Server,
    StartProgram,
    unwind_on_sigterm,
)
from interop.shared_servers import SharedServers
from interop.spark_flow import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_numbers = itertools.count(1)
_OTHER_VERSION = re.compile(rf"\[.*(?:{'|'.join(map(re.escape, {*ALL_VERSIONS} - {APACHE_5}))})")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.peer)
            # One version of Apache's servers is enough for each change; all of them are run by `make nightly`.
            if _OTHER_VERSION.search(item.name):
                item.add_marker(pytest.mark.nightly)
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
def shared_servers() -> Iterator[SharedServers]:
    with SharedServers() as servers:
        yield servers


@pytest.fixture(autouse=True)
def settings_are_left_as_they_were(shared_servers: SharedServers) -> Iterator[None]:
    """So that no test meets what another one set."""
    yield
    assert shared_servers.put_back() == []


@pytest.fixture
def servers(java_peers: None, shared_servers: SharedServers) -> SharedServers:
    """For a test that needs settings of its own: ``servers.apache(APACHE_5, enablePropertyFilter=False)``."""
    return shared_servers


@pytest.fixture
def apache5(servers: SharedServers) -> ApacheCluster:
    return servers.apache(APACHE_5)


@pytest.fixture(params=ALL_VERSIONS)
def apache(request: pytest.FixtureRequest, servers: SharedServers) -> ApacheCluster:
    """Apache's servers of each version: for tests of our client."""
    return servers.apache(str(request.param))


@pytest.fixture(params=(APACHE_5, APACHE_55))
def proxy(request: pytest.FixtureRequest, servers: SharedServers) -> ApacheProxy:
    """Apache's proxy before one broker. Others are started by the test: `ApacheProxy(broker_a, broker_b)`, `LocalProxy(APACHE_5)`."""
    return servers.proxy(str(request.param))


@pytest.fixture(params=VERSIONS)
def flow(request: pytest.FixtureRequest, spark: SparkSession, servers: SharedServers, tmp_path: Path) -> Iterator[Flow]:
    """A real Spark at Apache's servers of either generation; what it asks of 5.5.0 is what our client asks."""
    with Flow(spark, servers.apache(str(request.param)), tmp_path) as started:
        yield started


@pytest.fixture
def server(servers: SharedServers) -> Server:
    """The server under test: ours, unless SPROCKETMQ_INTEROP_SERVER names an Apache version."""
    return servers.under_test()


@pytest.fixture(scope="session")
def tools(java_peers: None) -> Iterator[Callable[[str], MqadminSession]]:
    """The mqadmin of a version, in one JVM for all tests."""
    with contextlib.ExitStack() as running:
        yield cache(lambda version: running.enter_context(MqadminSession(version)))


@pytest.fixture(params=ALL_VERSIONS)
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
