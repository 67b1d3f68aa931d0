# SPDX-License-Identifier: Apache-2.0
"""Servers in the foreground, with their settings and log lines."""
