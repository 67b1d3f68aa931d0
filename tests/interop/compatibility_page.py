# SPDX-License-Identifier: Apache-2.0
"""docs/internals/compatibility.md out of what the comparisons found: the same findings make the same page, to the byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from interop.answer_shape import SILENT
from interop.comparison import Compared
from interop.java_peers import ALL_VERSIONS, APACHE_4
from interop.known_differences import AS_5, KNOWN, NOT_SERVED, REFUSED
from sprocketmq.wire.codes import RequestCode

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/internals/compatibility.md"
# Of what is ill-formed: Apache's RemotingCommandException, MESSAGE_ILLEGAL and INVALID_PARAMETER.
_REFUSALS: Final = (1, 13, 29)

_COMMANDS: Final = """
## Commands of mqadmin

Each command is run by the tools of both versions against that version's servers and against ours, in the same state. Compared is what it
prints, line by line without regard to their order; addresses, times, ids, rates and sizes are taken out.

"""
_HEAD: Final = """\
# Compared with Apache, request by request

What Apache RocketMQ answers and what SprocketMQ answers, found by asking both: `make interop` starts Apache's name server and broker
(5.4.0, 4.9.7, 5.5.0) and `sprocketmq serve`, puts the same topics, groups and messages into each, and sends the same requests to both.
This page is written by that run (`SPROCKETMQ_WRITE_PAGE=1 make interop`); without the variable the run fails where it finds something else.

**How the answers are compared.** Code, names and values of the header fields, whether there is a remark, and the shape of the body: the
keys of JSON with the types of their values, the lengths of message records. Addresses, times and message ids are taken out; the words of
a remark are each server's own. Ill-formed requests (each field of a well-formed one missing, not a number, negative, too large, a name
that nobody knows; each body missing, broken, null, not text) are compared by code and names of header fields.

**How to read the tables.** `5 of 7, 2 as 5.4.0`: seven requests were sent, five were answered as that version does, two as 5.4.0 does:
here both generations of clients get what 5.4.0 answers. `20 of 24, 4 refused`: 24 ill-formed requests, four of them refused where Apache
takes a missing or unreadable field for null or 0 and goes on, or fails half-way with an exception. A refusal has code 1, 13 or 29 and one
sentence, and changes nothing: topics, groups and offsets are looked at before and after each. What is left has its reason in the last
column. A dash: that version does not know the code.

**5.5.0 beside 5.4.0.** It answers these requests as 5.4.0 does, with one table more in GET_ALL_CONSUMER_OFFSET, and its tools print the
same. New are lite topics: ten request codes (200070 to 200079), six commands of mqadmin, the topic type LITE. SprocketMQ has none of them.

"""


class Judged(NamedTuple):
    """A comparison, and why it differs: a reason of `known_differences`, empty when it does not, None when nobody knows."""

    compared: Compared
    reason: str | None


class CommandRow(NamedTuple):
    """One mqadmin command: what each version's run found."""

    name: str
    found: Mapping[str, str]
    reason: str


def judged(version: str, compared: Iterable[Compared], as_5: Mapping[str, Compared]) -> list[Judged]:
    """Each comparison with its reason. `as_5` holds the comparisons with 5.4.0 by key."""
    return [Judged(one, _reason(version, one, as_5)) for one in compared]


def _reason(version: str, one: Compared, as_5: Mapping[str, Compared]) -> str | None:
    if not one.difference:
        return ""
    code = one.ours.shape.code
    if one.asked.strange and code in _REFUSALS and code != one.theirs.code:
        return REFUSED
    known = next((known for known in KNOWN if known.explains(version, one.asked.key, one.difference)), None)
    if known is not None:
        return known.reason
    newer = as_5.get(one.asked.key)
    if (
        version == APACHE_4
        and newer is not None
        and not newer.theirs.differs_in(one.ours.shape, bool(one.asked.strange))
    ):
        return AS_5
    return None


