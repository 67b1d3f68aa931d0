# SPDX-License-Identifier: Apache-2.0
"""Push and pull consumers: the public classes, the parts of a running consumer, rebalance, and running info."""
