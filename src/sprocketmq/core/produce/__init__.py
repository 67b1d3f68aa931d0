# SPDX-License-Identifier: Apache-2.0
"""Which queue a message goes to, and what goes together in one request."""
