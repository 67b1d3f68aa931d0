# SPDX-License-Identifier: Apache-2.0
"""The commit log and its records."""
