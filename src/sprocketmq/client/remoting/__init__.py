# SPDX-License-Identifier: Apache-2.0
"""The connections of a process to name servers and brokers: requests, routes, heartbeats, sends with their retries."""
