# SPDX-License-Identifier: Apache-2.0
"""Calling the user's listeners."""
