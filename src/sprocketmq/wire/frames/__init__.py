# SPDX-License-Identifier: Apache-2.0
"""Frames of the protocol: cutting, reading, writing, signing."""
