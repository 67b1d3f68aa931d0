# SPDX-License-Identifier: Apache-2.0
"""END_TRANSACTION by template: the same bytes as by Command."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.end_frames import EndTransactionTemplate
from sprocketmq.wire.frames.command import encode_command, request
from sprocketmq.wire.headers import EndTransactionRequestHeader

NAMES = st.text('aB%1"\\é飞 ', max_size=12)
OFFSETS = st.integers(0, 2**62)


@given(NAMES, NAMES, NAMES, st.booleans(), OFFSETS, OFFSETS, st.integers(0, 2**31 - 1))
def test_a_frame_by_template_is_the_frame_of_its_command(
    group, topic, broker, commit, queue_offset, commit_log_offset, opaque
):
    def header(queue: int, log: int) -> EndTransactionRequestHeader:
        return EndTransactionRequestHeader(
            producer_group=group,
            tran_state_table_offset=queue,
            commit_log_offset=log,
            commit_or_rollback=8 if commit else 12,
            msg_id=broker,
            topic=topic or None,
            bname=broker,
        )

    command = request(RequestCode.END_TRANSACTION, header(queue_offset, commit_log_offset))
    command.opaque = opaque
    assert EndTransactionTemplate(header(7, 7)).frame(opaque, queue_offset, commit_log_offset) == encode_command(
        command
    )
