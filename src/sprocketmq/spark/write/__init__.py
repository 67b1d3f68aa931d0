# SPDX-License-Identifier: Apache-2.0
"""The sink: one writer for each task, one commit for each batch."""
