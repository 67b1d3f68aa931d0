# SPDX-License-Identifier: Apache-2.0
"""What a broker keeps in addition to the log: topics, groups, offsets, members."""
