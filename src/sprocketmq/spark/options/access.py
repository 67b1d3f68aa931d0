"""Who a Spark job is to the brokers, and how its connections are secured. One value, made of options on the driver, used in every process.

    options --parse--> Access --pickled with reader or writer--> driver's source process, tasks --credentials, ssl_context--> connections

Laws
1. A secret is in no text: neither in ``repr`` nor in error sentences, and a table of the catalog, which anybody may describe, takes none
   (``refuse_secrets_in_tables``); name a file there.
2. ``secretKeyFile`` is read on the driver, when the query is made: executors need not have the file.
3. Certificates are files on each machine, as an SSL context cannot travel; each process makes its own, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.option_table import SECRETS
from sprocketmq.wire.acl_signature import Credentials

if TYPE_CHECKING:
    import ssl

__all__ = ["PLAIN", "Access", "access_from", "refuse_secrets_in_tables"]

_NAMES: Final = (
    "accessKey", "secretKey", "securityToken", "secretKeyFile",
    "tls", "tlsTrustCertPath", "tlsCertPath", "tlsKeyPath", "tlsKeyPassword", "tlsAuthServer",
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """Credentials and TLS of one query. Picklable; equal for equal options, so connections can be shared by it.

    Attributes:
        access_key, secret_key, security_token: requests are signed with them; empty for none.
        tls: speak TLS; the paths are PEM files on every machine that runs the query.
        tls_auth_server: check the server's certificate (against ``tls_trust_cert_path``, else against what the machine trusts).
    """

    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: bool = False
    tls_trust_cert_path: str = ""
    tls_cert_path: str = ""
    tls_key_path: str = ""
    tls_key_password: str = field(default="", repr=False)
    tls_auth_server: bool = True

    @property
    def credentials(self) -> Credentials | None:
        """What requests are signed with, None when they are not."""
        if not self.access_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token or None)

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """None without ``tls``; else this process's context. Raises ConfigurationError: a file is not there or not what it should be."""
        return _ssl_context(self) if self.tls else None

    def client_options(self) -> dict[str, Any]:
        """As keyword arguments of a producer or another client."""
        return {
            "access_key": self.access_key or None,
            "secret_key": self.secret_key or None,
            "security_token": self.security_token or None,
            "ssl_context": self.ssl_context,
        }


PLAIN: Final = Access()


def access_from(text: Callable[[str], str | None], flag: Callable[[str], bool]) -> Access:
    """The access that options describe.

    Args:
        text: option name -> value or None.
        flag: option name -> value.

    Raises:
        ConfigurationError: one key without the other, an unreadable ``secretKeyFile``, TLS settings without ``tls``.
    """
    given = {name: (text(name) or "").strip() for name in _NAMES}
    if given["secretKeyFile"]:
        if given["secretKey"]:
            raise ConfigurationError("secretKey and secretKeyFile are both given; keep the file")
        kept = _keys_in(given["secretKeyFile"])
        given.update({name: value for name, value in kept.items() if not given[name]})
    if bool(given["accessKey"]) != bool(given["secretKey"]):
        one, other = ("accessKey", "secretKey") if given["accessKey"] else ("secretKey", "accessKey")
        raise ConfigurationError(
            f"{one} is given without {other}; a signature needs both (secretKeyFile may hold both)"
        )
    if given["securityToken"] and not given["accessKey"]:
        raise ConfigurationError("securityToken is given without accessKey and secretKey; a signature needs them")
    tls = flag("tls")
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
        flag("tlsAuthServer"),
    )


def refuse_secrets_in_tables(options: Mapping[str, str]) -> None:
    """Raises ConfigurationError when a table's own options hold a secret (law 1)."""
    known = {name.lower(): name for name in SECRETS}
    held = next((known[key.lower()] for key in options if key.lower() in known), None)
    if held is not None:
        raise ConfigurationError(
            f"{held} is among the options of a table, where DESCRIBE and the metastore show it; give secretKeyFile instead, "
            "a file that is read on the driver"
        )


def _keys_in(path: str) -> dict[str, str]:
    """The file holds the secret key alone, or ``accessKey: ...`` and ``secretKey: ...`` as Apache's conf/tools.yml."""
    try:
        content = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(
            f"secretKeyFile is {path!r}, which cannot be read on the driver ({reason}); give a file that can"
        ) from None
    pairs = {}
    for line in content.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() in ("accessKey", "secretKey", "securityToken"):
            pairs[name.strip()] = value.strip().strip("'\"")
    if pairs:
        return pairs
    if not content or len(content.split()) != 1:
        raise ConfigurationError(
            f"secretKeyFile is {path!r}, which holds neither one secret nor lines accessKey: and secretKey:; correct the file"
        )
    return {"secretKey": content}


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
