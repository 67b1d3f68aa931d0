"""Clusters by name, kept in a file of the user's: ``sprocketmq context add prod -n host:9876``, then ``--context prod``.

Laws
    1. A context names the file with a secret, never the secret.
    2. The file is replaced as a whole, and only its owner may read it.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import click

from sprocketmq.errors import ConfigurationError

__all__ = ["Context", "Contexts", "contexts_path"]

_VARIABLE: Final = "SPROCKETMQ_CONTEXTS"


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster, and as whom to go there."""

    namesrv_addr: str
    access_key: str | None = None
    secret_key_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where they are kept: SPROCKETMQ_CONTEXTS, or the folder that the system has for settings of programs."""
    return Path(environment.get(_VARIABLE) or Path(click.get_app_dir("sprocketmq")) / "contexts.json")


@dataclass(slots=True)
class Contexts:
    """All contexts; ``current`` is the name of the one that counts where nothing else is said."""

    path: Path
    current: str | None = None
    by_name: dict[str, Context] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None = None) -> Contexts:
        """Those of the file; none when there is no file.

        Raises:
            ConfigurationError: it holds something else.
        """
        path = path or contexts_path()
        try:
            content = json.loads(path.read_text("utf-8"))
            by_name = {name: _context(settings) for name, settings in content["contexts"].items()}
            current = content.get("current")
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"the file of contexts {str(path)!r} cannot be read ({type(error).__name__}: {error}); correct it, or remove it"
            ) from error
        return cls(path, current if current in by_name else None, by_name)

    def save(self) -> None:
        """Law 2.

        Raises:
            ConfigurationError: it cannot be written.
        """
        settings = {name: _settings(context) for name, context in sorted(self.by_name.items())}
        text = json.dumps({"current": self.current, "contexts": settings}, indent=2) + "\n"
        beside = self.path.with_name(self.path.name + ".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(beside, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(text)
            beside.replace(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"the file of contexts {str(self.path)!r} cannot be written ({error.strerror}); SPROCKETMQ_CONTEXTS names another one"
            ) from error

    def get(self, name: str) -> Context:
        """The one of this name. Raises ConfigurationError: there is none."""
        found = self.by_name.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.by_name)
            known = (
                f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(self.by_name)) or 'none yet'}"
            )
            raise ConfigurationError(f"there is no context {name!r}; {known}")
        return found


def _context(settings: Mapping[str, Any]) -> Context:
    known = {one.name for one in fields(Context)}
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise ValueError(f"a context has no setting {unknown[0]!r}")
    return Context(**settings)


def _settings(context: Context) -> dict[str, Any]:
    return {name: value for name, value in asdict(context).items() if value}
