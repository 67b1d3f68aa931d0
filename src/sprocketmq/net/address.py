"""Addresses of this machine and of peers: what a client or broker tells others about itself, what a record holds."""

from __future__ import annotations

import socket

from sprocketmq.errors import ConfigurationError

__all__ = ["announced_host", "joined_address", "local_ip", "packed_address"]


def announced_host(bind_host: str, broker_ip: str) -> str:
    """The address clients are told: ``broker_ip`` if set, else the bound one, else (bound to all) one of this machine.

    Raises:
        ConfigurationError: the name cannot be resolved, or nothing is known that leads to where it is bound.
    """
    host = broker_ip or bind_host
    if host == "::":  # listens to IPv6 alone, and the address that leads outside is looked up for IPv4
        raise ConfigurationError(
            "bindAddress is '::', which takes connections over IPv6 alone, and which IPv6 address to announce is not known; give that as "
            "brokerIP1, or one address to listen on, or 0.0.0.0 for IPv4"
        )
    if host in ("", "0.0.0.0"):
        host = local_ip()
    import ipaddress  # brokers need it, clients seldom

    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][4][0])
    except OSError as error:
        raise ConfigurationError(
            f"brokerIP1 or bindAddress is {host!r}, which is not an address and cannot be resolved; give an IP address"
        ) from error


def joined_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_ip() -> str:
    """The address of the interface that leads outside; no packet is sent for that. Loopback on a machine without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: never a real peer
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def packed_address(peer: tuple[str, int]) -> tuple[bytes, int]:
    """A socket's peer as a record holds it: 4 or 16 address bytes, port. An unknown peer (a closed socket) becomes 0.0.0.0:0."""
    import ipaddress  # brokers need it, clients seldom

    try:
        # An IPv6 socket may carry a zone ("fe80::1%eth0"), and shows IPv4 peers as ::ffff:a.b.c.d.
        address = ipaddress.ip_address(peer[0].partition("%")[0])
    except ValueError:
        return b"\0\0\0\0", 0
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).packed, peer[1]
