# SPDX-License-Identifier: Apache-2.0
"""The command line at Apache's own servers, both generations: the 25 tasks, and what a broker lacks, said in one sentence."""

from __future__ import annotations

import time

from cli_run import CommandLine
from cli_tasks import TASKS, Story
from interop.peers import APACHE_4


def test_each_task_is_one_line(apache, tmp_path):
    story = Story(apache.namesrv_addr, f"told-{time.time_ns()}", tmp_path, patience_s=120)
    with story.told():
        for number, task in enumerate(TASKS, 1):
            ended = story.do(task)
            print(f"\n{number}. {task.wish}: sprocketmq {task.command}\n{ended.out.strip()}")


def test_what_a_broker_lacks_is_one_sentence(apache):
    line = CommandLine(apache.namesrv_addr)
    topic = f"lacks-{time.time_ns()}"
    line.ok(f"topic create {topic} --queues 1")
    is_old = apache.version == APACHE_4
    for command, lacking in (
        (f"send {topic} x --delay 7s", "--delay with one of 1s 1s 1s 1s is allowed"),
        (f"send {topic} x --at +1s", "does not support --at"),
        (f"topic alter {topic} --attribute message.type=NORMAL", "does not support topic attributes"),
        ("user list", "has no users and policies"),
        ("acl show ann", "has no users and policies"),
    ):
        ended = line.run(command)
        if is_old:
            assert (ended.code, ended.out) == (2, ""), ended
            assert lacking in ended.err
        elif not command.startswith(("user", "acl")):  # 5.x without a place for users answers with a system error
            assert ended.code == 0, ended
        assert len(ended.err.splitlines()) <= 1
    line.ok(f"topic delete {topic} --yes")
