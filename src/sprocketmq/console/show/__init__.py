# SPDX-License-Identifier: Apache-2.0
"""Converting values and bodies to text on a page."""
