# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common: how they are found, which cluster they connect to, what they print, and how they confirm a change."""
