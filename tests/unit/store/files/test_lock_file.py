# SPDX-License-Identifier: Apache-2.0
"""The lock of a store and forked children: it ends with its owner, whatever children still live, and a child takes nothing from it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sprocketmq.errors import StoreLocked
from sprocketmq.store.files.lock_file import LockFile

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Runs in a process of its own, because a fork copies all threads' locks of the process of the tests.
BEGIN = """
import fcntl, os, signal, sys, threading
from sprocketmq.errors import StoreLocked
from sprocketmq.store.files import lock_file
from sprocketmq.store.files.lock_file import LockFile

store, folder, other = sys.argv[1:]
lock = LockFile(store, [folder])


def say(*words):
    print(*words, flush=True)


def tried(name, *folders):
    "What becomes of another lock, taken on another thread: a lock that a fork left behind would stop that one only."
    outcome = ["waits forever"]

    def take():
        taken = LockFile(name, folders)
        try:
            taken.acquire()
        except StoreLocked as error:
            outcome[0] = str(error).partition(" is in use")[0].replace(str(name), "STORE").replace(folder, "FOLDER")
        else:
            outcome[0] = "acquired"
            taken.release()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(20)
    return outcome[0]


def in_child(run):
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)
    return pid
"""


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / name for name in ("store", "folder", "other")]
    for path in found:
        path.mkdir()
    return found


def program(paths, text):
    return [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + text, *map(str, paths)]


def said(paths, text):
    ended = subprocess.run(program(paths, text), stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return ended.stdout.splitlines()


def test_a_released_folder_is_free_although_another_descriptor_shares_its_lock(paths):
    store, folder, other = paths
    lock = LockFile(str(store), [str(folder)])
    lock.acquire()
    copy = os.dup(lock._folder_fds[0])  # as a child has one, until it closes it
    try:
        with pytest.raises(StoreLocked, match="the folder"):
            LockFile(str(other), [str(folder)]).acquire()
        lock.release()
        again = LockFile(str(other), [str(folder)])
        again.acquire()
        again.release()
    finally:
        os.close(copy)


def test_a_killed_owner_leaves_no_lock_although_its_child_lives(paths):
    text = """
lock.acquire()
def child():
    say("child")
    sys.stdin.read()
    say("lived until now")
in_child(child)
signal.pause()
"""
    store, folder, _ = paths
    pipe = subprocess.PIPE
    with subprocess.Popen(program(paths, text), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "child\n"
        process.kill()
        process.wait(60)
        lock = LockFile(str(store), [str(folder)])
        lock.acquire()
        lock.release()
        process.stdin.close()
        assert process.stdout.read() == "lived until now\n"


def test_a_child_may_not_use_its_parents_store_before_the_parent_released_it(paths):
    text = """
lock.acquire()
released, release = os.pipe()
tell, told = os.pipe()
def child():
    lock.release()  # the copy; the parent has its lock still
    say("child:", tried(store, folder), "|", tried(other, folder))
    os.write(told, b"!")
    os.read(released, 1)
    say("child after the release:", tried(store, folder))
pid = in_child(child)
os.read(tell, 1)
say("parent:", tried(store, folder), "|", tried(other, folder))
lock.release()
os.write(release, b"!")
os.waitpid(pid, 0)
"""
    assert said(paths, text) == [
        "child: the store directory STORE | the folder FOLDER",
        "parent: the store directory STORE | the folder FOLDER",
        "child after the release: acquired",
    ]


def test_a_fork_waits_until_another_thread_has_acquired_its_lock(paths):
    text = """
flock, entered, forked = fcntl.flock, threading.Event(), threading.Event()
def slow(fd, how):
    flock(fd, how)
    entered.set()
    forked.wait(0.3)  # a fork that does not wait comes now
fcntl.flock = slow
thread = threading.Thread(target=lock.acquire)
thread.start()
entered.wait(20)
def child():
    fcntl.flock = flock
    same = 0
    for fd in range(3, 64):
        try:
            same += os.path.sameopenfile(fd, opened)
        except OSError:
            pass
    say("the child has", same - 1, "descriptors of the folder, and", tried(other))
opened = os.open(folder, os.O_RDONLY)
pid = in_child(child)
forked.set()
thread.join()
os.waitpid(pid, 0)
"""
    assert said(paths, text) == ["the child has 0 descriptors of the folder, and acquired"]
