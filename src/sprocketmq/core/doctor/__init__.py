# SPDX-License-Identifier: Apache-2.0
"""Why a consumer group does not move: what can be seen of it, and one verdict."""
