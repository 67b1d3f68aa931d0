# SPDX-License-Identifier: Apache-2.0
"""The source: which messages a batch reads, and reading them."""
