"""Mutants of the test suite itself: who runs what, which shared server a test gets, and what is told at the end."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["SUITE_MUTANTS"]

COLUMNS = "tests/test_columns.py"
SHARED = "tests/interop/test_shared_servers.py"

SUITE_MUTANTS = [
    Mutant(
        "testing",
        "a worker that is through takes over the servers of the other",
        "tests/columns.py",
        "return best if rank(best) < 3 else None",
        "return best",
        f"{COLUMNS}::test_the_servers_and_the_session_stay_in_one_worker_each_and_the_rest_goes_to_who_is_free",
    ),
    Mutant(
        "testing",
        "the column of a worker that crashed is run by nobody",
        "tests/columns.py",
        "return 1 if owner not in self.assigned_work else 3",
        "return 1 if owner is None else 3",
        f"{COLUMNS}::test_a_new_worker_takes_over_the_column_of_one_that_crashed",
    ),
    Mutant(
        "testing",
        "the first test that needs a shared server decides its settings",
        "tests/interop/shared_servers.py",
        "key = (kind, *sorted(settings.items()))",
        "key = (kind,)",
        f"{SHARED}::test_who_asks_gets_what_it_needs_in_any_order",
    ),
    Mutant(
        "testing",
        "a setting that a test left changed stays",
        "tests/interop/shared_servers.py",
        "                if changed:\n",
        "                if not changed:\n",
        f"{SHARED}::test_a_setting_that_was_left_changed_is_told_and_put_back",
    ),
    Mutant(
        "testing",
        "a server that died is handed out again",
        "tests/interop/shared_servers.py",
        "                del self._running[key]\n",
        "",
        f"{SHARED}::test_a_server_that_died_is_told_and_replaced",
    ),
    Mutant(
        "testing",
        "what mqadmin counts is taken for a difference",
        "tests/interop/mqadmin_output.py",
        'return sorted(re.sub(r"\\d+", "N", line).replace("N N N", "N") if rates else line for line in lines)',
        "return sorted(lines)",
        f"{SHARED}::test_counters_and_addresses_that_mqadmin_prints_are_no_difference",
    ),
    Mutant(
        "testing",
        "a test that is skipped where its peer must be is no failure",
        "tests/conftest.py",
        'report.outcome = "failed"',
        'report.outcome = "skipped"',
        "tests/test_landing.py::test_a_peer_test_that_is_skipped_before_it_begins_fails_where_peers_must_be",
    ),
    Mutant(
        "testing",
        "what passed when it was run again is not told",
        ".ci/run",
        'echo "FLAKY: ',
        'true "FLAKY: ',
        "tests/test_landing.py::test_what_fails_and_then_passes_is_told_by_name_and_number",
    ),
    Mutant(
        "testing",
        "a run that broke off lands when what failed before passes",
        "scripts/failed-tests",
        'kept("sprocketmq/exit_code") == SOME_FAILED',
        "True",
        "tests/test_landing.py::test_a_run_that_broke_off_does_not_land",
    ),
    Mutant(
        "testing",
        "any number of failures may be run again",
        "scripts/failed-tests",
        "not 0 < len(failed) <= MOST",
        "not failed",
        "tests/test_landing.py::test_many_failures_are_no_accident",
    ),
    Mutant(
        "testing",
        "what Hypothesis found is forgotten before the second run",
        ".ci/run",
        "if ! .venv/bin/python -m pytest --last-failed",
        "rm -rf .hypothesis; if ! .venv/bin/python -m pytest --last-failed",
        "tests/test_landing.py::test_what_hypothesis_found_fails_again",
    ),
    Mutant(
        "testing",
        "in a CI nothing that Hypothesis found is kept",
        "tests/conftest.py",
        'database=settings.get_profile("default").database',
        "database=None",
        "tests/test_landing.py::test_what_hypothesis_found_fails_again",
    ),
]
