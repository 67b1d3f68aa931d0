# SPDX-License-Identifier: Apache-2.0
"""Options of clients: what may be given, and what it becomes."""
