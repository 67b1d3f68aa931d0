# SPDX-License-Identifier: Apache-2.0
"""Requests of consumer groups, and about them."""
