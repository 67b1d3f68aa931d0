# SPDX-License-Identifier: Apache-2.0
"""The commands of a cluster, one file for each noun. Each calls Admin, a producer or a reader; none holds logic of messaging."""
