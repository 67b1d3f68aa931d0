# SPDX-License-Identifier: Apache-2.0
"""One mechanism of the five articles: what it does, which passage describes it, where it is here, and which tests notice when it breaks."""

from __future__ import annotations

from dataclasses import dataclass

# The articles, by the letters that a passage begins with. They read the Java client's source: a passage is named after the method it reads.
ARTICLES = {
    "A": "RocketMQ 客户端消费流程 (how the client consumes: push, clustering)",
    "B": "RocketMQ 是如何管理消费进度的?又是如何保证消息成功消费的? (progress, retry)",
    "C": "RocketMQ 消息“推送”浅析(上) (how push works: PullMessageService, MQClientInstance)",
    "D": "Notes on the pull callback (response codes, processing of the result, correction of offsets)",
    "E": "RocketMQ source code analysis 12 (sequential message flow; RocketMQ 4.6.0)",
}


@dataclass(frozen=True)
class Mechanism:
    """A line of docs/internals/mechanisms.md.

    Args:
        row: "S1" to "S11".
        what: what it does, as a sentence without its dot.
        passage: a letter of ARTICLES and the Java method or heading that describes it.
        file: the file that decides or does it, below ``src/sprocketmq``.
        tests: pytest node ids below ``tests``, separated by blanks: each fails when the mechanism is broken.
        apache: node ids below ``tests/interop`` that show it at Apache's brokers; empty when no broker can see it.
        function: for a decision of ``core``, the function or method of ``file`` that makes it: `make mutation` changes its lines.
            Empty where a mutant of tests/mutants breaks the mechanism.
    """

    row: str
    what: str
    passage: str
    file: str
    tests: str
    apache: str = ""
    function: str = ""
