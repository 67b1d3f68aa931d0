# SPDX-License-Identifier: Apache-2.0
"""Bytes that wait for a peer."""
