# SPDX-License-Identifier: Apache-2.0
"""One example of each kind of addition that docs/adding.md describes: which files it touches, and a program that uses what was added.

An addition is made in a copy of the sources (``added``), so the number of files is what such a change takes today. Edits look for one
short line each; where such a line has changed, the failure names the file and the line that is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ADDITIONS", "ROOT", "Addition", "added", "run"]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/sprocketmq"


@dataclass(frozen=True)
class Edit:
    """Text that is put behind the one line that ``after`` matches; an empty ``after`` makes a new file."""

    path: str
    after: str
    text: str


@dataclass(frozen=True)
class Addition:
    """``most_files``: how many files of ``src`` it may touch. ``scripts`` write generated files anew, which are not counted."""

    name: str
    most_files: int
    edits: tuple[Edit, ...]
    proof: str
    scripts: tuple[str, ...] = field(default=())

    @property
    def files(self) -> list[str]:
        return sorted({edit.path for edit in self.edits})


def added(addition: Addition, folder: Path) -> Path:
    """A copy of sources and scripts with the addition made in it."""
    for part in ("src", "scripts"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("docs/decisions", "docs/spark"):
        (folder / part).mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for edit in addition.edits:
        path = folder / PACKAGE / edit.path
        if not edit.after:
            assert not path.exists(), f"{edit.path} is there already"
            path.write_text(edit.text, "utf-8")
            continue
        text = path.read_text("utf-8")
        found = list(re.finditer(edit.after, text, re.MULTILINE))
        assert len(found) == 1, f"{edit.path}: {edit.after!r} matches {len(found)} times instead of once"
        text = text[: found[0].end()] + edit.text + text[found[0].end() :]
        path.write_text(text, "utf-8")
    for script in addition.scripts:
        run(folder, str(folder / script))
    return folder


def run(folder: Path, *arguments: str) -> str:
    """What a program prints that finds the package in ``folder``."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={
            "PYTHONPATH": str(folder / "src"),
            "PATH": str(Path(sys.executable).parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# A record's layout is Apache's, so no release will do this; it shows that nothing but the table and its one writer knows the fields.
RECORD_FIELD = Addition(
    "record field",
    2,
    (
        Edit(
            "wire/records/record_layout.py",
            r'^    \("prepared_transaction_offset", "q"\),\n',
            '    ("priority", "i"),\n',
        ),
        Edit("wire/records/record.py", r"^    prepared_transaction_offset: int = 0,\n", "    priority: int = 0,\n"),
        Edit(
            "wire/records/record.py", r"^                prepared_transaction_offset,\n", "                priority,\n"
        ),
        Edit("wire/records/record.py", r"^        reconsume_times,\n        0,\n", "        0,\n"),
        Edit(
            "wire/records/record.py",
            r"^            self\.prepared_transaction_offset,\n",
            "            self.priority,\n",
        ),
        Edit("wire/records/record.py", r'^        "prepared_transaction_offset",\n', '        "priority",\n'),
    ),
    """
import pathlib, tempfile
import sprocketmq as rmq
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.store.tools.check import check_directory
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.record import RecordView, encode_record

hosts = {"born_host": (bytes(16), 1), "store_host": (bytes(4), 2)}
times = {"born_timestamp_ms": 3, "store_timestamp_ms": 4}
view = RecordView(encode_record(b"t", b"body", b"", queue_id=0, queue_offset=5, physical_offset=6, priority=7, **hosts, **times))
assert (view.priority, view.queue_offset, bytes(view.body)) == (7, 5, b"body")

store = pathlib.Path(tempfile.mkdtemp())
with EmbeddedRocketMQ(clock="system", store_dir=store, mappedFileSizeCommitLog=1 << 20) as mq:
    with mq.producer("p") as producer:
        producer.send(rmq.Message("flights", b"one", keys="k"))
        producer.send_batch([rmq.Message("flights", b"%d" % n) for n in range(3)])
    mq.restart_broker()
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights"})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sorted(body for batch in batches for body in batch.column("body").to_pylist()) == [b"0", b"1", b"2", b"one"]
    assert sorted(m.body for m in mq.messages("flights")) == [b"0", b"1", b"2", b"one"]
assert not [problem for problem in check_directory(store) if not problem.note]
""",
)

REQUEST = Addition(
    "request",
    3,
    (
        Edit("wire/codes.py", r"^    GET_MIN_OFFSET = 31\n", "    COUNT_MESSAGES = 30_002\n"),
        Edit(
            "wire/requests/offsets.py",
            r"^from sprocketmq\.wire\.requests\.declaration import Peer, Request\n",
            """from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class CountMessagesRequestHeader(ExtHeader):
    topic: str
    queue_id: Int32


class CountMessagesResponseHeader(ExtHeader):
    count: Int64


COUNT_MESSAGES = Request(
    code=RequestCode.COUNT_MESSAGES,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=CountMessagesRequestHeader,
    answer_header=CountMessagesResponseHeader,
)
""",
        ),
        Edit(
            "broker/handlers/group/offsets.py",
            r"^_NO_CORRECTION: Final = .*\n",
            """

def count_messages(broker: BrokerController, target: Target, command: Command, now_ms: int) -> Command:
    header = command.header(requests.offsets.CountMessagesRequestHeader)
    low = broker.store.min_offset(header.topic, header.queue_id)
    count = broker.store.max_offset(header.topic, header.queue_id) - low
    return response(command, header=requests.offsets.CountMessagesResponseHeader(count=count))
""",
        ),
        Edit(
            "broker/handlers/group/offsets.py",
            r"^HANDLERS = \{\n",
            "    requests.offsets.COUNT_MESSAGES: count_messages,\n",
        ),
    ),
    """
import asyncio
import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire import requests

with EmbeddedRocketMQ() as mq:
    mq.create_topic("flights", queues=1)
    with mq.producer("p") as producer:
        for body in (b"1", b"2"):
            queue = producer.send(rmq.Message("flights", body)).message_queue

    async def ask():
        async with rmq.AsyncAdmin(namesrv_addr=mq.namesrv_addr) as admin:
            header = requests.offsets.CountMessagesRequestHeader(topic="flights", queue_id=queue.queue_id)
            return await admin._ask_header(mq.broker_addr, requests.offsets.COUNT_MESSAGES, header)

    assert asyncio.run(ask()).count == 2
""",
)

OPTION = Addition(
    "option of a client",
    2,
    (
        Edit(
            "client/settings/pull_settings.py",
            r"^    poll_timeout_ms: int = 5_000\n",
            "    poll_at_most: int = 1 << 20\n",
        ),
        Edit(
            "client/settings/pull_settings.py",
            r"^        poll_timeout_ms: how long .*\n",
            "        poll_at_most: messages that one ``poll`` hands out, whatever it asks for.\n",
        ),
        Edit(
            "client/settings/pull_settings.py",
            r'^    \("poll_timeout_ms", 0, _MAX_INT\),\n',
            '    ("poll_at_most", 1, _MAX_INT),\n',
        ),
        Edit(
            "client/consume/async_pull_consumer.py",
            r'^        check_range\("max_messages", max_messages, 1, 1 << 20\)\n',
            "        max_messages = min(max_messages, self._settings.poll_at_most)\n",
        ),
    ),
    """
import inspect
from typing import get_type_hints
import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

assert get_type_hints(rmq.PullConsumerOptions)["poll_at_most"] is int
assert "poll_at_most: messages that one" in inspect.getdoc(rmq.PullConsumerOptions)
with EmbeddedRocketMQ(clock="system") as mq:
    with mq.producer("p") as producer:
        for body in (b"1", b"2"):
            producer.send(rmq.Message("flights", body))
    first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    with mq.pull_consumer("g", consume_from_where=first, poll_at_most=1) as consumer:
        consumer.subscribe("flights")
        assert len(consumer.poll(10, timeout_ms=20_000)) == 1
    try:
        rmq.PullConsumer("g", namesrv_addr=mq.namesrv_addr, poll_at_most=0)
    except rmq.ConfigurationError as error:
        assert "poll_at_most" in str(error)
    else:
        raise AssertionError
""",
    scripts=("scripts/keyword-options",),
)

BROKER_KEY = Addition(
    "key of broker.conf",
    2,
    (
        Edit("broker/settings/config.py", r'^    metrics_label: str = ""\n', '    metrics_zone: str = ""\n'),
        Edit(
            "broker/observe/metrics.py",
            r"^    now_ms = broker\.clock\.now_ms\(\)\n(?=    yield \"rocketmq_broker_permission)",
            '    yield "rocketmq_topic_number", {"zone": broker.config.metrics_zone}, 1\n',
        ),
    ),
    """
from sprocketmq.broker.observe.metrics import collect_samples
from sprocketmq.testing import EmbeddedRocketMQ

with EmbeddedRocketMQ(metricsZone="east") as mq:
    assert next(collect_samples(mq.broker))[1] == {"zone": "east"}
""",
)

SPARK_OPTION = Addition(
    "option of Spark",
    2,
    (
        Edit(
            "spark/options/option_table.py",
            r'^    _read\("pullTimeoutMs".*\n',
            '    _count("read", "batchPulls", "none", "pulls that make one batch of rows at most"),\n',
        ),
        Edit("spark/options/read_options.py", r"^    pull_timeout_ms: int\n", "    batch_pulls: int | None\n"),
        Edit(
            "spark/options/read_options.py",
            r"^        pull_timeout_ms=given.*\n",
            '        batch_pulls=given.count("batchPulls"),\n',
        ),
    ),
    """
import pathlib
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.source import RocketMQDataSource

def reader(**options):
    source = RocketMQDataSource({"namesrvaddr": "127.0.0.1:1", "topic": "flights", **options})
    return source.reader(source.schema())

assert reader(batchpulls="3")._options.batch_pulls == 3
try:
    reader(batchpulls="none")
except ConfigurationError as error:
    assert "batchPulls" in str(error)
else:
    raise AssertionError
assert "| `batchPulls` |" in pathlib.Path("docs/spark/options.md").read_text()
""",
    scripts=("scripts/spark-options",),
)

SPARK_COLUMN = Addition(
    "column of Spark",
    2,
    (
        Edit("spark/options/source_columns.py", r'^    "sysFlag": "int",\n', '    "flag": "int",\n'),
        Edit("spark/columns/decode.py", r"^_BUILDERS: Final.*\{\n", '    "flag": _integers("flag", np.int32),\n'),
    ),
    """
import sprocketmq as rmq
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

with EmbeddedRocketMQ(clock="system") as mq:
    with mq.producer("p") as producer:
        producer.send(rmq.Message("flights", b"1", flag=7))
        producer.send(rmq.Message("flights-" + "x" * 110, b"1", flag=8))
    for topic, flag in (("flights", 7), ("flights-" + "x" * 110, 8)):
        source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": topic})
        assert "flag" in source.schema().fieldNames()
        reader = source.reader(source.schema())
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        assert [row["flag"] for row in rows] == [flag]
""",
)

BROKER_METRIC = Addition(
    "metric of the broker",
    2,
    (
        Edit(
            "broker/observe/metrics.py",
            r"^_FAMILIES: Final = \{\n",
            '    "sprocketmq_offsets": ("gauge", "Offsets of groups"),\n',
        ),
        Edit(
            "broker/observe/metrics.py",
            r"^    now_ms = broker\.clock\.now_ms\(\)\n(?=    yield \"rocketmq_broker_permission)",
            '    yield "sprocketmq_offsets", {}, 5\n',
        ),
    ),
    """
from urllib.request import urlopen
from sprocketmq.testing import EmbeddedRocketMQ

with EmbeddedRocketMQ(metricsExporterType="PROM", metricsPromExporterPort=0) as mq:
    with urlopen(f"http://127.0.0.1:{mq.broker.metrics.port}/metrics") as page:
        assert b"sprocketmq_offsets{" in page.read()
""",
)

CLIENT_METRIC = Addition(
    "metric of clients",
    2,
    (
        Edit(
            "client/metrics.py",
            r"^_FAMILIES: Final = \{\n",
            '    "sprocketmq_clients": ("gauge", "Clients watched"),\n',
        ),
        Edit(
            "client/metrics.py",
            r"^        samples: list\[_Sample\] = \[\]\n",
            '        samples.append(("sprocketmq_clients", {}, len(self._clients)))\n',
        ),
    ),
    """
from urllib.request import urlopen
import sprocketmq as rmq

metrics = rmq.ClientMetrics(rmq.Producer("p", namesrv_addr="127.0.0.1:1"))
with urlopen(f"http://127.0.0.1:{metrics.serve(0)}/metrics") as page:
    assert b"sprocketmq_clients 1.0" in page.read()
metrics.close()
""",
)

COMMAND = Addition(
    "command",
    2,
    (
        Edit(
            "cli/main.py",
            r'^        "broker": "commands.broker",\n',
            '        "clusters": "commands.clusters",\n',
        ),
        Edit(
            "cli/commands/clusters.py",
            "",
            '''"""``sprocketmq clusters``."""

import click

from sprocketmq.cli.frame.target import Target, connects
from sprocketmq.cli.frame.output import Column, Output, shows


@click.command()
@shows
@connects
def clusters(target: Target, output: Output) -> None:
    """The clusters, by name."""
    with target.admin() as admin:
        names = admin.cluster_info().cluster_addr_table
    output.rows([Column("cluster")], [{"cluster": name} for name in names])
''',
        ),
    ),
    """
import subprocess, sys
from sprocketmq.testing import EmbeddedRocketMQ

def said(*arguments):
    return subprocess.run([sys.executable, "-m", "sprocketmq.cli", *arguments], capture_output=True, text=True, check=True).stdout

assert "The clusters, by name." in said("--help")
with EmbeddedRocketMQ(clock="system") as mq:
    assert said("clusters", "-n", mq.namesrv_addr) == "cluster\\nDefaultCluster\\n"
""",
)

ADDITIONS = (
    RECORD_FIELD,
    REQUEST,
    OPTION,
    BROKER_KEY,
    SPARK_OPTION,
    SPARK_COLUMN,
    BROKER_METRIC,
    CLIENT_METRIC,
    COMMAND,
)
