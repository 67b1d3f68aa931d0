# SPDX-License-Identifier: Apache-2.0
"""A consumer as a member of its group: progress, retries, send-backs."""
