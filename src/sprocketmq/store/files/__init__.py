# SPDX-License-Identifier: Apache-2.0
"""Files of a store: mapping, allocating, locking, and how much of them is on the disk."""
