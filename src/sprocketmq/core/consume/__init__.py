# SPDX-License-Identifier: Apache-2.0
"""One queue's messages between pull and progress, and what decides when they go to a listener."""
