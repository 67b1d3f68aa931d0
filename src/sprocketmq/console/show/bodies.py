# SPDX-License-Identifier: Apache-2.0
"""A message's body as a page shows it: text, indented JSON, or hex; a long one is cut, and mended text becomes bytes again.

Laws
    1. What is shown went through the mask as a whole, before the cut; what a conversion made of it goes through it again.
    2. ``mended_body(body, what a browser sends for its text) == body``: what nobody touched has the bytes it had. Browsers send each line
       break as CR LF, so a body with several kinds of them is not offered for mending, nor one with characters that a page cannot hold.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from sprocketmq.console.safety.mask import Mask
from sprocketmq.core.hex_dump import hex_dump

__all__ = ["FORMS", "MOST_MENDED_BYTES", "ShownBody", "mendable_text", "mended_body", "preview", "shown_body"]

FORMS: Final = ("text", "json", "hex")
MOST_SHOWN_BYTES: Final = 64 << 10
MOST_MENDED_BYTES: Final = 256 << 10
_MOST_JSON_BYTES: Final = 1 << 20
_HEX_SHOWN: Final = 8 << 10
_PREVIEW: Final = 240
_NOT_IN_A_PAGE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class ShownBody:
    """A body on a page.

    Attributes:
        form: "text", "json" or "hex".
        text: in that form, masked, and cut.
        size_bytes: of the whole body.
        is_cut: whether there is more of it than is shown.
        is_masked: whether something of it is hidden.
        why_not: why another form was taken than the one that was asked for; "" if it was not.
    """

    form: str
    text: str
    size_bytes: int
    is_cut: bool
    is_masked: bool
    why_not: str = ""


def shown_body(body: bytes, form: str | None, mask: Mask) -> ShownBody:
    """A body in a form.

    Args:
        form: one of FORMS; None takes the first that fits: JSON objects and lists, text, hex.
    """
    masked = mask.body(body)
    hidden = masked != body
    why_not = ""
    if form in (None, "json"):
        indented, why_not = _indented(masked)
        if indented is not None:
            again = mask.text(indented)
            return ShownBody(
                "json",
                again[:MOST_SHOWN_BYTES],
                len(body),
                len(again) > MOST_SHOWN_BYTES,
                hidden or again != indented,
            )
    if form != "hex":
        text = _text(masked)
        if text is not None:
            told = why_not if form == "json" else ""
            return ShownBody("text", text[:MOST_SHOWN_BYTES], len(body), len(text) > MOST_SHOWN_BYTES, hidden, told)
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
    """The beginning of a body in one line."""
    masked = mask.body(body)
    # A character that is cut in half at the end does not make a text binary.
    text = _text(masked[: _PREVIEW * 4]) or _text(masked[: _PREVIEW * 4 - 3].decode("utf-8", "ignore").encode())
    if text is None or (masked and _text(masked) is None and len(masked) <= _PREVIEW * 4):
        cut = masked[: _PREVIEW // 4]
        return cut.hex(" ") + (" …" if len(masked) > len(cut) else "")
    line = mask.text(" ".join(text.split()))  # law 1: without line breaks something else may fit
    return line[:_PREVIEW] + ("…" if len(line) > _PREVIEW or len(masked) > _PREVIEW * 4 else "")


def _indented(body: bytes) -> tuple[str | None, str]:
    """JSON with indents, or why it is none. A number or a lone text is text to people."""
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
    """None for what is no text. Other control characters than tabs and line breaks are shown by their pictures."""
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


def mendable_text(body: bytes, mask: Mask) -> tuple[str | None, str]:
    """The text of a body that can be mended on a page, or why it cannot (law 2)."""
    if len(body) > MOST_MENDED_BYTES:
        return None, f"it has {len(body):,} bytes, and {MOST_MENDED_BYTES:,} can be mended here"
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


def mended_body(original: bytes, submitted: str) -> bytes:
    """The bytes of a text that a browser sent, with line breaks as the original has them."""
    text = submitted if b"\r\n" in original else submitted.replace("\r\n", "\n")
    return text.encode()
