# SPDX-License-Identifier: Apache-2.0
"""How values and bodies become text on a page."""
