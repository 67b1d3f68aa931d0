# SPDX-License-Identifier: Apache-2.0
"""The descriptor that foreign event loops wait for: readable as long as it is set, closed for good, and left to the parent by a fork."""

from __future__ import annotations

import gc
import os
import select

import pytest

from sprocketmq.net.process.ready_descriptor import ReadyDescriptor


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_it_is_readable_exactly_while_it_is_set():
    ready = ReadyDescriptor()
    number = ready.fileno()
    for is_ready in (False, True, True, False, False, True, True):
        ready.set(is_ready)
        assert is_readable(number) is is_ready
    ready.set(False)
    assert not is_readable(number), "one byte however often it was set"
    ready.close()
    assert ready.fileno() == -1
    ready.close()
    ready.set(True)


def test_a_byte_that_somebody_else_read_comes_again_with_the_next_change():
    ready = ReadyDescriptor()
    ready.set(True)
    ready._reader.recv(1)
    ready.set(False)
    ready.set(True)
    assert is_readable(ready.fileno())
    ready.close()


def test_both_ends_are_closed_with_the_last_reference():
    ready = ReadyDescriptor()
    ends = [ready._reader, ready._writer]
    assert not any(end.get_inheritable() for end in ends)
    del ready
    gc.collect()
    assert [end.fileno() for end in ends] == [-1, -1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where there are forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks beside threads
@pytest.mark.parametrize("is_ready", [False, True])
def test_a_forked_child_has_a_pair_of_its_own_and_begins_readable(is_ready):
    ready = ReadyDescriptor()
    ready.set(is_ready)
    child = os.fork()
    if not child:
        seen = [is_readable(ready.fileno())]
        for own in (False, True, False):
            ready.set(own)
            seen.append(is_readable(ready.fileno()))
        os._exit(0 if seen == [True, False, True, False] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_readable(ready.fileno()) is is_ready
    ready.set(False)
    assert not is_readable(ready.fileno())
    ready.close()
