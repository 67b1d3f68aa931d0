# SPDX-License-Identifier: Apache-2.0
"""The entry point ``opentelemetry_instrumentor``: ``opentelemetry-instrument`` calls it, and each client that is made afterwards gets an
OpenTelemetryHook. It is loaded by that program alone, which brings the library."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined, unused-ignore]

from sprocketmq.client.hooks import for_all
from sprocketmq.client.observe.tracing import OpenTelemetryHook


class SprocketMQInstrumentor(BaseInstrumentor):
    """``instrument(tracer_provider=None, link_only=False)`` and ``uninstrument()``, for clients that are made afterwards."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: the instrumented package is this one."""
        return ()

    def _instrument(self, **options: Any) -> None:
        self._hook = OpenTelemetryHook(options.get("tracer_provider"), link_only=bool(options.get("link_only")))
        for_all.append(self._hook)

    def _uninstrument(self, **_: Any) -> None:
        for_all.remove(self._hook)
