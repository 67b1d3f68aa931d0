# SPDX-License-Identifier: Apache-2.0
"""Observing a client: message trace, spans, recorded decisions."""
