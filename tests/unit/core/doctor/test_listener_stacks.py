# SPDX-License-Identifier: Apache-2.0
"""Stacks of Java members and of ours: who is in a listener, and on which line."""

from __future__ import annotations

import pytest

from sprocketmq.core.doctor.listener_stacks import listener_stacks

JAVA_STUCK = [
    "java.base@17.0.9/java.lang.Thread.sleep(Native Method)",
    "app//com.acme.Delays.charge(Delays.java:31)",
    "com.acme.Delays.consumeMessage(Delays.java:20)",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService$ConsumeRequest.run(ConsumeMessageConcurrentlyService.java:402)",
    "java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1136)",
]
JAVA_IDLE = [
    "jdk.internal.misc.Unsafe.park(Native Method)",
    "java.util.concurrent.LinkedBlockingQueue.take(LinkedBlockingQueue.java:435)",
]
OURS_STUCK = [
    "socket.SocketIO.readinto(socket.py:720)",
    "app.charge(app.py:31)",
    "app.on_order(app.py:12)",
    "sprocketmq.client.listen.listener_call.ListenerCall._call(listener_call.py:140)",
    "threading.Thread.run(threading.py:982)",
]
OURS_IDLE = [
    "threading.Condition.wait(threading.py:327)",
    "sprocketmq.client.listen.thread_listener_pool.ThreadListenerPool._work(thread_listener_pool.py:90)",
]


def stacks(**threads: list[str]) -> str:
    """As Java's UtilAll.jstack lays them out, and ours."""
    lines = []
    for name, frames in threads.items():
        lines += [f"{name:<40}TID: 41 STATE: WAITING", *(f"{name:<40}{frame}" for frame in frames), ""]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        (JAVA_STUCK, "com.acme.Delays.charge(Delays.java:31)"),
        (OURS_STUCK, "app.charge(app.py:31)"),
        (JAVA_IDLE, None),
        (OURS_IDLE, None),
    ],
)
def test_the_innermost_line_of_the_users_code_is_returned(frames, line):
    assert listener_stacks(stacks(worker=frames), "delays") == (() if line is None else (line,))


def test_each_thread_has_one_line_and_idle_ones_have_none():
    text = stacks(a=JAVA_IDLE, b=JAVA_STUCK, c=OURS_IDLE, d=OURS_STUCK)
    assert listener_stacks(text, "delays") == ("com.acme.Delays.charge(Delays.java:31)", "app.charge(app.py:31)")


def test_a_long_name_of_a_thread_with_blanks_changes_nothing():
    name = "a consumer thread whose name is longer than its column"
    assert listener_stacks(stacks(**{name: OURS_STUCK}), "delays") == ("app.charge(app.py:31)",)


def test_the_qualified_name_of_a_lambda_and_a_nested_function_is_shown():
    frames = ["app.main.<locals>.<lambda>(app.py:9)", *OURS_STUCK[3:]]
    assert listener_stacks(stacks(worker=frames), "delays") == ("app.main.<locals>.<lambda>(app.py:9)",)


@pytest.mark.parametrize("text", ["", "nonsense", "\n\n", "x" * 50])
def test_other_text_than_a_stack_has_no_line(text):
    assert listener_stacks(text, "delays") == ()


@pytest.mark.parametrize(
    "pool",
    ["sprocketmq-{}-3", "sprocketmq-{}-12 (task)", "ConsumeMessageThread_{}_7"],
)
def test_listeners_of_other_groups_of_the_process_are_left_out(pool):
    other = [frame.replace("app.", "shop.") for frame in OURS_STUCK]
    text = stacks(**{pool.format("delays"): OURS_STUCK, pool.format("delays-2"): other, pool.format("shop"): other})
    assert listener_stacks(text, "delays") == ("app.charge(app.py:31)",)
    assert len(listener_stacks(text, "shop")) == 1


def test_threads_of_old_java_clients_which_do_not_name_the_group_count():
    assert listener_stacks(stacks(ConsumeMessageThread_1=JAVA_STUCK), "delays")
    long = "g" * 120
    assert listener_stacks(stacks(**{f"ConsumeMessageThread_{long[:100]}_1": JAVA_STUCK}), long)