def sections(found: Mapping[str, list[Judged]]) -> dict[str, str]:
    """The three tables of requests by title; `found` has all versions."""
    return {
        "Requests to a broker": _codes(found, "broker"),
        "Requests to a name server": _codes(found, "namesrv"),
        "Requests of a broker to its clients": _clients(found),
        "Codes that are not served": _not_served(),
    }


def with_requests(page: str, tables: Mapping[str, str]) -> str:
    """The page with everything anew but the section about commands."""
    _, title, commands = page.partition(_COMMANDS)
    return _HEAD + "\n".join(f"## {name}\n\n{text}" for name, text in tables.items()) + title + commands


def with_commands(page: str, table: str) -> str:
    """The page with the section about commands anew."""
    return page.partition(_COMMANDS)[0] + _COMMANDS + table


def command_table(rows: Iterable[CommandRow]) -> str:
    lines = _table("command", *ALL_VERSIONS, "why not the same")
    for name, found, reason in rows:
        cells = " | ".join(found.get(version, "-") for version in ALL_VERSIONS)
        lines.append(f"| `{name}` | {cells} | {reason} |")
    return "\n".join(lines) + "\n"


def _codes(found: Mapping[str, list[Judged]], to: str) -> str:
    columns = (column for version in ALL_VERSIONS for column in (version, "ill-formed"))
    lines = _table("code", "request", *columns, "what else is not the same, and why")
    unserved = {known.code for known in NOT_SERVED}
    here = {
        version: [one for one in all_of if one.compared.asked.to == to and one.compared.asked.code not in unserved]
        for version, all_of in found.items()
    }
    for code in sorted({one.compared.asked.code for all_of in here.values() for one in all_of}):
        of_code = {
            version: [one for one in all_of if one.compared.asked.code == code] for version, all_of in here.items()
        }
        cells = [_cell(of_code[version], strange) for version in ALL_VERSIONS for strange in (False, True)]
        reasons = {one.reason for all_of in of_code.values() for one in all_of if one.reason} - {REFUSED, AS_5}
        lines.append(f"| {code} | {_name(code)} | {' | '.join(cells)} | {'; '.join(sorted(map(str, reasons)))} |")
    return "\n".join(lines) + "\n"


def _cell(of_code: list[Judged], strange: bool) -> str:
    asked = [one for one in of_code if bool(one.compared.asked.strange) is strange]
    if not asked:
        return "-"
    counts = [f"{sum(not one.compared.difference for one in asked)} of {len(asked)}"]
    for reason, word in ((REFUSED, "refused"), (AS_5, AS_5)):
        if count := sum(one.reason == reason for one in asked):
            counts.append(f"{count} {word}")
    return ", ".join(counts)


def _clients(found: Mapping[str, list[Judged]]) -> str:
    lines = _table("code", "request", *ALL_VERSIONS, "what is not the same, and why")
    by_version = {
        version: {one.compared.asked.code: one for one in all_of if one.compared.asked.to == "client"}
        for version, all_of in found.items()
    }
    for code in sorted(by_version[APACHE_4]):
        cells, reasons = [], dict[str, None]()
        for version in ALL_VERSIONS:
            one = by_version[version][code]
            sent = one.compared.theirs.code != SILENT
            cells.append("differs" if one.compared.difference else "same" if sent else "not sent")
            if one.reason:
                reasons[one.reason] = None
        lines.append(f"| {code} | {_name(code)} | {' | '.join(cells)} | {'; '.join(reasons)} |")
    return "\n".join(lines) + "\n"


def _not_served() -> str:
    lines = [
        "Each is answered with code 3 (REQUEST_CODE_NOT_SUPPORTED).\n",
        "| code | request | why |",
        "|---|---|---|",
    ]
    lines += [f"| {one.code} | {one.name} | {one.reason} |" for one in sorted(NOT_SERVED)]
    return "\n".join(lines) + "\n"


def _table(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def _name(code: int) -> str:
    return RequestCode(code).name
