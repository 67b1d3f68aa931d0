# SPDX-License-Identifier: Apache-2.0
"""Slaves, handover, and registration at name servers."""
