"""Mutants of what Spark rows go through one by one: the way back, reasons, dead letters, replay, and who is asking."""

from __future__ import annotations

from mutant import Mutant

SPARK = "src/sprocketmq/spark"
COPIES = "tests/inproc/spark/test_retry_copies.py"
BATCH = "tests/inproc/spark/test_row_retry.py"
REPORT = "tests/unit/spark/test_loss_report.py"
ACCESS = "tests/unit/spark/test_spark_access.py"
PLAIN = "tests/inproc/spark/test_plain_rows.py"

SPARK_ROW_MUTANTS = [
    Mutant(
        "spark",
        "a judge that writes the good rows itself has all rows pulled twice",
        f"{SPARK}/row_retry.py",
        "                rows.persist()\n",
        "                rows\n",
        f"{BATCH}::test_a_judge_that_writes_itself_has_its_rows_read_once",
    ),
    Mutant(
        "spark",
        "the good rows are sent back, too",
        f"{SPARK}/row_retry.py",
        "        bad = judged if flag is None else judged.where(flag)\n",
        "        bad = judged\n",
        f"{BATCH}::test_good_rows_are_written_and_the_others_are_sent_back",
    ),
    Mutant(
        "spark",
        "what a second task lost takes the place of what the first one lost",
        f"{SPARK}/loss_report.py",
        "        return value1 | value2\n",
        "        return value2\n",
        f"{REPORT}::test_what_several_tasks_tell_is_in_the_report_each_offset_once",
    ),
    Mutant(
        "spark",
        "a task tells the report of another read",
        f"{SPARK}/loss_report.py",
        "    number = int(report) - 1  # options count from 1\n",
        "    number = 0\n",
        f"{REPORT}::test_what_several_tasks_tell_is_in_the_report_each_offset_once",
    ),
    Mutant(
        "spark",
        "a message goes back once for each of its bad rows",
        f"{SPARK}/hand_back.py",
        "            if row.place not in self._done:\n",
        "            if row is not None:\n",
        f"{COPIES}::test_a_message_goes_back_once_however_many_of_its_rows_are_bad",
    ),
    Mutant(
        "spark",
        "a row with a reason is copied by the broker, which cannot add it",
        f"{SPARK}/hand_back.py",
        "        copied = [row for row in rows if row.reason]\n"
        "        asked = {row.message: row for row in rows if not row.reason}\n",
        "        copied: list[BadRow] = []\n        asked = {row.message: row for row in rows}\n",
        f"{COPIES}::test_a_reason_is_kept_on_the_copy_which_else_is_what_the_broker_would_have_made",
    ),
    Mutant(
        "spark",
        "a dead letter is retried when it has a reason",
        f"{SPARK}/retry_copies.py",
        "        dead = asked_level < 0\n",
        "        dead = asked_level < 0 and not row.reason\n",
        f"{COPIES}::test_dead_letters_are_a_table_under_the_topics_they_came_from",
    ),
    Mutant(
        "spark",
        "a long reason fails its row",
        f"{SPARK}/retry_copies.py",
        "    room = max(1, min(_LONGEST_REASON_BYTES, _PROPERTIES_BYTES - taken))\n",
        "    room = _PROPERTIES_BYTES\n",
        f"{COPIES}::test_a_reason_that_is_too_long_is_cut_and_never_fails_its_row",
    ),
    Mutant(
        "spark",
        "the topic of a dead letter is that of the dead letters",
        f"{SPARK}/decode.py",
        "_COPIES: Final = (RETRY_PREFIX, DLQ_PREFIX)\n",
        "_COPIES: Final = (RETRY_PREFIX,)\n",
        "tests/unit/spark/test_decode.py::test_a_dead_letter_goes_by_the_name_of_its_origin_topic",
    ),
    Mutant(
        "spark",
        "a replayed message still says why it died",
        "src/sprocketmq/client/dead_letter_message.py",
        "        *(props.RETRY_REASON, props.RETRY_TOPIC,",
        "        *(props.RETRY_TOPIC,",
        f"{COPIES}::test_a_replayed_dead_letter_is_what_was_first_sent",
    ),
    Mutant(
        "spark",
        "a letter is replayed among the dead letters",
        f"{SPARK}/row_messages.py",
        "        if not to or to.startswith((DLQ_PREFIX, RETRY_PREFIX)):\n",
        "        if not to:\n",
        f"{COPIES}::test_a_letter_that_does_not_say_where_it_came_from_is_not_replayed",
    ),
    Mutant(
        "spark",
        "a secret stands in the catalog",
        f"{SPARK}/source.py",
        "            refuse_secrets_in_tables(self.options)\n",
        "",
        f"{ACCESS}::test_a_table_of_the_catalog_takes_no_secret_but_the_name_of_a_file",
    ),
    Mutant(
        "spark",
        "a secret stands in the text of the options",
        f"{SPARK}/access.py",
        '    secret_key: str = field(default="", repr=False)\n',
        '    secret_key: str = field(default="")\n',
        f"{ACCESS}::test_secrets_are_in_no_repr",
    ),
    Mutant(
        "spark",
        "tasks pull without a signature",
        f"{SPARK}/reader.py",
        "        self._cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)\n",
        "        unsigned = __import__('dataclasses').replace(options.access, access_key='')\n"
        "        self._cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, unsigned)\n",
        "tests/inproc/spark/test_secured.py::test_rows_are_written_read_and_given_back_with_keys_over_tls",
    ),
    Mutant(
        "spark",
        "rows of one key go to any queue",
        f"{SPARK}/row_sender.py",
        "            return queue_of_sharding_key(row.sharding_key, queues)\n",
        "            return None\n",
        f"{PLAIN}::test_rows_of_one_key_are_stored_in_one_queue_in_their_order",
    ),
    Mutant(
        "spark",
        "the batches of one queue are all sent at once",
        f"{SPARK}/message_sender.py",
        "        for part in _parts(run):\n            await self._send_batch(part, queue, gate)\n\n",
        "        await _all_of([self._send_batch(part, queue, gate) for part in reversed(list(_parts(run)))])\n\n",
        f"{PLAIN}::test_rows_of_one_key_are_stored_in_one_queue_in_their_order",
    ),
    Mutant(
        "spark",
        "a batch that runs again is cut into tasks by the options of today",
        f"{SPARK}/stream_reader.py",
        "        if (tasks := upto.tasks) is None:",
        "        if (tasks := None) is None:",
        "tests/inproc/spark/test_stream_reader.py::test_a_batch_that_runs_again_is_cut_into_tasks_as_it_was",
    ),
    Mutant(
        "spark",
        "two rows are one if their marks are equal, whatever they say",
        f"{SPARK}/write_marks.py",
        """*map(value, _MARKS), f.sha2("body", 256))""",
        "*map(value, _MARKS))",
        "tests/system/spark/test_write_marks.py::test_rows_with_equal_marks_that_say_different_things_are_all_kept",
    ),
    Mutant(
        "spark",
        "a replayed dead letter is a repeat of its first life",
        f"{SPARK}/row_retry.py",
        """f.concat_ws("/", "messageId", f.try_element_at("properties", f.lit(props.REPLAY_ID)))""",
        """f.concat_ws("/", "messageId")""",
        "tests/system/spark/test_write_marks.py::test_a_replayed_dead_letter_is_no_repeat",
    ),
    Mutant(
        "spark",
        "the tries of an old message are those of its copy",
        "src/sprocketmq/wire/properties.py",
        "    RESERVED\n    | SPARK_MARKS\n",
        "    RESERVED\n    | (SPARK_MARKS - {SPARK_TRY})\n",
        "tests/unit/wire/test_properties.py::test_every_name_that_is_not_the_users_belongs_to_one_message",
    ),
    Mutant(
        "spark",
        "two queries of one group send each retry back twice",
        f"{SPARK}/membership.py",
        "        return sorted(members - {self.client_id})\n",
        "        return []\n",
        "tests/inproc/spark/test_stream_reader.py::"
        "test_a_stream_that_reads_retries_does_not_begin_beside_another_member_of_its_group",
    ),
    Mutant(
        "spark",
        "a copy is tried once",
        f"{SPARK}/retry_copies.py",
        "        await cluster.retrying(ask)\n",
        "        await ask()\n",
        f"{COPIES}::test_a_copy_is_tried_until_the_timeout_of_its_user",
    ),
    Mutant(
        "spark",
        "rows that go by columns are numbered anew in each batch",
        f"{SPARK}/message_sender.py",
        "_SEQUENCE: range(self.sent, self.sent + batch.num_rows)}",
        "_SEQUENCE: range(batch.num_rows)}",
        f"{PLAIN}::test_plain_rows_carry_the_notes_of_their_task",
    ),
    Mutant(
        "spark",
        "rows of a batch are counted by their bodies alone",
        f"{SPARK}/message_sender.py",
        "    return batch_element_size(len(message.body), properties_bytes) + _ADDED_BYTES\n",
        "    return len(message.body) + _ADDED_BYTES\n",
        f"{PLAIN}::test_rows_with_large_properties_fit_into_their_batches",
    ),
    Mutant(
        "spark",
        "whatever compressed bodies grow to goes into one batch",
        f"{SPARK}/decode.py",
        "            if unpacked and size_bytes + len(body) > _MOST_BYTES:\n",
        "            if unpacked and False:\n",
        "tests/unit/spark/test_decode.py::test_bodies_that_unpack_to_more_than_fits_come_in_several_batches",
    ),
    Mutant(
        "spark",
        "a row counts as stored whatever the broker says of its disk and slaves",
        f"{SPARK}/message_sender.py",
        "            if result.status.name not in self._options.accepted_send_status:\n",
        "            if False:\n",
        "tests/inproc/spark/test_weak_acknowledgements.py::"
        "test_rows_that_no_slave_has_are_not_stored_unless_the_user_says_so",
    ),
]
