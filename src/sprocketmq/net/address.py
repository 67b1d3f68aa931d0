# SPDX-License-Identifier: Apache-2.0
"""Addresses of this machine and of peers: the address that a client or broker reports to others, and the addresses in records."""

from __future__ import annotations

import socket

from sprocketmq.errors import ConfigurationError


def announced_host(bind_host: str, broker_ip: str) -> str:
    """The address to report to clients: ``broker_ip`` if set, else the bound one, or one of this machine if bound to all. A name in
    ``broker_ip`` is reported as it is: clients can check it in a certificate, and find a host whose address changes (Java:
    BrokerController.getBrokerAddr). Raises ConfigurationError (the name cannot be resolved, or no address is known that leads to the
    bound one)."""
    host = broker_ip or bind_host
    if host == "::":  # listens to IPv6 only, but local_ip finds an IPv4 address
        raise ConfigurationError(
            "bindAddress is '::', which accepts connections over IPv6 only, and the IPv6 address to announce is not known; set brokerIP1 "
            "to that address, or bindAddress to one address, or to 0.0.0.0 for IPv4"
        )
    if host in ("", "0.0.0.0"):
        host = local_ip()
    address = address_of(host)
    return broker_ip if broker_ip and _ip_address(broker_ip) is None else address


def address_of(host: str) -> str:
    """The IP address of a broker's host, which records hold. Raises ConfigurationError: the name cannot be resolved."""
    if (address := _ip_address(host)) is not None:
        return address

    try:
        return str(socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][4][0])
    except OSError as error:
        raise ConfigurationError(
            f"brokerIP1 or bindAddress is {host!r}, which is not an address and cannot be resolved; give an IP address"
        ) from error


def _ip_address(host: str) -> str | None:
    """The address in its usual form; None: it is a name."""
    import ipaddress  # brokers need it, clients seldom

    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def joined_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_ip() -> str:
    """The address of the interface that leads outside; no packet is sent to find it. Loopback on a machine without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: never a real peer
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def packed_address(peer: tuple[str, int]) -> tuple[bytes, int]:
    """The peer of a socket in the form that records have: 4 or 16 address bytes, port. An unknown peer (a closed socket) is 0.0.0.0:0."""
    import ipaddress  # brokers need it, clients seldom

    try:
        # An IPv6 socket may carry a zone ("fe80::1%eth0"), and shows IPv4 peers as ::ffff:a.b.c.d.
        address = ipaddress.ip_address(peer[0].partition("%")[0])
    except ValueError:
        return b"\0\0\0\0", 0
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).packed, peer[1]


def broker_given_as_name_server(address: str) -> str:
    return f"{address} is a broker, not a name server; its name servers are usually at port 9876"


def name_server_given_as_broker(address: str) -> str:
    return f"{address} is a name server, not a broker; brokers are usually at port 10911, or name one as the name server knows it"
