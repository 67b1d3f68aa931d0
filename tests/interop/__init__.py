# SPDX-License-Identifier: Apache-2.0
"""Tests against the real peers: Apache RocketMQ 5.4.0 and 4.9.7 on a JVM, fetched from Maven Central once and kept in a cache."""
