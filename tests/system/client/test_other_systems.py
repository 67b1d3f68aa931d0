# SPDX-License-Identifier: Apache-2.0
"""What the code asks of a system: a process that lost all that Windows lacks runs a broker in memory and clients all the same.

This is no Windows, and finds only what is missing there: names of modules, calls and event loop. The workflow runs the tests on real ones.
"""

from __future__ import annotations

import subprocess
import sys

TAKE_AWAY = '''
import asyncio, concurrent.futures, ctypes, logging, mmap, multiprocessing, os, pathlib, random, shutil, signal, socket, ssl
import subprocess, sys, tempfile, threading, urllib.request
import cryptography.x509, lark, msgspec, numpy, yaml

for module in ("fcntl", "grp", "pwd", "resource", "termios", "uvloop"):
    sys.modules[module] = None
NAMES = """
chown chroot fchmod fchown fdatasync fork forkpty getegid geteuid getgid getloadavg getpgid getuid killpg lchown
mkfifo nice posix_fadvise posix_fallocate pread preadv pwrite pwritev register_at_fork sched_getaffinity
sched_setaffinity sendfile setsid statvfs sync sysconf uname wait O_DIRECTORY O_CLOEXEC O_DSYNC O_NONBLOCK O_SYNC
"""
for name in NAMES.split():
    if hasattr(os, name):
        delattr(os, name)
for name in [name for name in vars(mmap) if name.startswith(("MAP_", "PROT_", "MADV_"))]:
    delattr(mmap, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE", "SIGALRM", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("SO_REUSEPORT",):  # AF_UNIX is what this system makes the pipe of a loop of
    delattr(socket, name)


def refuse(*_):
    raise NotImplementedError


for name in ("add_signal_handler", "remove_signal_handler", "add_reader", "add_writer"):
    setattr(asyncio.SelectorEventLoop, name, refuse)
sys.platform = "win32"
'''
CLIENTS = """
import queue
import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

come = queue.Queue()
with EmbeddedRocketMQ(clock="system") as rocketmq:
    rocketmq.create_topic("flights", queues=2)
    with rmq.Producer("ops", namesrv_addr=rocketmq.namesrv_addr) as producer:
        for number in range(3):
            producer.send(rmq.Message("flights", b"%d" % number, tags="UA"))
    consumer = rmq.PushConsumer("delays", namesrv_addr=rocketmq.namesrv_addr,
                                consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("flights", rmq.sql92("TAGS = 'UA'"))
    consumer.on_message(lambda message: come.put(message.body.decode()))
    with consumer:
        print(*sorted(come.get(timeout=60) for _ in range(3)))
"""
IMPORTS = """
import importlib, pkgutil
import click, matplotlib, pandas, pyarrow, pyspark.sql, pytest, rich.console, uvicorn
import sprocketmq

for module in pkgutil.walk_packages(sprocketmq.__path__, "sprocketmq."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_a_broker_in_memory_and_clients_run_without_what_windows_lacks():
    done = run(TAKE_AWAY + CLIENTS)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0", "1", "2"], "")


def test_every_module_can_be_imported_without_what_windows_lacks():
    modules, own = IMPORTS.split("import sprocketmq\n")
    done = run(modules + TAKE_AWAY + "import sprocketmq\n" + own)
    assert (done.returncode, done.stderr) == (0, "")
