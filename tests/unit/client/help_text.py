# SPDX-License-Identifier: Apache-2.0
"""Reads a docstring as ``help()`` shows it, and says what is missing in it: the rules of the public API (docs/decisions/0030)."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sprocketmq as rmq
import sprocketmq.spark

_TITLES = ("Args", "Returns", "Yields", "Raises", "Attributes", "Keyword Args", "Note")
_ENTRY = re.compile(r"^    (?P<names>\*{0,2}\w[\w, *]*): (?P<text>.*(?:\n(?:     .*)?)*)", re.MULTILINE)
# The unit that a name ends with, and how a text may say it.
_UNITS = {
    "_ms": r"milliseconds?|\bms\b",
    "_s": r"seconds?|\bs\b",
    "_bytes": r"bytes?|[KM]iB",
    "_mib": r"MiB",
}


def sections(doc: str) -> dict[str, str]:
    """Title -> text, what comes before the first one under ""."""
    parts = re.split(rf"^({'|'.join(_TITLES)}):\n", doc + "\n", flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """Name -> text of a section such as Args; names that share a text have it each."""
    return {
        name.strip(" *"): " ".join(found["text"].split())
        for found in _ENTRY.finditer(section)
        for name in found["names"].split(",")
    }


def members(kind: type) -> Iterator[tuple[str, Callable[..., Any] | property]]:
    """The public methods and properties that ``help(kind)`` shows, those of its bases in this package too."""
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if name.startswith("_") or not any(name in vars(base) for base in kind.__mro__ if _is_ours(base)):
            continue
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        if isinstance(found, property) or inspect.isfunction(found):
            yield name, found


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "sprocketmq"


def said_of_every_method(kind: type) -> str:
    """The paragraphs of a class, and of the classes it is made of, that begin with "Every method"."""
    texts = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in kind.__mro__]
    return "\n\n".join(part for text in texts for part in text.split("\n\n") if part.startswith("Every method"))


def missing_in_verb(verb: Callable[..., Any] | property, *, asks: bool, of_class: str = "") -> list[str]:
    """What ``help()`` does not say of a method or property: neither itself nor by ``of_class``, what the class says of every method.

    ``asks``: whether it asks a server, so that it can fail.
    """
    doc = inspect.getdoc(verb) or ""
    found = list(_of_text(doc))
    if isinstance(verb, property) or not doc:
        return found
    own = entries(sections(doc).get("Args", ""))
    told = _in_sentences(f"{of_class}\n\n{doc}")
    found += _of_parameters(inspect.signature(verb), told | own, own, every=False)
    if asks and "Raises " not in doc and "Raises:" not in doc and "Every method raises" not in of_class:
        found.append("Raises")
    return found


def _in_sentences(text: str) -> dict[str, str]:
    """Name -> the sentences in which it stands as ``name``, up to the next sentence that begins with a name."""
    parts = re.split(r"(?<=[.)])\s+(?=``\w+``:)", text)
    return {name: " ".join(part for part in parts if f"``{name}``" in part) for name in re.findall(r"``(\w+)``", text)}


def missing_in_class(kind: type, *, with_example: bool) -> list[str]:
    """What the text of the class itself does not say: the first sentence, the arguments, an example."""
    doc = vars(kind).get("__doc__") or ""
    doc = inspect.cleandoc(doc)
    found = list(_of_text(doc))
    if with_example and "::\n" not in doc:
        found.append("an example")
    made = vars(kind).get("__init__")
    if inspect.isfunction(made) and made.__code__.co_filename == inspect.getsourcefile(kind):  # not made by a dataclass
        said = entries(sections(doc).get("Args", ""))
        found += _of_parameters(inspect.signature(kind), said, said, every=True)
    return found


def _of_text(doc: str) -> Iterator[str]:
    """A first sentence, own words, and exceptions that a program can import."""
    if not re.match(r"\S[^\n]*?(?:\n[^\n]+?)*?[.:](?:\s|$)", doc):
        yield "a first sentence"
    if re.search(r"\bAs (?:of )?``", doc) or "see above" in doc.lower():
        yield "its own words: it sends its reader elsewhere"
    in_sentences = (
        re.findall(r"(?<=Raises )[A-Z]\w+|(?<=[),] )[A-Z]\w+(?= \()", doc[doc.find("Raises ") :])
        if "Raises " in doc
        else []
    )
    for names in (*entries(sections(doc).get("Raises", "")), *in_sentences):
        error = getattr(rmq, names, None) or getattr(builtins, names, None) or getattr(sprocketmq.spark, names, None)
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            yield f"an exception that can be imported: {names} is none"


def _of_parameters(
    signature: inspect.Signature, said: dict[str, str], own: Iterable[str], *, every: bool
) -> Iterator[str]:
    """The unit of a parameter, and what its absence means where the signature says None; the others, too, if ``every`` one is asked for.

    ``own``: the names in the section Args.
    """
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        text = said.get(name, "")
        if not text:
            if every or parameter.default is None or name.endswith(tuple(_UNITS)):
                yield f"{name}"
            continue
        for suffix, unit in _UNITS.items():
            if name.endswith(suffix) and not re.search(unit, text):
                yield f"the unit of {name}"
        if parameter.default is None and not re.search(r"default|None|without", text, re.IGNORECASE):
            yield f"what {name} is when it is not given"
    for name in own:
        if name not in signature.parameters:
            yield f"{name}, which is no parameter any more"
