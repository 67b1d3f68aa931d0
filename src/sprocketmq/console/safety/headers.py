# SPDX-License-Identifier: Apache-2.0
"""The headers of each response. They restrict the browser to the console's own files, whatever a message contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ALWAYS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with "no-referrer" browsers send the Origin "null" with our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
PAGE: Final[Mapping[str, str]] = {**_ALWAYS, "Cache-Control": "no-store"}
STATIC: Final[Mapping[str, str]] = {**_ALWAYS, "Cache-Control": "private, max-age=3600"}
DOWNLOAD: Final[Mapping[str, str]] = {**PAGE, "Content-Security-Policy": "default-src 'none'; sandbox"}
