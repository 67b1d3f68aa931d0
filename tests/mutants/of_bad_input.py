"""Bad input to Spark, broken on purpose: what is refused, when, and what Spark's interface makes of a source."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

SPARK: Final = "src/sprocketmq/spark"
OPTIONS: Final = "tests/unit/spark/test_options.py"
PAIRS: Final = "tests/unit/spark/test_options_in_pairs.py"
FILTERS: Final = "tests/inproc/spark/test_refused_filters.py"
RUNS: Final = "tests/inproc/spark/test_as_spark_runs_it.py"
INTERFACE: Final = "tests/unit/spark/test_sparks_interface.py"

BAD_INPUT_MUTANTS = [
    Mutant(
        "spark",
        "a filter that no broker takes is left to the tasks of a batch",
        f"{SPARK}/read/reader.py",
        "        check_sql92(options, cluster, queues)\n",
        "",
        f"{FILTERS}::test_a_batch_with_a_wrong_expression_is_refused_before_its_tasks",
    ),
    Mutant(
        "spark",
        "a stream asks about its filter at its very start only",
        f"{SPARK}/read/stream_reader.py",
        "        self._watch.check_filter()\n",
        "        if position.initial is not None:\n            self._watch.check_filter()\n",
        f"{FILTERS}::test_a_stream_with_a_wrong_expression_is_refused_at_its_start_and_after_a_restart",
    ),
    Mutant(
        "spark",
        "an option of writing is passed over by a read",
        f"{SPARK}/options/read_options.py",
        '    given.only_of("read")\n',
        "",
        f"{OPTIONS}::test_an_option_of_the_other_side_is_refused_by_its_name_and_a_tables_is_left_alone",
    ),
    Mutant(
        "spark",
        "a delay that no row gets is taken without a word",
        f"{SPARK}/options/sink_options.py",
        '        given.idle(("delayLevel",)',
        "        given.idle(()",
        f"{PAIRS}::test_a_pair_goes_together_or_is_refused_in_one_sentence_that_names_both",
    ),
    Mutant(
        "spark",
        "the topic of load() is forgotten where an option names another",
        f"{SPARK}/options/named_topics.py",
        "    if path and named is not None and given.text(named) != path:\n",
        "    if False:\n",
        f"{OPTIONS}::test_a_mistake_in_a_stream_is_named",
    ),
    Mutant(
        "spark",
        "tags that name none are read as they are",
        f"{SPARK}/options/given_options.py",
        '        if not any(tag.strip() for tag in text.split("||")):\n',
        "        if not text:\n",
        f"{OPTIONS}::test_a_mistake_in_a_stream_is_named",
    ),
    Mutant(
        "spark",
        "a run of everything is cut by the limit in bytes",
        f"{SPARK}/read/stream_reader.py",
        "None if self._everything else self._options.max_bytes_per_trigger",
        "self._options.max_bytes_per_trigger",
        f"{RUNS}::test_a_trigger_for_everything_gets_it_whatever_the_options_limit",
    ),
    Mutant(
        "spark",
        "a run of everything waits for its minimum",
        f"{SPARK}/read/stream_reader.py",
        "        if self._delay is None or self._everything or",
        "        if self._delay is None or",
        f"{RUNS}::test_a_trigger_for_everything_gets_it_whatever_the_options_limit",
    ),
    Mutant(
        "spark",
        "a forked worker uses its parent's connections",
        f"{SPARK}/cluster/cluster.py",
        "((os.getpid(), namesrv_addr, access), {})",
        "((0, namesrv_addr, access), {})",
        f"{RUNS}::test_a_forked_worker_makes_connections_of_its_own",
    ),
    Mutant(
        "spark",
        "a stream travels with the thread that keeps its group online",
        f"{SPARK}/read/stream_reader.py",
        '        return {**self.__dict__, "_membership": None}\n',
        "        return dict(self.__dict__)\n",
        f"{RUNS}::test_a_reader_and_its_partitions_read_the_same_after_a_journey",
    ),
    Mutant(
        "spark",
        "what another source journaled ends in an exception of Python's",
        f"{SPARK}/offsets.py",
        "        if not isinstance(document, dict):",
        "        if document is None:",
        "tests/unit/spark/test_offsets.py::test_what_is_no_offset_of_ours_is_shown_and_refused",
    ),
    Mutant(
        "spark",
        "a task fails when its broker restarts, as if the topic were gone",
        "src/sprocketmq/client/read/queue_reader.py",
        "        if known is None or not known.broker_addrs:\n            return None\n",
        "",
        "tests/inproc/spark/test_broker_dies_under_a_task.py::test_a_broker_that_restarts_under_a_task_is_waited_for",
    ),
    Mutant(
        "spark",
        "a verdict is not looked at",
        f"{SPARK}/retry/row_retry.py",
        "        check_verdict(judged)\n",
        "",
        "tests/unit/spark/test_verdict_columns.py::test_a_row_retry_looks_at_the_verdict_before_it_keeps_or_writes",
    ),
    Mutant(
        "spark",
        "an empty batch ends its task",
        f"{SPARK}/read/reader.py",
        'getattr(partition, "ranges", ())',
        "partition.ranges",
        f"{INTERFACE}::test_an_empty_batch_is_read_from_sparks_own_partition",
    ),
    Mutant(
        "spark",
        "a limit is given that Spark does not have",
        f"{SPARK}/read/stream_reader.py",
        "            return ReadMaxBytes(options.max_bytes_per_trigger)\n",
        "            return ReadLimit()\n",
        f"{INTERFACE}::test_the_default_limit_is_one_that_spark_has",
    ),
    Mutant(
        "spark",
        "an argument has a name of its own",
        f"{SPARK}/source.py",
        "    def reader(self, schema: StructType) -> BatchReader:\n",
        "    def reader(self, of: StructType) -> BatchReader:\n        schema = of\n",
        f"{INTERFACE}::test_parameters_have_sparks_names_as_it_calls_some_of_them_by_name",
    ),
]
