# SPDX-License-Identifier: Apache-2.0
"""One process's way to name servers and brokers: requests, routes, heartbeats, sends with their retries."""
