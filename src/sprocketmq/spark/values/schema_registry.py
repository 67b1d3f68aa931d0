# SPDX-License-Identifier: Apache-2.0
"""Schemas by the id that a body begins with, as Confluent's serializers and those of RocketMQ's schema registry write it.

Sources: "Wire format" and "GET /schemas/ids/{id}" in Confluent's documentation; ``AvroSerializer``, ``JsonSerializer`` and
``RestService`` of https://github.com/apache/rocketmq-schema-registry.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_TIMEOUT_S: Final = 10
_PAUSES_S: Final = (0.5, 2.0, 5.0)  # between the tries of a registry that does not answer
_MOST_BYTES: Final = 4 << 20  # of an answer
_MOST_KNOWN: Final = 1_000  # ids, in a process
_UNKNOWN_FOR_S: Final = 60  # until an id that was unknown is asked for again
_known: dict[tuple[str, int], tuple[str | None, float]] = {}


class WireForm(NamedTuple):
    """``begin``: the first bytes, ``id_bytes``: the number after them. ``path`` and ``field``: where the registry has a schema."""

    begin: bytes
    id_bytes: int
    path: str
    field: str

    @property
    def size(self) -> int:
        return len(self.begin) + self.id_bytes

    def id_of(self, body: bytes) -> int:
        """Raises ValueError: the body does not begin so."""
        if not body.startswith(self.begin) or len(body) < self.size:
            wanted = f"the byte {self.begin.hex()} and an id" if self.begin else "an id"
            given = body[: self.size].hex() or "nothing"
            raise ValueError(f"it begins with {given}, not with {wanted} of {self.id_bytes} bytes")
        return int.from_bytes(body[len(self.begin) : self.size], "big")


_CONFLUENT: Final = WireForm(b"\0", 4, "/schemas/ids/{}", "schema")
# In Avro, RocketMQ's id is a value of Avro's type bytes: 0x10 is their number, 8.
WIRE_FORMS: Final[Mapping[tuple[str, str], WireForm]] = {
    ("confluent", "json"): _CONFLUENT,
    ("confluent", "avro"): _CONFLUENT,
    ("confluent", "protobuf"): _CONFLUENT,
    ("rocketmq", "json"): WireForm(b"", 8, "/recordId/{}/schema", "idl"),
    ("rocketmq", "avro"): WireForm(b"\x10", 8, "/recordId/{}/schema", "idl"),
}


class UnknownSchema(ValueError):
    """The registry has no schema of this id."""


class RegistryUnavailable(Exception):
    """The registry does not say whether it has the schema. This is no fault of a message, so the query fails."""


def written_schema(registry: str | Mapping[int, str], form: WireForm, schema_id: int) -> str:
    """The schema of ``schema_id``, from the table or the address of a registry. A process asks once for each.

    Raises UnknownSchema, RegistryUnavailable.
    """
    if not isinstance(registry, str):
        text = registry.get(schema_id)
    else:
        key = (registry, schema_id)
        text, until_s = _known.get(key, (None, 0.0))
        if text is None and until_s < time.monotonic():
            text = _asked(registry, form, schema_id)
            while len(_known) >= _MOST_KNOWN:
                del _known[next(iter(_known))]
            _known[key] = (text, time.monotonic() + _UNKNOWN_FOR_S)
    if text is None:
        raise UnknownSchema(f"registry has no schema of the id {schema_id}")
    return text


def _asked(registry: str, form: WireForm, schema_id: int) -> str | None:
    address, headers = _address(registry.rstrip("/") + form.path.format(schema_id))
    for pause_s in (*_PAUSES_S, None):
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT_S) as answer:
                read = answer.read(_MOST_BYTES + 1)
            if len(read) > _MOST_BYTES:
                raise RegistryUnavailable(f"the answer of {address} has more than {_MOST_BYTES} bytes")
            return _schema_in(read, form, address)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and _is_about_schema(error.read(_MOST_BYTES)):
                    return None
            said, is_for_good = f"HTTP {error.code}", error.code < 500 and error.code not in (408, 429)
        except (OSError, http.client.HTTPException) as error:
            said, is_for_good = str(error), False
        if is_for_good or pause_s is None:
            break
        time.sleep(pause_s)
    raise RegistryUnavailable(
        f"the schema registry does not give {address} ({said}); check registry, and whether it runs"
    )


def _address(url: str) -> tuple[str, dict[str, str]]:
    """``url`` without ``user:password@``, and these as a header."""
    parts = urllib.parse.urlsplit(url)
    if not parts.username:
        return url, {}
    login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}


def _schema_in(answer: bytes, form: WireForm, address: str) -> str:
    try:
        text = json.loads(answer)[form.field]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise RegistryUnavailable(f"the answer of {address} is no JSON with {form.field!r}; check registry")
    return text


def _is_about_schema(answer: bytes) -> bool:
    """A 404 of a registry, which numbers its reasons, and not that of an address where none is."""
    try:
        said: Any = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and (said.get("error_code") == 40403 or "status" in said)
