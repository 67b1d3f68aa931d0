# SPDX-License-Identifier: Apache-2.0
"""What the consumers of one group share: progress, retries, send-backs."""
