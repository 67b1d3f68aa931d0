# SPDX-License-Identifier: Apache-2.0
"""Conversion of pulled records into Arrow columns."""
