# SPDX-License-Identifier: Apache-2.0
"""The tables of name servers, and replication between the brokers of one group."""
