# SPDX-License-Identifier: Apache-2.0
"""A message's body on a page: text, indented JSON, or hex, masked (``safety.mask``) and cut if it is long; and an edited text as bytes.
Browsers send each line break as CR LF, so a body with several kinds of line breaks cannot be edited, nor one with characters that a page
cannot contain; of others ``edited_body(body, what a browser sends for its text) == body``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from sprocketmq.console.safety.mask import Mask
from sprocketmq.core.hex_dump import hex_dump

FORMS: Final = ("text", "json", "hex")
MOST_SHOWN_BYTES: Final = 64 << 10
MOST_EDITED_BYTES: Final = 256 << 10
_MOST_JSON_BYTES: Final = 1 << 20
_HEX_SHOWN: Final = 8 << 10
_PREVIEW: Final = 240
_NOT_IN_A_PAGE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class ShownBody:
    """A body on a page: ``text`` in its ``form`` ("text", "json", "hex"), masked, and cut; ``size_bytes`` of the whole body; whether it
    is cut or a part is masked; and why the form is not the requested one ("" if it is)."""

    form: str
    text: str
    size_bytes: int
    is_cut: bool
    is_masked: bool
    why_not: str = ""


def shown_body(body: bytes, form: str | None, mask: Mask) -> ShownBody:
    """A body in a form. ``form``: one of FORMS; None: JSON for objects and lists, otherwise text if possible, otherwise hex."""
    masked = mask.body(body)
    hidden = masked != body
    why_not = ""
    if form in (None, "json"):
        indented, why_not = _indented(masked)
        if indented is not None:
            again = mask.text(indented)
            return ShownBody(
                "json", again[:MOST_SHOWN_BYTES], len(body), len(again) > MOST_SHOWN_BYTES, hidden or again != indented
            )
    if form != "hex":
        text = _text(masked)
        if text is not None:
            reason = why_not if form == "json" else ""
            return ShownBody("text", text[:MOST_SHOWN_BYTES], len(body), len(text) > MOST_SHOWN_BYTES, hidden, reason)
        why_not = "it is no UTF-8 text" if form is not None else ""
    return ShownBody(
        "hex",
        hex_dump(masked[:_HEX_SHOWN]),
        len(body),
        len(masked) > _HEX_SHOWN,
        hidden,
        why_not if form != "hex" else "",
    )


def preview(body: bytes, mask: Mask) -> str:
    masked = mask.body(body)
    # An incomplete character at the end does not make a text binary.
    text = _text(masked[: _PREVIEW * 4]) or _text(masked[: _PREVIEW * 4 - 3].decode("utf-8", "ignore").encode())
    if text is None or (masked and _text(masked) is None and len(masked) <= _PREVIEW * 4):
        cut = masked[: _PREVIEW // 4]
        return cut.hex(" ") + (" …" if len(masked) > len(cut) else "")
    line = mask.text(" ".join(text.split()))  # without line breaks the mask may match more
    return line[:_PREVIEW] + ("…" if len(line) > _PREVIEW or len(masked) > _PREVIEW * 4 else "")


def _indented(body: bytes) -> tuple[str | None, str]:
    """Indented JSON, or why there is none. A number or a string is shown as text."""
    if len(body) > _MOST_JSON_BYTES:
        return None, "it is too long to be indented"
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None, "it is no JSON"
    if not isinstance(found, dict | list):
        return None, "it is no JSON object or list"
    return json.dumps(found, indent=2, ensure_ascii=False), ""


def _text(body: bytes) -> str | None:
    """The text, or None if it is not UTF-8. Control characters other than tabs and line breaks become visible symbols."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return _NOT_IN_A_PAGE.sub(lambda match: _picture(match[0]), text)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def editable_text(body: bytes, mask: Mask) -> tuple[str | None, str]:
    """The text of a body for editing on a page, or why it cannot be edited."""
    if len(body) > MOST_EDITED_BYTES:
        return None, f"it has {len(body):,} bytes, and {MOST_EDITED_BYTES:,} can be edited here"
    if mask.body(body) != body:
        return None, "parts of it are masked"
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None, "it is no UTF-8 text"
    if _NOT_IN_A_PAGE.search(text):
        return None, "it has control characters"
    breaks = text.replace("\r\n", "")
    if "\r" in breaks or ("\r\n" in text and "\n" in breaks):
        return None, "its line breaks are of several kinds"
    return text, ""


def edited_body(original: bytes, submitted: str) -> bytes:
    text = submitted if b"\r\n" in original else submitted.replace("\r\n", "\n")
    return text.encode()
