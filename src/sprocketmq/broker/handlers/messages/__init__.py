# SPDX-License-Identifier: Apache-2.0
"""Requests that store, read or move messages."""
