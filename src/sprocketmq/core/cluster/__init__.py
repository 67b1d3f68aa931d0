# SPDX-License-Identifier: Apache-2.0
"""What name servers know of brokers; replication between the brokers of one group."""
