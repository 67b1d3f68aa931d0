# SPDX-License-Identifier: Apache-2.0
"""Access keys in a file that may change while clients run, for example a mounted secret of Kubernetes.

Rules
1. The first request after the file has changed is signed with the new keys; no call is needed. If a server refuses a signature, the
   file is read in any case, and the request signed again if its keys are other ones.
2. Known keys stay in use while the file is missing or cannot be parsed, because it may be being written. Without known keys there
   is an error that names the host.
3. A secret is never part of a text, and an object of this class cannot be pickled; only the path can.

``stat`` of a local file costs about half as much as a signature, so every request checks the file.
"""

from __future__ import annotations

import os
import platform
from stat import S_ISREG
from typing import Final, NoReturn

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.frames.acl_signature import Credentials

_MOST_BYTES: Final = 64 * 1024
_NO_WAITING: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NAMES: Final = ("accessKey", "secretKey", "securityToken")

_FileState = tuple[int, int, int, int]


class KeyFile:
    """The keys in a file: the secret key alone, or lines ``accessKey:``, ``secretKey:`` and ``securityToken:`` as Apache's
    conf/tools.yml; ``access_key`` and ``security_token`` count before these. ``option``: how the user calls the file, for error
    sentences. Raises ConfigurationError (it cannot be read here, or holds something else)."""

    def __init__(
        self,
        path: str,
        access_key: str | None = None,
        security_token: str | None = None,
        *,
        option: str = "secret_key_file",
    ) -> None:
        self._path, self._option = path, option
        self._access_key, self._security_token = access_key or None, security_token or None
        self._seen: _FileState | None = None
        self._known = self._read()

    def __repr__(self) -> str:
        return f"KeyFile({self._path!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyFile cannot be pickled, give its path")

    def current(self) -> Credentials:
        try:
            seen = _file_state(os.stat(self._path))
        except OSError:
            return self._known
        if seen != self._seen:
            self.reread()
        return self._known

    def reread(self) -> None:
        try:
            self._known = self._read()
        except ConfigurationError:
            self._seen = None  # it may be half written: the next request reads it again

    def _read(self) -> Credentials:
        reason, content, seen = "", "", None
        try:
            # Without waiting: a pipe in its place would block every client of the process.
            with open(self._path, "rb", opener=lambda path, flags: os.open(path, flags | _NO_WAITING)) as file:
                stat = os.fstat(file.fileno())  # before its content: a later write is then noticed next time
                seen = _file_state(stat)
                raw = file.read(_MOST_BYTES + 1) if S_ISREG(stat.st_mode) else None
            if raw is None:
                reason = "it is not an ordinary file"
            elif len(raw) > _MOST_BYTES:
                reason = f"it has more than {_MOST_BYTES} bytes"
            else:
                content = raw.decode("utf-8-sig").strip()
        except OSError as error:
            reason = str(error.strerror)
        except ValueError:  # no text, or a path with a NUL in it
            reason = "it is not text"
        if reason:  # raised here, so that no context of the error contains the text that was read
            raise ConfigurationError(
                f"{self._option} is {self._path!r}, which cannot be read on host {platform.node()} ({reason}); put the file there, "
                "where each process that signs requests may read it"
            )
        credentials = self._credentials_in(content)
        self._seen = seen
        return credentials

    def _credentials_in(self, content: str) -> Credentials:
        found = _pairs(content)
        if not found and len(content.split()) == 1:
            found = {"secretKey": content}
        if not found:
            raise ConfigurationError(
                f"{self._option} is {self._path!r}, which holds neither one secret nor lines accessKey: and secretKey: on host "
                f"{platform.node()}; correct the file"
            )
        access_key = self._access_key or found.get("accessKey")
        secret_key = found.get("secretKey")
        if not access_key or not secret_key:
            missing = "secretKey" if access_key else "accessKey"
            raise ConfigurationError(
                f"{self._option} is {self._path!r}, which holds no {missing} on host {platform.node()}, and a signature needs both keys; "
                f"add a line {missing}: to it"
            )
        return Credentials(access_key, secret_key, self._security_token or found.get("securityToken") or None)


def _file_state(stat: os.stat_result) -> _FileState:
    return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev


def _pairs(content: str) -> dict[str, str]:
    pairs = {}
    for line in content.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() in _NAMES:
            value = value.strip()
            if value[:1] not in ("'", '"'):
                value = value.partition(" #")[0].strip()  # a comment of YAML
            pairs[name.strip()] = value.strip("'\"")
    return pairs
