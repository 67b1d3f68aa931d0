# SPDX-License-Identifier: Apache-2.0
"""Values that no parameter can mean: each parameter of the public API is given each of them, and answers in a sentence that names it.

The parameters are read from the signatures, so a new one is tried without being asked for; what it takes is read from its annotation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from public_verbs import caller, parameters_of, verbs

import sprocketmq as rmq
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.client.settings.send_settings import SendSettings

# Of the kinds of values, each is wrong for whatever is not of that kind.
ODD: Final[tuple[tuple[str, Any], ...]] = (
    ("None", None),
    ("bool", True),
    ("int", -1),
    ("int", 1 << 80),
    ("float", math.nan),
    ("float", math.inf),
    ("float", 1.5),
    ("str", ""),
    ("str", " "),
    ("str", "a\x00\nb"),
    ("str", "a\x01b\x02TAGS\x01forged"),
    ("str", "\ud800"),
    ("bytes", b"x"),
    ("object", object()),
    ("list", [object()]),
    ("dict", {5: object()}),
)
# Words with which a sentence says what to do.
_SAYS: Final = (
    "allowed|needed|must|reserved|unknown|remove|separate|leave|needs|write|pass|which is|the methods are|there are"
)

# What a parameter may be given although it looks wrong, and why.
ALLOWED: Final[dict[str, tuple[Any, ...]]] = {
    "expression": ("", None),  # Java: both mean all
    "delay_level_when_next_consume": (-1,),
    "flag": (-1,),  # any int32
    "max_reconsume_times": (-1,),  # 16
    "send_msg_max_timeout_per_request_ms": (-1,),  # no limit of its own
    "pull_threshold_for_topic": (-1,),
    "pull_threshold_size_for_topic": (-1,),
    "access_key": ("",),  # as if it were not given
    "secret_key": ("",),
    "security_token": ("",),
    "local_offset_store_dir": ("",),
    "tags": ("a\x00\nb",),  # any text but the separators, as in Java
    "keys": ("a\x00\nb", "", []),
    "properties": ({},),
    "sharding_key": ("a\x00\nb",),
    **dict.fromkeys(("white_remote_address", "default_topic_perm", "default_group_perm"), ("",)),  # takes it away
    **dict.fromkeys(("name_filter", "subject_filter", "resource_filter"), ("",)),  # fits all
}
# What the sentence calls them.
CALLED: Final = {"limit_ms": "consume_timeout_ms", "offsets": "queue"}
# A serializer decides what it may be.
ANYTHING: Final = frozenset({"value"})


def _may_be(annotation: str, kind: str) -> bool:
    """Whether a value of that kind is of the annotated type."""
    parts = annotation.replace("Mapping", "dict").split(" | ")
    return any(
        part == kind
        or (kind == "list" and part.startswith(("Sequence", "Collection", "Iterable", "list")))
        or (kind == "dict" and part.startswith("dict"))
        or (kind == "int" and part == "float")
        for part in parts
    )


def _wrong(name: str, annotation: str) -> Iterator[Any]:
    allowed = ALLOWED.get(name, ())
    for kind, value in ODD:
        if kind == "None" and (_may_be(annotation, "None") or annotation == "Any"):
            continue
        if kind == "bool" and _may_be(annotation, "bool"):
            continue
        if kind == "float" and value == 1.5 and _may_be(annotation, "float"):
            continue
        if kind == "bytes" and _may_be(annotation, "bytes"):
            continue
        if any(value is one or (type(value) is type(one) and value == one) for one in allowed):
            continue
        yield value


def _names(text: str, name: str) -> bool:
    words = {
        name,
        CALLED.get(name, name),
        name.replace("_", " "),
        name.rstrip("s"),
        re.sub(r"ies$", "y", name),
        re.sub(r"_(ms|s)$", "", name),
    }
    return any(word in text for word in words)


def _tried(name: str, annotation: str, call: Callable[[Any], Any]) -> list[str]:
    """What went wrong, one line per value."""
    faults = []
    for value in _wrong(name, annotation):
        try:
            answer = call(value)
        except rmq.RocketMQError as error:
            text = str(error)
            is_clear = _names(text, name) and re.search(_SAYS, text)
            if not isinstance(error, rmq.ConfigurationError):
                faults.append(f"{name}={value!r:.40}: {type(error).__name__}: {text[:120]}")
            elif not is_clear:
                faults.append(f"{name}={value!r:.40}: does not say enough: {text[:160]}")
        except Exception as error:  # noqa: BLE001 - which is what this is about
            faults.append(f"{name}={value!r:.40}: bare {type(error).__name__}: {str(error)[:120]}")
        else:
            faults.append(f"{name}={value!r:.40}: taken, answer {answer!r:.60}")
    return faults


@pytest.mark.parametrize("verb", list(verbs()), ids=lambda verb: f"{verb.owner}-{verb.name}-{len(verb.parameters)}")
def test_each_argument_of_each_verb(server, clients, verb):
    call = caller(verb, clients, server)
    faults: list[str] = []
    for name, annotation in verb.parameters.items():
        if name not in ANYTHING:
            faults += _tried(name, annotation, lambda value, name=name: call({name: value}))
    assert not faults, f"{verb.owner}.{verb.name}:\n" + "\n".join(faults)


ADDRESS: Final = {"namesrv_addr": "127.0.0.1:9876"}
MADE: Final[dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[Any, ...]]]] = {
    "Message": (rmq.Message, {"topic": "flights", "body": b"x"}, (rmq.Message.__init__,)),
    "sql92": (rmq.sql92, {"expression": "a > 1"}, (rmq.sql92,)),
    "Producer": (rmq.Producer, {"group": "g", **ADDRESS}, (ClientOptions, SendSettings)),
    "PushConsumer": (rmq.PushConsumer, {"group": "g", **ADDRESS}, (PushSettings,)),
    "PullConsumer": (rmq.PullConsumer, {"group": "g", **ADDRESS}, (PullSettings,)),
    "TransactionProducer": (
        rmq.TransactionProducer,
        {"group": "g", "check": print, **ADDRESS},
        (rmq.TransactionProducer.__init__,),
    ),
    "QueueReader": (rmq.QueueReader, ADDRESS, (rmq.QueueReader.__init__,)),
    "DeadLetters": (rmq.DeadLetters, {"group": "g", **ADDRESS}, (rmq.DeadLetters.__init__,)),
}


@pytest.mark.parametrize("made", MADE)
def test_each_argument_of_each_constructor(made):
    build, base, sources = MADE[made]
    parameters: dict[str, str] = {}
    for source in sources:
        parameters |= dict(source.__annotations__) if hasattr(source, "__struct_fields__") else parameters_of(source)
    faults: list[str] = []
    for name, annotation in parameters.items():
        if name != "from_environment" and (made, name) != ("Message", "topic"):  # looked at when it is sent
            faults += _tried(name, annotation, lambda value, name=name: build(**{**base, name: value}))
    assert not faults, f"{made}:\n" + "\n".join(faults)


@pytest.mark.parametrize("name", ["topic", "body", "flag"])
def test_what_is_put_into_a_message_later_is_looked_at_when_it_is_sent(server, clients, name):
    with rmq.Producer("batches", namesrv_addr=server.namesrv_addr, auto_batch=True, batch_max_delay_ms=50) as batches:
        batches.send(rmq.Message("flights", b"x"))

        def send(how: str, value: Any) -> Any:
            message = rmq.Message("flights", b"x")
            setattr(message, name, value)
            if how == "send_async":
                return clients["producer"].send_async(message).result(20)
            if how == "auto_batch":
                opened = batches.send_async(rmq.Message("flights", b"x"))  # a batch that it may join
                try:
                    return batches.send_async(message).result(20)
                finally:
                    opened.result(20)
            return getattr(clients["producer"], how)([message] if how == "send_batch" else message)

        annotation = {"topic": "str", "body": "bytes", "flag": "int"}[name]
        for how in ("send", "send_oneway", "send_batch", "send_async", "auto_batch"):
            faults = _tried(name, annotation, lambda value, how=how: send(how, value))
            assert not faults, f"{how}:\n" + "\n".join(faults)


@pytest.mark.parametrize("how", ["send", "send_oneway", "send_batch", "send_async", "auto_batch"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("a", "a\x02TAGS\x01forged"),
        ("a", "a\x02"),
        ("TAGS\x01forged", "a"),
        ("a\x02TAGS", "forged"),
        ("a", 5),
        ("a", b"x"),
        ("a", None),
        (5, "a"),
        ("a", True),
    ],
)
def test_a_property_that_was_put_in_later_forges_no_other(server, clients, how, key, value):
    producer = clients["producer"]
    message = rmq.Message("flights", b"x", tags="own")
    message.properties[key] = value
    before = len(server.messages("flights"))
    with rmq.Producer("batches", namesrv_addr=server.namesrv_addr, auto_batch=True) as batches:
        batches.send(rmq.Message("flights", b"first"))  # from here on a batch is open to what takes no thought

        def send() -> Any:
            if how.endswith(("async", "auto_batch")):
                return (batches if how == "auto_batch" else producer).send_async(message).result(20)
            return getattr(producer, how)([message] if how == "send_batch" else message)

        with pytest.raises(rmq.ConfigurationError, match="property .* is .*(convert it|leave it out|remove them)"):
            send()
    assert len(server.messages("flights")) == before + 1


def test_a_consumers_group_is_what_it_was_given_whatever_the_namespace():
    for cls in (
        rmq.Producer,
        rmq.PushConsumer,
        rmq.PullConsumer,
        rmq.AsyncProducer,
        rmq.AsyncPushConsumer,
        rmq.AsyncPullConsumer,
    ):
        assert cls("g", namespace="ns", **ADDRESS).group == "g"
