# SPDX-License-Identifier: Apache-2.0
"""Named clusters in a file of the user. It holds the path of the secret key, never the key; it is replaced as a whole, readable by
its owner."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import click

from sprocketmq.errors import ConfigurationError
from sprocketmq.user_paths import user_path

_VARIABLE: Final = "SPROCKETMQ_CONTEXTS"


@dataclass(frozen=True, slots=True)
class Context:
    namesrv_addr: str
    access_key: str | None = None
    secret_key_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None


def contexts_path() -> Path:
    """SPROCKETMQ_CONTEXTS, or ``contexts.json`` in the system's folder for settings. ``~/...``: no home, no file."""
    path = Path(os.environ.get(_VARIABLE) or Path(click.get_app_dir("sprocketmq")) / "contexts.json")
    with contextlib.suppress(ConfigurationError):
        return user_path(path)
    return path


@dataclass(slots=True)
class Contexts:
    path: Path
    current: str | None = None
    by_name: dict[str, Context] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None = None) -> Contexts:
        """Read the contexts of a file; an empty object if there is no file."""
        path = path or contexts_path()
        if str(path).startswith("~"):
            return cls(path)
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
        """Raises ConfigurationError (it cannot be written, or this user has no home directory for it)."""
        user_path(self.path)
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
