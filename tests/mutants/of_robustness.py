"""Mutants of what keeps bad input and damaged files from doing harm."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["ROBUSTNESS_MUTANTS"]

VALUES = "tests/inproc/broker/test_hostile_values.py"
CHECK = "tests/unit/store/test_check.py"

ROBUSTNESS_MUTANTS = [
    Mutant(
        "net",
        "a send that waits for the disk holds its body a second time",
        "src/sprocketmq/broker/broker.py",
        "        command = Command(command.code, command.opaque, command.flag)\n",
        "",
        "tests/inproc/broker/test_broker_restart.py::test_who_waits_for_the_disk_holds_no_body",
    ),
    Mutant(
        "net",
        "each connection that sends noise writes a line into the log",
        "src/sprocketmq/net/connection.py",
        '_bad_bytes.tell(self.last_read_s, "closing',
        'log.warning("closing',
        f"{VALUES}::test_connections_that_end_over_noise_are_told_once_not_a_thousand_times",
    ),
    Mutant(
        "tools",
        "a question about a member that is not there leaves its group behind",
        "src/sprocketmq/broker/handlers/messages/relay.py",
        "broker.groups.table.get(group)",
        "broker.groups.find(group, now_ms)",
        f"{VALUES}::test_no_value_of_any_field_is_left_unanswered_or_changes_anything_by_a_refusal[broker-309-cluster0]",
    ),
    Mutant(
        "files",
        "who only looks at a short file falls over its end",
        "src/sprocketmq/store/files/mapped_file.py",
        "if self.read_only and os.fstat(fd).st_size < self.size_bytes:",
        "if False:",
        f"{CHECK}::test_a_short_last_file_reads_as_a_start_would_extend_it_and_stays_as_it_is",
    ),
    Mutant(
        "files",
        "the largest file of a queue counts as the size of all",
        "src/sprocketmq/store/tools/check.py",
        "key=lambda size: (whole[size], size)",
        "key=lambda size: -size",
        f"{CHECK}::test_one_short_file_does_not_count_as_the_size_of_all",
    ),
    Mutant(
        "files",
        "a checkpoint that cannot be read is a traceback",
        "src/sprocketmq/store/files/checkpoint.py",
        "        except OSError as error:\n            raise StoreCorrupt(",
        "        except ZeroDivisionError as error:\n            raise StoreCorrupt(",
        f"{CHECK}::test_a_checkpoint_that_cannot_be_read_is_one_sentence",
    ),
]
ROBUSTNESS_MUTANTS += [
    Mutant(
        "transactions",
        "the mark of a half that was set aside ends its transaction at the next start",
        "src/sprocketmq/core/transactions/transaction_check.py",
        "            elif offset not in self._set_aside:",
        "            else:",
        "tests/unit/core/test_transaction_check.py::test_a_copy_that_a_start_set_aside_is_no_end_for_the_next_start",
    ),
    Mutant(
        "transactions",
        "an END that names a half which was set aside is taken for a second one",
        "src/sprocketmq/core/transactions/transaction_check.py",
        "return offset in self._settled and offset not in self._set_aside",
        "return offset in self._settled",
        "tests/unit/core/test_transaction_check.py::test_an_end_that_names_a_half_which_was_set_aside_is_the_first_end",
    ),
    Mutant(
        "transactions",
        "the mark of a half that was set aside does not say so",
        "src/sprocketmq/broker/delivery/transactions.py",
        '            named[SET_ASIDE] = "true"\n',
        "            pass\n",
        "tests/inproc/broker/test_broker_transactions.py::test_two_kills_between_copies_and_progress_end_no_transaction",
    ),
    Mutant(
        "files",
        "an administrator is told of a topic before the disk has it",
        "src/sprocketmq/broker/config_store.py",
        "            table.when_saved(partial(is_saved, table))\n",
        "            is_saved(table, None)\n",
        "tests/inproc/broker/test_config_writes.py::test_a_hundred_changes_during_a_write_cost_one_more_and_each_is_told_after_its_own",
    ),
    Mutant(
        "net",
        "who waits for a registration waits for all later ones as well",
        "src/sprocketmq/broker/replication/registration.py",
        "        wanted = self._wanted\n        while",
        "        wanted = self._wanted + 1\n        while",
        "tests/unit/broker/test_registration.py::test_a_hundred_changes_during_a_round_cost_one_more_and_later_ones_are_not_waited_for",
    ),
    Mutant(
        "tools",
        "one place in the code can fill the log",
        "src/sprocketmq/cli/log_lines.py",
        "        if place[1] >= self._limit:",
        "        if False:",
        "tests/unit/cli/test_log_lines.py::test_of_a_thousand_lines_from_one_place_sixty_a_minute_pass_and_the_next_one_counts_the_others",
    ),
    Mutant(
        "filters",
        "the parser of filters is loaded on the loop",
        "src/sprocketmq/broker/late_libraries.py",
        "        if library not in _loaded and needs(command):",
        "        if False:",
        "tests/inproc/broker/test_late_libraries.py::test_filters_wait_for_their_parser_while_others_are_served",
    ),
]
