# SPDX-License-Identifier: Apache-2.0
"""Programs that run Python in unusual ways: ends of the interpreter, forks, replaced threads, other event loops.

The hosts that need packages which the project does not have are in ``test_more_hosts.py``. docs/guides/hosts.md is the table for users.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.rocketmq(clock="system")

BEGIN = """
import os, sys
import sprocketmq as rmq

address = sys.argv[1]
message = rmq.Message("hosts", b"1")
"""

MAKES_CALLS = """
class AtTheEnd:
    def __del__(self):
        for name, call in calls.items():
            try:
                call()
            except Exception as error:
                print(name, type(error).__name__, flush=True)
            else:
                print(name, "ended", flush=True)
"""

# The names of a module that begin with an underscore are deleted first, as the interpreter ends: the clients still exist then.
AT_THE_END = """
common = {"namesrv_addr": address}
producer = rmq.Producer("host", **common)
transactions = rmq.TransactionProducer("keeper", check=lambda message: rmq.TransactionState.COMMIT, **common)
puller = rmq.PullConsumer("pulling", **common)
pusher = rmq.PushConsumer("pushed", **common)
admin = rmq.Admin(**common)
letters = rmq.DeadLetters("pushed", **common)
puller.subscribe("hosts")
pusher.subscribe("hosts")
messages = pusher.messages()
for client in (producer, transactions, puller, messages, admin, letters):
    client.__enter__()
producer.send(message)
calls = {
    "send": lambda: producer.send(message, timeout_ms=500),
    "send_async": lambda: producer.send_async(message).result(),
    "send_async, delayed": lambda: producer.send_async(message, delay_level=1).result(),
    "send_oneway": lambda: producer.send_oneway(message),
    "send_batch": lambda: producer.send_batch([message]),
    "request": lambda: producer.request(message, timeout_ms=500),
    "flush": producer.flush,
    "transaction": lambda: transactions.send_in_transaction(message, execute=print),
    "poll": lambda: puller.poll(timeout_ms=500),
    "receive": lambda: messages.receive(timeout_ms=500),
    "next": lambda: next(messages),
    "health": pusher.health,
    "admin": admin.topics,
    "dead letters": letters.count,
    "a new client": lambda: rmq.Producer("late", **common).start(),
    "shutdown of a producer": producer.shutdown,
    "shutdown of a consumer": pusher.shutdown,
    "shutdown of an admin": admin.shutdown,
}
_at_the_end = AtTheEnd()
"""

# Threads of the package that do not run any more, and for which these calls would wait.
THREADS_AT_THE_END = """
import threading

from sprocketmq.spark.cluster.shared_clients import SharedClients
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.client.metrics import ClientMetrics

store = DiskMessageStore(sys.argv[2])
store.load()
metrics = ClientMetrics()
metrics.serve(0)
shared = SharedClients()
threading.Thread(target=shared.get, args=("key", threading.Event().wait), daemon=True).start()
while not shared._making:
    pass
calls = {"store": store.close, "metrics": metrics.close, "shared clients": lambda: shared.get("key", lambda known: store)}
_at_the_end = AtTheEnd()
"""

MULTIPROCESSING = """
import multiprocessing

def send(address, body):
    with rmq.Producer("host", namesrv_addr=address) as producer:
        producer.send(rmq.Message("hosts", body.encode()))
    print("sent", body, flush=True)

if __name__ == "__main__":
    send(address, "parent")
    context = multiprocessing.get_context(sys.argv[2])
    child = context.Process(target=send, args=(address, "child"))
    child.start()
    child.join()
    print(child.exitcode)
"""

EAGER_TASKS = """
import asyncio

async def main():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    come = asyncio.Queue()
    consumer = rmq.AsyncPushConsumer("eager", namesrv_addr=address,
                                     consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("hosts")

    @consumer.on_message
    async def handle(message):
        await come.put(message.body)

    async with rmq.AsyncProducer("host", namesrv_addr=address) as producer, consumer:
        await producer.send(message)
        await asyncio.gather(*(producer.send_async(rmq.Message("hosts", b"2")) for _ in range(20)))
        print(sorted([await asyncio.wait_for(come.get(), 20) for _ in range(21)])[:2])
    never = rmq.AsyncProducer("host2", namesrv_addr=address)
    starting = asyncio.ensure_future(never.start())
    await never.shutdown()
    await asyncio.gather(starting, return_exceptions=True)
    print(never.is_stopped)

asyncio.run(main())
"""

PATCHED = """
import types
name, function = sys.argv[2:]
sys.modules[name] = types.SimpleNamespace(**{function: lambda module: module in ("thread", "threading")})
for make in (lambda: rmq.Producer("host", namesrv_addr=address), lambda: rmq.Admin(namesrv_addr=address)):
    try:
        make()
    except rmq.ConfigurationError as error:
        print(error)
"""


def run(program: str, *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr."""
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", BEGIN + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_calls_as_the_interpreter_ends(rocketmq):
    rocketmq.create_topic("hosts")
    code, lines, errors = run(MAKES_CALLS + AT_THE_END, rocketmq.namesrv_addr)
    assert (code, errors) == (0, "")
    assert len(lines) == AT_THE_END.count('": ') - 1
    assert [line for line in lines if not line.endswith(" ClosedError")] == [
        "shutdown of a producer ended",
        "shutdown of a consumer ended",
        "shutdown of an admin ended",
    ]


def test_threads_that_have_ended_with_the_interpreter_are_not_waited_for(tmp_path):
    code, lines, errors = run(MAKES_CALLS + THREADS_AT_THE_END, "127.0.0.1:9", str(tmp_path))
    assert (code, errors) == (0, "")
    assert lines == ["store ended", "metrics ended", "shared clients ClosedError"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(rocketmq, tmp_path, method):
    rocketmq.create_topic("hosts")
    script = tmp_path / "program.py"  # spawn imports it in the child
    script.write_text(BEGIN + MULTIPROCESSING)
    command = [sys.executable, str(script), rocketmq.namesrv_addr, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, ["sent parent", "sent child", "0"], "")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
def test_eager_tasks(rocketmq):
    rocketmq.create_topic("hosts")
    assert run(EAGER_TASKS, rocketmq.namesrv_addr) == (0, ["[b'1', b'2']", "True"], "")


@pytest.mark.parametrize(
    ("module", "function"), [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")]
)
def test_threads_that_are_greenlets_are_refused(module, function):
    code, lines, errors = run(PATCHED, "127.0.0.1:9", module, function)
    assert (code, errors, len(lines)) == (0, "", 2)
    assert all(module.partition(".")[0] in line and "gthread" in line for line in lines)
