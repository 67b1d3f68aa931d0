# SPDX-License-Identifier: Apache-2.0
"""Who may read, who may change something, what is hidden, and what the audit log contains."""
