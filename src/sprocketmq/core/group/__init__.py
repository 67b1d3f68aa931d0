# SPDX-License-Identifier: Apache-2.0
"""Which member of a group reads which queue, and what the group subscribes to."""
