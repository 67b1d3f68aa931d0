# SPDX-License-Identifier: Apache-2.0
"""The files of timer messages: log and wheel."""
