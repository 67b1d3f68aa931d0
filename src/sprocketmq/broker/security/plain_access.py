# SPDX-License-Identifier: Apache-2.0
"""4.9's accounts in their YAML files: read, watched, changed by administrators (Java: PlainAccessValidator, PlainPermissionManager,
AclFileWatchService). "Plain" is Apache's name for this kind of access control; the default file is ``plain_acl.yml``.

    conf/plain_acl.yml      the default file: new accounts are written here
    conf/acl/**/*.yml       further files; if two files have the same access key the first counts, and these come before the default file

1. Decisions always use one complete reading of all files. A file that is unreadable or wrong stops the start. Later such a file is
   reported in the log, and the last good reading stays in force.
2. A change is completely on the disk before it is in force and before its request is answered.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sprocketmq.broker.security.access import ACCOUNT
from sprocketmq.broker.service import Periodic
from sprocketmq.core.access.need_readers import Place
from sprocketmq.core.access.plain_acl import PlainAcl
from sprocketmq.core.access.plain_file import (
    AccountChange,
    data_version,
    with_account,
    with_white_addresses,
    without_account,
)
from sprocketmq.core.access.request_needs import needs_key, needs_of
from sprocketmq.core.access.rights import Needs, no_key
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import Clock
from sprocketmq.store.config_files import save_config
from sprocketmq.wire.bodies import DataVersion
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.acl_signature import SigningKey
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.frames.signed_request import SignedRequest, signed_request

log = logging.getLogger("sprocketmq.broker")

_POLL_INTERVAL_MS: Final = 500  # AclFileWatchService
_HIDDEN: Final = "******"
_HEART_BEAT: Final = int(RequestCode.HEART_BEAT)

FileStamp = tuple[tuple[str, int, int], ...]


class _Heartbeat(SignedRequest, gc=False):
    """The sender of a heartbeat whose signature was checked when it arrived."""

    def is_signed_with(self, key: SigningKey, body: Buffer) -> bool:
        return True


class PlainAccessValidator:
    """Decides by the present content of ``default_file``, which is created if it is missing, and of the files in ``acl`` beside it. Needs
    no right: ``open_codes``. Changes raise ConfigurationError (not valid), StoreNotWritable (not written)."""

    def __init__(self, clock: Clock, default_file: Path, place: Place, open_codes: frozenset[int]) -> None:
        self._clock, self._place, self._open_codes = clock, place, open_codes
        self.default_file = default_file
        self._contents: dict[str, dict[str, Any]] = {}
        self._acl = PlainAcl({})
        self._stamp: FileStamp = ()
        self._poll: Periodic | None = None

    def load(self) -> None:
        """Read the files for the first time. Raises ConfigurationError if one cannot be read or has a mistake."""
        if not self.default_file.exists():
            log.warning(
                "%s is missing and made empty: everybody is refused until it has accounts or white addresses",
                self.default_file,
            )
            _write(self.default_file, {})
        self._load()
        if not self._acl.accounts and not self._acl.white_addresses:
            log.warning("%s has neither accounts nor white addresses: everybody is refused", self.default_file)

    async def start(self) -> None:
        self._poll = Periodic(self._clock, _POLL_INTERVAL_MS, self.reload_if_changed)

    async def stop(self) -> None:
        if self._poll is not None:
            self._poll.cancel()

    # -- deciding --------------------------------------------------------------------------------------------------------------

    def refusal(self, connection: Connection, command: Command) -> str | None:
        asked = signed_request(command)
        # An open request needs no right, whatever it names. Its decision is not cached, because the key would have names that were not
        # checked.
        key = no_key if command.code in self._open_codes else needs_key
        try:
            reason = self._acl.refusal(connection.peer[0], asked, command, self._needs, key)
        except ProtocolError as error:
            return f"what the request touches cannot be told: {error}"
        if reason is None and command.code == _HEART_BEAT:
            connection.state[ACCOUNT] = asked.access_key
        return reason

    def _needs(self, command: Command) -> Needs:
        return () if command.code in self._open_codes else needs_of(command, self._place)

    def may_send(self, connection: Connection, topic: str) -> bool:
        if RequestCode.SEND_MESSAGE in self._open_codes:
            return True
        send = Command(RequestCode.SEND_MESSAGE, ext_fields={"topic": topic})
        asked = _Heartbeat(access_key=connection.state.get(ACCOUNT) or "")
        return self._acl.refusal(connection.peer[0], asked, send, self._needs) is None

    # -- following the files -----------------------------------------------------------------------------------------------------

    def reload_if_changed(self) -> None:
        stamp = self._stamp_of(self._files())
        if stamp == self._stamp:
            return
        try:
            self._load()
        except ConfigurationError as error:
            self._stamp = stamp  # reported once; the next change of a file is checked again
            log.error("the accounts stay as they were: %s", error)
        else:
            log.info("accounts were read again: %d, from %d files", len(self._acl.accounts), len(self._contents))

    def _load(self) -> None:
        files = self._files()
        stamp = self._stamp_of(files)
        contents = {str(path): _read(path) for path in files}
        self._acl = PlainAcl(contents)
        self._contents, self._stamp = contents, stamp

    def _files(self) -> list[Path]:
        folder = self.default_file.parent / "acl"
        further = [path for path in folder.rglob("*") if path.suffix in (".yml", ".yaml")] if folder.is_dir() else []
        return [*sorted(further), *([self.default_file] if self.default_file.exists() else [])]

    @staticmethod
    def _stamp_of(files: Sequence[Path]) -> FileStamp:
        stamps = []
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # it was removed after the listing
                status = path.stat()
                stamps.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(stamps)

    # -- an administrator's changes ------------------------------------------------------------------------------------------------

    def change_account(self, change: AccountChange, now_ms: int) -> None:
        """Create or change an account, in the file that has it, else in the default one."""
        file = self._acl.file_of.get(change.access_key, str(self.default_file))
        self._change(file, with_account(self._contents.get(file, {}), change, now_ms))

    def delete_account(self, access_key: str, now_ms: int) -> bool:
        """Delete an account; False if there is none."""
        first = self._acl.file_of.get(access_key)
        if first is None:
            return False
        # Delete it in each file that has it, or the next one would count; in the first file last, so that it counts until then.
        for file in reversed(list(self._contents)):
            if file == first or access_key in PlainAcl({file: self._contents[file]}).accounts:
                self._change(file, without_account(self._contents[file], access_key, now_ms))
        return True

    def change_white_addresses(self, addresses: Sequence[str], file: str | None, now_ms: int) -> None:
        """Replace the global white addresses of a file, the default one if none is named."""
        name = str(self.default_file) if not file else os.path.normpath(file)
        if name not in self._contents:
            raise ConfigurationError(f"{name} is no file of accounts; these are: {', '.join(self._contents)}")
        self._change(name, with_white_addresses(self._contents[name], addresses, now_ms))

    def accounts(self) -> list[dict[str, Any]]:
        """The accounts of all files in their written form, each key once, without their secrets."""
        shown: dict[str, dict[str, Any]] = {}
        for content in self._contents.values():
            for entry in content.get("accounts") or ():
                shown.setdefault(str(entry["accessKey"]), {**entry, "secretKey": _HIDDEN})
        return list(shown.values())

    def is_white(self, host: str) -> bool:
        return any(pattern.matches(host) for pattern in self._acl.white_addresses)

    def white_addresses(self) -> list[str]:
        return [pattern.text for pattern in self._acl.white_addresses]

    def version(self) -> DataVersion:
        return data_version(self._contents.get(str(self.default_file), {}))

    def versions(self) -> dict[str, DataVersion]:
        return {name: data_version(content) for name, content in self._contents.items()}

    def _change(self, file: str, content: dict[str, Any]) -> None:
        contents = {**self._contents, file: content}
        acl = PlainAcl(contents)  # before the write, so that no file is written that could not be read again
        _write(Path(file), content)
        self._acl, self._contents = acl, contents
        self._stamp = self._stamp_of(self._files())


def _read(path: Path) -> dict[str, Any]:
    import yaml  # imported here, so that a broker without access control starts faster

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)  # never show the text itself, which may be a secret
        line = f" in line {where.line + 1}" if where is not None else ""
        raise ConfigurationError(f"{path} is no YAML{line}; correct it, or restore it") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is no mapping; it should begin with accounts: or globalWhiteRemoteAddresses:")
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True) if content else ""
    save_config(path, text.encode(), private=True)
