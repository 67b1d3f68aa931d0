# SPDX-License-Identifier: Apache-2.0
"""What `pip install sprocketmq` without extras gives: a client that sends and consumes, and one sentence for every other part."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def base_distributions() -> list[str]:
    """What pyproject.toml asks for without an extra, and what that asks for in turn."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    found: list[str] = []
    while asked:
        found.append(re.split(r"[^\w.-]", asked.pop())[0])
        asked += [needed for needed in metadata.requires(found[-1]) or () if "extra ==" not in needed]
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has our packages and the base dependencies, as links to those of this one: nothing is downloaded."""
    home = tmp_path_factory.mktemp("client-alone")
    venv.create(home, with_pip=False, symlinks=True)
    (site_packages,) = home.glob("lib/python*/site-packages")
    for package in ("sprocketmq", "pyspark_rocketmq"):
        (site_packages / package).symlink_to(ROOT / "src" / package)
    for name in base_distributions():
        files = metadata.files(name) or []
        for top in {file.parts[0] for file in files if ".." not in file.parts}:
            target = site_packages / top
            if not target.exists():
                target.symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    return home / "bin/python"


def run(python: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        env=environment,
    )


def test_a_client_needs_msgspec_and_a_loop():
    assert set(base_distributions()) <= {"msgspec", "uvloop"}


SEND_AND_CONSUME = """
    import queue, sys
    import sprocketmq as rmq

    come = queue.Queue()
    with rmq.Producer("ops", namesrv_addr=sys.argv[1]) as producer:
        for number in range(3):
            producer.send(rmq.Message("flights", b"%d" % number, tags="UA", keys=[f"k{number}"]))
        producer.send_batch([rmq.Message("flights", b"batch-%d" % number) for number in range(2)])
    consumer = rmq.PushConsumer(
        "delays", namesrv_addr=sys.argv[1], consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe("flights", "*")
    consumer.on_message(lambda message: come.put(message.body.decode()))
    with consumer:
        print(*sorted(come.get(timeout=60) for _ in range(5)))
    assert "numpy" not in sys.modules
"""


@pytest.mark.rocketmq(clock="system")
def test_a_client_alone_sends_and_consumes(rocketmq, python):
    rocketmq.create_topic("flights", queues=2)
    done = run(python, SEND_AND_CONSUME, rocketmq.namesrv_addr)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "2", "batch-0", "batch-1"]), done.stderr


PARTS = {
    "broker": ("from sprocketmq.broker import Broker; Broker()", "the broker", ["lark", "numpy", "PyYAML"], "broker"),
    "testing": (
        "from sprocketmq.testing import EmbeddedRocketMQ; EmbeddedRocketMQ().start()",
        "the broker",
        ["lark", "numpy", "PyYAML"],
        "broker",
    ),
    "metrics": ("import sprocketmq as rmq; rmq.ClientMetrics()", "ClientMetrics", ["prometheus-client"], "metrics"),
    "traces": (
        "import sprocketmq as rmq; rmq.OpenTelemetryHook()",
        "OpenTelemetryHook",
        ["opentelemetry-api"],
        "opentelemetry",
    ),
    "compression": (
        "from sprocketmq.wire.records.compression import CompressionType, check_library; check_library(CompressionType.ZSTD)",
        "a ZSTD body",
        ["zstandard"],
        "compression",
    ),
    "spark": (
        "from sprocketmq.spark import RocketMQDataSource",
        "sprocketmq.spark.RocketMQDataSource",
        ["pyspark"],
        "spark",
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_every_other_part_says_how_to_install_it(part, python):
    program, what, packages, extra = PARTS[part]
    done = run(python, program)
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(rf"ConfigurationError: {re.escape(what)} needs the packages? ", last), done.stderr
    assert all(package in last for package in packages)
    assert last.endswith(f"with: pip install 'sprocketmq[{extra}]'")


def test_the_command_line_says_so_without_a_traceback(python):
    done = run(python, "from importlib import import_module as load; load('sprocketmq.cli.__main__').main()")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "sprocketmq: the command line needs the packages click and rich, which are not installed; "
        "install them with: pip install 'sprocketmq[cli]'\n"
    )


def test_a_command_that_needs_another_extra_says_so(python):
    """The command line is there, the broker's libraries are not: with click and rich of this Python, on the path for this one program."""
    program = """
        import sys
        sys.path.append(sys.argv[1])
        import click, rich
        sys.modules.update(numpy=None)
        sys.argv = ["sprocketmq", "serve"]
        from sprocketmq.cli.__main__ import main
        main()
    """
    done = run(python, program, str(Path(str(metadata.distribution("click").locate_file("")))))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("sprocketmq: the broker needs the package numpy, which is not installed;")
    assert done.stderr.endswith("pip install 'sprocketmq[broker]'\n")
    assert done.stderr.count("\n") == 1


def test_the_lock_names_no_registry():
    assert "://" not in (ROOT / "requirements.lock").read_text()
