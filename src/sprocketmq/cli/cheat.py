# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq cheat``: the tasks that people look up, each one line."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

import click

from sprocketmq.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Task:
    topic: str
    wish: str
    command: str
    """What is typed behind ``sprocketmq``."""


# The first 25 are one story, which tests tell at our servers and at Apache's, in this order, and which the guide prints.
TASKS: Final = tuple(
    Task(*task)
    for task in (
        ("topics", "create a topic", "topic create orders --queues 4"),
        ("topics", "list the topics", "topic list"),
        ("messages", "send a message", """send orders '{"id": 1}' --key order-1 --tag paid"""),
        ("messages", "send a file of messages", "send orders --file orders.jsonl"),
        ("messages", "print the last messages (-f: follow)", "tail orders --last 3"),
        ("messages", "print messages with a tag from the last 5 minutes", "tail orders --since 5m --tag paid"),
        (
            "messages",
            "copy messages to another topic, or cluster",
            "tail orders --from-beginning --json | sprocketmq send orders-copy --file -",
        ),
        ("messages", "send a message that is delivered later", "send orders later --delay 1s --tag paid"),
        ("messages", "find a message by its key", "message find orders --key order-1"),
        ("messages", "show a message", "message show ID --topic orders"),
        ("groups", "list the members of a group that are online", "group members billing"),
        ("messages", "see which groups have consumed a message", "message track ID --topic orders"),
        (
            "groups",
            "have one member consume a message again",
            "message redeliver ID --topic orders --group billing",
        ),
        ("groups", "print the stacks of a group's threads", "group stack billing"),
        ("groups", "see how far a group is behind", "lag billing"),
        ("groups", "exit code 3 if it is too far behind, for alarms", "lag billing --fail-over 1000"),
        ("groups", "find out why a group makes no progress", "group doctor billing"),
        ("groups", "consume the last hour again", "group reset billing --topic orders --to 1h --yes"),
        ("dead letters", "list the dead letters of a group, with reasons", "dead-letters list billing"),
        ("dead letters", "send the dead letters again", "dead-letters replay billing --all"),
        ("groups", "disable a group (--enable: enable it)", "group alter billing --disable"),
        ("topics", "give a topic more queues", "topic alter orders --queues 8"),
        ("brokers", "see which brokers are up, and which are gone", "broker list"),
        (
            "brokers",
            "change a setting of a running broker",
            "broker config set broker-a maxMessageSize=4194305",
        ),
        ("topics", "delete a topic", "topic delete orders --yes"),
        ("spark", "see which messages a stopped query has read", "spark-checkpoint show ./checkpoint"),
        (
            "spark",
            "have a stopped query read a queue again",
            "spark-checkpoint rewind ./checkpoint orders/broker-a/0 7",
        ),
        ("spark", "finish what a killed transactional write began", "settle --group orders-writer --topic orders"),
        ("this machine", "run a RocketMQ with a console", "serve --store ./store --console"),
        ("this machine", "run the consumers of a module, again when it changes", "run billing:consumer --reload"),
        ("this machine", "run three brokers", "cluster up -n 3"),
        ("this machine", "see a cluster in the browser", "console -n host-a:9876"),
        ("this machine", "save a cluster under a name", "context add prod -n 'host-a:9876;host-b:9876' --use"),
    )
)


@click.command()
@click.argument("words", metavar="[TOPIC]", nargs=-1)
def cheat(words: tuple[str, ...]) -> None:
    """Print the commands that people look up.

    TOPIC is topics, messages, groups, 'dead letters', brokers, spark or 'this machine', or any word of a line.
    """
    wanted = " ".join(words).lower()
    topics = list(dict.fromkeys(task.topic for task in TASKS))
    found = [task for task in TASKS if not wanted or wanted.replace("-", " ") in (task.topic, f"{task.topic[:-1]}")]
    found = found or [task for task in TASKS if wanted in f"{task.wish} {task.command}".lower()]
    if not found:
        near = difflib.get_close_matches(wanted, topics)
        known = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(topics)}"
        raise ConfigurationError(f"no line is about {wanted!r}; {known}")
    width = max(len(task.wish) for task in found)
    for topic in topics:
        lines = [task for task in found if task.topic == topic]
        if lines:
            click.echo(click.style(topic, bold=True))  # without colours where they are not shown
        for task in lines:
            click.echo(f"  {task.wish:<{width}}  sprocketmq {task.command}")
