# SPDX-License-Identifier: Apache-2.0
"""Access control, and the check of names in requests."""
