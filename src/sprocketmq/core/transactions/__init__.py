# SPDX-License-Identifier: Apache-2.0
"""Half messages, their decisions and the broker's checks."""
