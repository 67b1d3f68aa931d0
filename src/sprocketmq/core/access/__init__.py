# SPDX-License-Identifier: Apache-2.0
"""Access control of both generations, without I/O: 4.9 (``plain_acl``, ``plain_file``) and 5.x (``users``, ``policies``).

``rights``, ``request_needs`` and ``need_readers`` say for both what a request needs, ``addresses`` matches white lists. A decision is a
reason to refuse, or None."""
