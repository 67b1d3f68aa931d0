"""Mutants of the short ways of sends and pulls, of batches that look alike, and of the append behind them."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["HOT_PATH_MUTANTS"]

BROKER, STORE, WIRE = "src/sprocketmq/broker", "src/sprocketmq/store", "src/sprocketmq/wire"
SHORT = "tests/inproc/broker/test_broker_short_ways.py"
SENDS = f"{SHORT}::test_one_odd_thing_about_a_send_leaves_it_as_it_is_on_the_long_way"
BATCHES = f"{SHORT}::test_one_odd_message_of_a_batch_leaves_it_as_it_is_one_by_one"
AHEAD = "tests/unit/store/test_space_ahead.py"
BATCH_ODD = f"{SHORT}::test_a_batch_is_stored_and_answered_as_on_the_long_way"
FRONT = f"{SHORT}::test_nothing_takes_the_short_way_past_what_stands_in_front"

HOT_PATH_MUTANTS = [
    Mutant(
        "hot",
        "a one-way send is answered",
        f"{BROKER}/plain_sends.py",
        "            or head.flag\n",
        "",
        SENDS,
    ),
    Mutant(
        "hot",
        "a retry of a message counts as its first delivery",
        f"{BROKER}/plain_sends.py",
        '            or ext.j != "0"\n',
        "",
        SENDS,
    ),
    Mutant(
        "hot",
        "a delayed message is delivered at once",
        f"{BROKER}/plain_sends.py",
        "if plain and not is_special(marked):",
        "if plain:",
        SENDS,
    ),
    Mutant(
        "hot",
        "a key that JSON must escape breaks the answer",
        f"{BROKER}/plain_sends.py",
        "or not (key.isalnum() or _is_plain(key)):",
        "or not key:",
        SENDS,
    ),
    Mutant(
        "hot",
        "all properties count as of the first shape that was seen",
        f"{BROKER}/plain_sends.py",
        "        template = raw[:key_at] + raw[key_end:]\n",
        '        template = raw[:key_at] + "\\x02"\n',
        SENDS,
    ),
    Mutant(
        "hot",
        "of two unique keys the first counts when the second is the probe",
        f"{BROKER}/plain_sends.py",
        "if text.isascii() and text.count(_KEY) == 1:",
        "if text.isascii():",
        SENDS,
    ),
    Mutant(
        "hot",
        "sends go past what stands in front of their handler",
        f"{BROKER}/short_ways.py",
        "        sends = handlers.get(RequestCode.SEND_MESSAGE_V2) is handle_send\n",
        "        sends = True\n",
        FRONT,
    ),
    Mutant(
        "hot",
        "sends are answered before the disk has them",
        f"{BROKER}/plain_sends.py",
        "        if broker.sends_wait or ",
        "        if ",
        FRONT,
    ),
    Mutant(
        "hot",
        "pulls on the short way never wait",
        f"{BROKER}/plain_pulls.py",
        "self.now_ms, may_park=True)",
        "self.now_ms, may_park=False)",
        f"{SHORT}::test_a_parked_pull_is_woken_by_a_send_on_the_short_way",
    ),
    Mutant(
        "hot",
        "a value of a batch may hold a separator",
        f"{WIRE}/uniform_batch.py",
        '            if b"\\x01" in text or b"\\x02" in text or b"\\x00" in text:\n                return None\n',
        "",
        BATCHES,
    ),
    Mutant(
        "hot",
        "batches go past what stands in front of their handler",
        f"{BROKER}/short_ways.py",
        "        batches = handlers.get(RequestCode.SEND_BATCH_MESSAGE) is handle_send\n",
        "        batches = sends\n",
        FRONT,
    ),
    Mutant(
        "hot",
        "a delayed batch is delivered at once",
        f"{BROKER}/plain_batches.py",
        "if not is_delayed(raw) and whole",
        "if whole",
        BATCH_ODD,
    ),
    Mutant(
        "hot",
        "of two unique keys in a batch the first counts",
        f"{BROKER}/plain_batches.py",
        " and whole.count(_KEY) == 1:",
        ":",
        BATCH_ODD,
    ),
    Mutant(
        "hot",
        "a batch of another shape is judged as the first one",
        f"{BROKER}/plain_batches.py",
        "self._shapes.get((template, common), self)",
        "next(iter(self._shapes.values()), self)",
        BATCH_ODD,
    ),
    Mutant(
        "hot",
        "a one-way batch is answered",
        f"{BROKER}/plain_batches.py",
        "            or head.flag\n",
        "",
        BATCH_ODD,
    ),
    Mutant(
        "hot",
        "the ids of a batch are those of its first message",
        f"{BROKER}/stamps.py",
        "        places[:] = np.arange(physical_offset, physical_offset + step * count, step)\n",
        "        places[:] = physical_offset\n",
        BATCHES,
    ),
    Mutant(
        "hot",
        "all messages of a batch get the flag of the first",
        f"{WIRE}/uniform_batch.py",
        "        records[:, RecordFields.FLAG : RecordFields.FLAG + 4] = table[:, 12:16]\n",
        "",
        BATCHES,
    ),
    Mutant(
        "hot",
        "a batch whose properties differ counts as uniform",
        f"{WIRE}/uniform_batch.py",
        "        if tails.tobytes() != data[tail_at:size] * count:\n            return None\n",
        "",
        BATCHES,
    ),
    Mutant(
        "hot",
        "a record exists before it is whole",
        f"{WIRE}/record.py",
        "    _PACK_BEHIND_MAGIC(\n        view,\n",
        "    _PACK_SIZE_MAGIC(view, at, size, 0xDAA320A7)\n    _PACK_BEHIND_MAGIC(\n        view,\n",
        "tests/unit/store/test_torn_writes.py",
    ),
    Mutant(
        "hot",
        "units that do not fit the reserved space are lost",
        f"{STORE}/consume_queue.py",
        "            while done < len(units):\n",
        "            if done < len(units):\n",
        "tests/unit/store/test_message_store.py",
    ),
    Mutant(
        "hot",
        "the writer may use space that is still being written",
        f"{STORE}/space_ahead.py",
        "            self._pending = (file, self._executor",
        "            file.room = begin + step\n            self._pending = (file, self._executor",
        f"{AHEAD}::test_zeros_are_written_only_behind_what_the_writer_may_use",
    ),
    Mutant(
        "hot",
        "requests wait for the zeros of the whole log",
        f"{STORE}/space_ahead.py",
        "_FROM_BYTES <= begin < file.size_bytes",
        "begin > file.size_bytes",
        f"{AHEAD}::test_a_log_that_grows_finds_its_space_written_by_the_thread",
    ),
    Mutant(
        "hot",
        "a disk that is full for the thread is full for ever",
        f"{STORE}/space_ahead.py",
        "contextlib.suppress(StoreNotWritable)",
        "contextlib.nullcontext()",
        f"{AHEAD}::test_a_disk_that_is_full_for_the_thread_is_found_full_by_the_writer",
    ),
    Mutant(
        "hot",
        "each start loads NumPy",
        f"{BROKER}/index_building.py",
        "import importlib\n",
        "import importlib\nimport numpy\n",
        "tests/system/cli/test_serve.py::test_a_server_starts_without_what_only_some_of_them_need",
    ),
]
