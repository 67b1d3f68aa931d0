"""Mutants of what an answer carries beside its result, as Apache's does."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["ANSWER_MUTANTS"]

HANDLERS = "src/sprocketmq/broker/handlers"

ANSWER_MUTANTS = [
    Mutant(
        "answers",
        "a refused send does not say in which region it was refused",
        f"{HANDLERS}/messages/send.py",
        "if answer is not None and answer.code:",
        "if answer is not None and answer.code and False:",
        "tests/inproc/broker/test_broker_send.py::test_a_refused_send_names_region_and_trace_too",
    ),
    Mutant(
        "answers",
        "a pull is answered without the flags of its topic",
        f"{HANDLERS}/messages/pull.py",
        '"topicSysFlag": str(broker.topics.table[topic].topic_sys_flag),',
        "",
        "tests/inproc/broker/test_broker_pull.py::test_records_come_with_the_next_offset_and_the_range",
    ),
]
