"""Mutants of full disks and of files that cannot be written."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["FULL_DISK_MUTANTS"]

_STORE = "src/sprocketmq/store"
_BROKER = "src/sprocketmq/broker"
_TABLES = "tests/inproc/broker/test_unwritable_tables.py"
_FOLDERS = "tests/system/broker/test_store_folders.py"
_SPACE = "tests/unit/store/test_disk_space.py"

FULL_DISK_MUTANTS = [
    Mutant(
        "disk",
        "a short write is taken for whole",
        f"{_STORE}/files/disk_space.py",
        "            at += os.write(fd, _ZEROS[: end - at])\n",
        "            os.write(fd, _ZEROS[: end - at])\n            at = end\n",
        _SPACE,
    ),
    Mutant(
        "disk",
        "a short write of a small file is taken for whole",
        f"{_STORE}/files/disk_space.py",
        "        left = left[os.write(fd, left) :]\n",
        "        os.write(fd, left)\n        break\n",
        _SPACE,
    ),
    Mutant(
        "disk",
        "room is given without asking the kernel for the pages",
        f"{_STORE}/files/mapped_file.py",
        "            allow_writes_at_ends(self._mapping(), self.path, begin, end)\n",
        "            pass\n",
        f"{_SPACE}::test_pages_that_the_kernel_does_not_let_be_written_are_no_room",
    ),
    Mutant(
        "disk",
        "the end of what was written is not asked for",
        f"{_STORE}/files/disk_space.py",
        "        if (end - 1) // PAGE_BYTES != begin // PAGE_BYTES:\n",
        "        if not mapping:\n",
        f"{_SPACE}::test_pages_that_the_kernel_does_not_let_be_written_are_no_room",
    ),
    Mutant(
        "disk",
        "room outlives the mapping that it was sure of",
        f"{_STORE}/files/mapped_file.py",
        "        self.room, self._data_end = 0, None\n",
        "        self._data_end = None\n",
        f"{_SPACE}::test_what_was_sure_of_a_mapping_is_asked_for_again_with_the_next_one",
    ),
    Mutant(
        "disk",
        "an old entry is written over in a file that may be sparse",
        f"{_STORE}/files/mapped_file.py",
        "            allow_writes(self._mapping(), self.path, at, at + len(content))\n",
        "            pass\n",
        f"{_SPACE}::test_every_file_that_is_written_through_a_mapping_asks_for_its_pages",
    ),
    Mutant(
        "disk",
        "an administrator is told that all is well when his change could not be written",
        f"{_BROKER}/tables/table_file.py",
        "answer if error is None else not_saved(command, error)",
        "answer",
        f"{_TABLES}::test_a_change_whose_file_cannot_be_written_is_answered_with_an_error_until_it_is_written",
    ),
    Mutant(
        "disk",
        "to ask again for a change that could not be written is answered with all is well",
        f"{_BROKER}/tables/table_file.py",
        "        self.retry()\n        if self._is_changed:\n",
        "        if self._is_changed:\n",
        f"{_TABLES}::test_a_change_whose_file_cannot_be_written_is_answered_with_an_error_until_it_is_written",
    ),
    Mutant(
        "disk",
        "a table that could not be written waits for its next change",
        f"{_BROKER}/housekeeping.py",
        "        self._config_store.retry()\n",
        "",
        f"{_TABLES}::test_a_change_whose_file_cannot_be_written_is_answered_with_an_error_until_it_is_written",
    ),
    Mutant(
        "disk",
        "offsets that could not be written count as written",
        f"{_BROKER}/config_store.py",
        "            self._set_dirty(file)  # the next round writes it again\n",
        "            pass\n",
        f"{_TABLES}::test_offsets_that_could_not_be_written_are_written_in_the_next_round",
    ),
    Mutant(
        "disk",
        "a user who could not be written counts until the broker ends",
        f"{_BROKER}/security/users.py",
        "            self.table.load(*before)\n",
        "",
        f"{_TABLES}::test_users_and_policies_that_cannot_be_written_are_as_before",
    ),
    Mutant(
        "disk",
        "folders above the store have to be opened",
        f"{_STORE}/files/mapped_file_queue.py",
        "range(self.folders_above)",
        "range(2)",
        f"{_FOLDERS}::test_a_store_below_a_folder_that_may_not_be_listed_takes_messages",
    ),
    Mutant(
        "disk",
        "a folder that may not be used is found out by the first message",
        f"{_STORE}/disk_message_store.py",
        "        for directory in self._folders[2:]:\n            _check_access(directory)\n",
        "",
        f"{_FOLDERS}::test_a_folder_of_the_store_that_may_not_be_used_is_named_at_the_start[index-329]",
    ),
    Mutant(
        "disk",
        "two brokers write the same commit log",
        f"{_STORE}/files/lock_file.py",
        "                    self._lock_folder(folder)\n",
        "                    pass\n",
        f"{_FOLDERS}::test_two_brokers_do_not_share_a_folder",
    ),
]
