# SPDX-License-Identifier: Apache-2.0
"""Connections of driver and tasks to the brokers, and the query as a member of its consumer group."""
