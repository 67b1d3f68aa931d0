# SPDX-License-Identifier: Apache-2.0
"""Messages that were given up: listed, mended, sent again."""
