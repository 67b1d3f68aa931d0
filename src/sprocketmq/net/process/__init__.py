# SPDX-License-Identifier: Apache-2.0
"""What exists once in a process: clock, event loop, descriptors, memory, forking."""
