# SPDX-License-Identifier: Apache-2.0
"""Tools for a store directory: check, inspect."""
