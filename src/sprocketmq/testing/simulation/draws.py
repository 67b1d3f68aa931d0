# SPDX-License-Identifier: Apache-2.0
"""What a seed decides. Each draw has a name and random numbers of its own, so that one can be given and all others stay as they were."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
NONE = "none"


class DrawError(ValueError):
    """A value was given that is not allowed."""


@dataclass(frozen=True)
class Draw:
    """``text``: as it is given again. ``smaller``: texts of other values, the smallest first. ``parts``: what a list has."""

    text: str
    smaller: Sequence[str] = ()
    parts: Sequence[str] = ()

    def simpler(self) -> Iterator[str]:
        """Texts of values that make a run smaller: of a list without all, a half, a quarter ... one of its parts."""
        yield from self.smaller
        length = len(self.parts)
        while length:
            for begin in range(0, len(self.parts), length):
                yield ",".join([*self.parts[:begin], *self.parts[begin + length :]]) or NONE
            length = length // 2 if length > 1 else 0


class Draws:
    """``given``: texts of values by their draws' names. ``made``: the draws of this run so far."""

    def __init__(self, seed: int, given: Mapping[str, str] | None = None) -> None:
        self.seed, self.given = seed, dict(given or {})
        self.made: dict[str, Draw] = {}

    def stream(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def number(self, name: str, least: int, most: int) -> int:
        return self._make(name, range(least, most + 1), lambda rng: rng.randint(least, most))

    def choice(self, name: str, values: Sequence[T]) -> T:
        """``values``: the simplest first."""
        return self._make(name, values, lambda rng: rng.choice(values))

    def _make(self, name: str, values: Sequence[T], draw: Callable[[random.Random], T]) -> T:
        values = list(dict.fromkeys(values))
        texts = [str(value) for value in values]
        text = self.given.get(name)
        if text is None:
            text = str(draw(self.stream(name)))
        elif text not in texts:
            raise DrawError(f"{name} is {text!r}, {_listed(texts)} are allowed{_meant(text, texts)}")
        place = texts.index(text)
        self.made[name] = Draw(text, texts[:place])
        return values[place]

    def size(self, name: str, value: int) -> int:
        """A number that nothing draws, and that can be given."""
        text = self.given.get(name, str(value))
        if not text.isdecimal():
            raise DrawError(f"{name} is {text!r}, a number is allowed")
        size = int(text)
        self.made[name] = Draw(text, sorted({str(size // part) for part in (8, 4, 2) if size // part}, key=int))
        return size

    def some(self, name: str, values: Sequence[str], share: float) -> list[str]:
        """Each with a probability of ``share``."""
        rng = self.stream(name)
        return self.chosen(name, [value for value in values if rng.random() < share], values)

    def some_of(self, name: str, chances: Sequence[str], values: Collection[str]) -> list[str]:
        """A number of ``chances`` that is drawn, too, more often a small one; one that stands there twice has two. ``values``: what may be
        given."""
        rng = self.stream(name)
        return self.chosen(name, rng.sample(chances, rng.randint(0, rng.randint(1, len(chances)))), values)

    def chosen(self, name: str, chosen: Iterable[str], values: Collection[str]) -> list[str]:
        """``chosen``, unless others of ``values`` are given."""
        given = self.given_list(name)
        return self.keep(name, chosen if given is None else given, values)

    def keep(self, name: str, chosen: Iterable[str], values: Collection[str] | None = None) -> list[str]:
        """What somebody else has chosen among ``values``; None: whatever there is."""
        kept = sorted({one.strip() for one in chosen})
        for one in kept:
            if values is not None and one not in values:
                raise DrawError(f"{name} has {one!r}, {_listed(values)} are allowed{_meant(one, values)}")
        self.made[name] = Draw(",".join(kept) or NONE, parts=kept)
        return kept

    def given_list(self, name: str) -> list[str] | None:
        text = self.given.get(name)
        return None if text is None else [] if text == NONE else text.split(",")

    def check_given(self) -> None:
        """Raises DrawError: a value was given that nothing has drawn."""
        for name in self.given:
            if name not in self.made:
                raise DrawError(
                    f"no draw of this run is named {name!r}; there are {_listed(self.made)}{_meant(name, self.made)}"
                )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names) if len(names) < 40 else f"{names[0]} to {names[-1]}"


def _meant(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""
