# SPDX-License-Identifier: Apache-2.0
"""Dead letters: listing them, and sending them again."""
