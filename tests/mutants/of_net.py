# SPDX-License-Identifier: Apache-2.0
"""Connections and processes."""

from __future__ import annotations

from mutants.mutant import Mutant

__all__ = ["NET_MUTANTS"]

NET_MUTANTS = [
    Mutant(
        "S1",
        "a forked child is told nothing and shares its parent's sockets",
        "src/sprocketmq/net/process/fork.py",
        "    os.register_at_fork(after_in_child=_after_fork_in_child)\n",
        "    pass\n",
        "tests/system/net/test_fork.py::test_a_forked_child_cannot_use_its_parents_clients_and_makes_its_own[os.fork]",
    ),
    Mutant(
        "tls",
        "enforcing lets plain connections in",
        "src/sprocketmq/net/tls_listener.py",
        "        if not first or (self._tls.is_enforcing and not speaks_tls):",
        "        if not first:",
        "tests/system/net/test_tls.py::test_enforcing_closes_a_plain_connection_and_serves_tls",
    ),
    Mutant(
        "net",
        "a peer that does not read is served on",
        "src/sprocketmq/net/bounded_protocol.py",
        "                self._transport.pause_reading()",
        "                pass",
        "tests/system/net/test_connection.py::test_a_peer_that_does_not_read_stops_being_read_from",
    ),
    Mutant(
        "net",
        "what TLS keeps of a peer is not counted",
        "src/sprocketmq/net/bounded_protocol.py",
        "            in_bytes + self._tls_bytes if",
        "            in_bytes if",
        "tests/unit/net/test_bounded_protocol.py::test_what_tls_keeps_beside_an_unfinished_frame_is_counted",
    ),
]
