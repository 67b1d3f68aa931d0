# SPDX-License-Identifier: Apache-2.0
"""Options of source and sink: their checks, and the settings that they become."""
