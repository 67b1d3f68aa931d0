# SPDX-License-Identifier: Apache-2.0
"""TLS of a server: Apache's modes and settings, certificates read again when their files change (Java: TlsHelper, TlsSystemConfig).

    disabled     plain only
    permissive   both on one port: a connection whose first byte is 0x16 begins a TLS handshake, any other is plain
    enforcing    TLS only

New connections use the certificate that was read last; open ones keep theirs. Apache's default is permissive with a certificate that it
generates itself (test mode). Here test mode must be set: without a certificate TLS is off. Test mode needs the package cryptography.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import logging
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import missing_extra

log = logging.getLogger("sprocketmq.net")

HANDSHAKE_BYTE: Final = 0x16
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
_DATES: Final = (9, 10)  # OpenSSL: X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_TEST_CERTIFICATE_DAYS: Final = 3_650


@dataclass(frozen=True)
class TlsSettings:
    """The settings of a server's TLS; the names are Apache's without their prefix. ``mode``: permissive or enforcing.
    ``need_client_auth``: none, optional or require a certificate of the client; ``auth_client``, ``trust_cert_path``: check it against
    these authorities. ``test_mode``: make a self-signed certificate instead of reading one."""

    mode: Literal["permissive", "enforcing"] = "permissive"
    cert_path: str = ""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    need_client_auth: str = "none"
    auth_client: bool = False
    trust_cert_path: str = ""
    test_mode: bool = False

    @property
    def files(self) -> list[str]:
        return [path for path in (self.cert_path, self.key_path, self.trust_cert_path) if path]


class ServerTls:
    """The TLS context of new connections. Call ``reload_if_changed`` periodically. Raises ConfigurationError (a file is missing or
    unreadable, or the settings contradict each other)."""

    def __init__(self, settings: TlsSettings) -> None:
        self.settings = settings
        self._stamp = self._stamp_now()
        self.context = _test_context() if settings.test_mode else _context(settings)

    @property
    def is_enforcing(self) -> bool:
        return self.settings.mode == "enforcing"

    def reload_if_changed(self) -> None:
        """Read the files again if one changed. If they cannot be read, the present certificate stays in use."""
        stamp = self._stamp_now()
        if self.settings.test_mode or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.context = _context(self.settings)
        except ConfigurationError as error:
            # A certificate and its key are two files. Between the two changes they do not match.
            log.warning("the certificate in use stays: %s", error)
        else:
            log.info("certificate %s was read again", self.settings.cert_path)

    def _stamp_now(self) -> list[tuple[str, int, int]]:
        stamps = []
        for path in self.settings.files:
            with contextlib.suppress(OSError):
                status = os.stat(path)
                stamps.append((path, status.st_mtime_ns, status.st_size))
        return stamps


def _context(settings: TlsSettings) -> ssl.SSLContext:
    if not settings.cert_path or not settings.key_path:
        raise ConfigurationError(
            f"TLS is {settings.mode} without a certificate; set tls.server.certPath and tls.server.keyPath, or tls.test.mode.enable=true"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Not None: OpenSSL would ask for the password of an encrypted key at the terminal.
        context.load_cert_chain(settings.cert_path, settings.key_path, settings.key_password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise ConfigurationError(
            f"certificate {settings.cert_path} with key {settings.key_path} cannot be used: {_reason(error)}; "
            "both must be readable PEM files that fit together"
        ) from error
    _check_dates(context, settings.cert_path)
    if settings.need_client_auth != "none":
        _check_clients(context, settings)
    return context


def _check_dates(context: ssl.SSLContext, cert_path: str) -> None:
    """Log a certificate that clients refuse for its dates. The ssl module shows no dates, but a client that trusts this very certificate
    checks them: the two shake hands in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cert_path)
        sides = client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
        for side in (*sides, *sides):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _DATES:
            sentence = "certificate %s: %s; clients that check it refuse this server, renew it or set the clock"
            log.warning(sentence, cert_path, error.verify_message)
    except OSError:
        pass  # this is only a check; a client that connects gets the error


def _check_clients(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.auth_client or not settings.trust_cert_path:
        raise ConfigurationError(
            f"tls.server.need.client.auth is {settings.need_client_auth} without authorities to check certificates against; "
            "set tls.server.authClient=true and tls.server.trustCertPath"
        )
    try:
        context.load_verify_locations(settings.trust_cert_path)
    except OSError as error:
        raise ConfigurationError(
            f"tls.server.trustCertPath {settings.trust_cert_path} cannot be used: {_reason(error)}; give a readable PEM file"
        ) from error
    context.verify_mode = _VERIFY[settings.need_client_auth]


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _test_context() -> ssl.SSLContext:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise missing_extra(
            "tls.test.mode.enable=true (a certificate of your own needs no package)", "tls", error
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_TEST_CERTIFICATE_DAYS))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    with tempfile.TemporaryDirectory(
        prefix="sprocketmq-tls-"
    ) as folder:  # the ssl module reads certificates from files only
        both = Path(folder) / "test.pem"
        both.touch(0o600)
        both.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            + certificate.public_bytes(pem)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
    log.warning("TLS uses a self-signed certificate that was generated now: clients cannot verify this server")
    return context
