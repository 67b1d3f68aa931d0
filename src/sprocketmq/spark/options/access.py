# SPDX-License-Identifier: Apache-2.0
"""Account and TLS settings of a Spark job. Parsed on the driver, used in every process.

No text shows a secret: neither ``repr`` nor an error message. ``secretKeyFile`` is a path on every machine; each process reads the file
when it signs, and again when it was renewed, so its secret is never pickled. The option ``secretKey`` is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.option_table import SECRETS
from sprocketmq.wire.frames.acl_signature import Credentials

if TYPE_CHECKING:
    import ssl

    from sprocketmq.client.settings.key_file import KeyFile

_NAMES: Final = (
    "accessKey", "secretKey", "securityToken", "secretKeyFile",
    "tls", "tlsTrustCertPath", "tlsCertPath", "tlsKeyPath", "tlsKeyPassword", "tlsAuthServer",
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """Credentials and TLS settings of one query. Picklable, and equal for equal options, so that connections can be shared by it. Without
    an access key requests are not signed; the paths are PEM files on every machine. ``tls_auth_server``: check the server's certificate
    against ``tls_trust_cert_path``, or against the authorities that the machine trusts."""

    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: bool = False
    tls_trust_cert_path: str = ""
    tls_cert_path: str = ""
    tls_key_path: str = ""
    tls_key_password: str = field(default="", repr=False)
    tls_auth_server: bool = True
    secret_key_file: str = ""

    @property
    def credentials(self) -> Credentials | KeyFile | None:
        """What requests are signed with; None for no signature. Raises ConfigurationError (the file cannot be used on this machine)."""
        if self.secret_key_file:
            from sprocketmq.client.settings.key_file import KeyFile  # Spark imports this module for everybody

            return KeyFile(self.secret_key_file, self.access_key, self.security_token, option="secretKeyFile")
        if not self.access_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token or None)

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """This process's SSL context; None without ``tls``. Raises ConfigurationError if a file is missing or invalid."""
        return _ssl_context(self) if self.tls else None

    def client_options(self) -> dict[str, Any]:
        _ = self.credentials
        return {
            "access_key": self.access_key or None,
            "secret_key": self.secret_key or None,
            "security_token": self.security_token or None,
            "secret_key_file": self.secret_key_file or None,
            "ssl_context": self.ssl_context,
        }


ANONYMOUS: Final = Access()


def access_of(options: GivenOptions) -> Access:
    """The access settings of some options. Raises ConfigurationError (one key without the other, or TLS settings without ``tls``). The key
    file is not opened: with Spark Connect this may be another machine than those of the query."""
    given = {name: (options.text(name) or "").strip() for name in _NAMES}
    if given["secretKeyFile"]:
        if given["secretKey"]:
            raise ConfigurationError("secretKey and secretKeyFile are both given; keep the file")
    elif bool(given["accessKey"]) != bool(given["secretKey"]):
        one, other = ("accessKey", "secretKey") if given["accessKey"] else ("secretKey", "accessKey")
        raise ConfigurationError(
            f"{one} is given without {other}; a signature needs both (secretKeyFile may hold both)"
        )
    elif given["securityToken"] and not given["accessKey"]:
        raise ConfigurationError("securityToken is given without accessKey and secretKey; a signature needs them")
    tls = options.flag("tls")
    idle = [name for name in _NAMES if name.startswith("tls") and name != "tls" and given[name]]
    if idle and not tls:
        raise ConfigurationError(f"{idle[0]} is given and tls is not true; set tls to true, or leave {idle[0]} out")
    if (given["tlsKeyPath"] or given["tlsKeyPassword"]) and not given["tlsCertPath"]:
        alone = "tlsKeyPath" if given["tlsKeyPath"] else "tlsKeyPassword"
        raise ConfigurationError(f"{alone} is given without tlsCertPath; name the certificate that the key belongs to")
    return Access(
        given["accessKey"],
        given["secretKey"],
        given["securityToken"],
        tls,
        given["tlsTrustCertPath"],
        given["tlsCertPath"],
        given["tlsKeyPath"],
        given["tlsKeyPassword"],
        options.flag("tlsAuthServer"),
        given["secretKeyFile"],
    )


def refuse_secrets_in_tables(options: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the options of a catalog table hold a secret, which anybody could see there."""
    known = {name.lower(): name for name in SECRETS}
    held = next((known[key.lower()] for key in options if key.lower() in known), None)
    if held is not None:
        raise ConfigurationError(
            f"{held} is among the options of a table, where DESCRIBE and the metastore show it; give secretKeyFile instead, "
            "a file on every machine"
        )


@functools.lru_cache(maxsize=16)
def _ssl_context(access: Access) -> ssl.SSLContext:
    import ssl

    try:
        context = ssl.create_default_context(cafile=access.tls_trust_cert_path or None)
        if access.tls_cert_path:
            key_password = access.tls_key_password or None
            context.load_cert_chain(access.tls_cert_path, access.tls_key_path or None, lambda: key_password or "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        paths = [path for path in (access.tls_trust_cert_path, access.tls_cert_path, access.tls_key_path) if path]
        raise ConfigurationError(
            f"TLS cannot be set up with {', '.join(paths)}: {error}; the files must be PEM and lie on every machine of the query"
        ) from None
    if not access.tls_auth_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
