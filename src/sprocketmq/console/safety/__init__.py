# SPDX-License-Identifier: Apache-2.0
"""Who may look, who may change, what is hidden, and what is written down."""
