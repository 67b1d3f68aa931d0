# SPDX-License-Identifier: Apache-2.0
"""Settings, where they are stored, and changes while the broker runs."""
