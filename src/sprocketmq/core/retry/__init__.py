# SPDX-License-Identifier: Apache-2.0
"""When a failed message comes again, and when it is given up."""
