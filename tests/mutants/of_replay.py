"""Mutants of the decision record: what is told, what is left out, what is compared, how much is kept."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["REPLAY_MUTANTS"]

TAPE, REPLAY = "src/sprocketmq/core/replay/decision_tape.py", "src/sprocketmq/core/replay/decision_replay.py"
RECORD, RECORDER = "src/sprocketmq/core/replay/decision_record.py", "src/sprocketmq/client/observe/recorder.py"
STORY = "src/sprocketmq/core/replay/decision_story.py"
MACHINES = "tests/unit/core/test_decision_replay.py"
FILES = "tests/unit/client/test_client_recorder.py"
RUNS = "tests/inproc/client/test_client_record.py"

REPLAY_MUTANTS: list[Mutant] = [
    Mutant(
        "replay",
        "what a machine does to another one inside is recorded a second time",
        TAPE,
        "        if self._inside:\n            return original(machine, *args, **named)",
        "        if False:\n            return original(machine, *args, **named)",
        f"{MACHINES}::test_what_a_machine_does_inside_of_another_is_not_recorded_twice",
    ),
    Mutant(
        "replay",
        "progress that was forgotten meanwhile counts as said already",
        TAPE,
        '            known.clear()\n            known[""] = line',
        '            known[""] = line',
        f"{MACHINES}::test_progress_that_was_removed_and_set_again_is_recorded_again",
    ),
    Mutant(
        "replay",
        "a message's properties get into the record",
        RECORD,
        '        if message.tags:\n            spelt["tags"]',
        '        spelt["all"] = dict(message.properties)\n        if message.tags:\n            spelt["tags"]',
        f"{MACHINES}::test_a_record_holds_no_body_and_no_user_property",
    ),
    Mutant(
        "replay",
        "a difference goes unsaid",
        REPLAY,
        "        if recorded != replayed:",
        "        if False:",
        f"{MACHINES}::test_a_machine_that_decides_otherwise_is_reported",
    ),
    Mutant(
        "replay",
        "a new part begins without the state of the machines",
        RECORDER,
        '            self._put(msgspec.json.encode({"at": self._clock.now_ms(), **state}))',
        "            pass",
        f"{FILES}::test_the_file_is_bounded_and_its_rest_replays",
    ),
    Mutant(
        "replay",
        "the file grows for ever",
        RECORDER,
        "        if self._room - self._waiting_bytes <= 0:",
        "        if False:",
        f"{FILES}::test_the_file_is_bounded_and_its_rest_replays",
    ),
    Mutant(
        "replay",
        "a full disk stops the consumer",
        RECORDER,
        "                data = data[os.write(self._file, data) :]\n        except OSError as error:",
        "                data = data[os.write(self._file, data) :]\n        except NotImplementedError as error:",
        f"{FILES}::test_a_full_disk_ends_the_record_and_not_the_consumer",
    ),
    Mutant(
        "replay",
        "nobody is named for whom progress waits",
        STORY,
        '            hold.offset, hold.message_id = commit, "" if blocker is None else blocker.message_id',
        "            hold.offset = commit",
        f"{RUNS}::test_a_stuck_message_is_explained",
    ),
    Mutant(
        "replay",
        "an assignment that was taken away meanwhile is not recorded again",
        TAPE,
        "                del known[topic]\n",
        "                pass\n",
        f"{MACHINES}::test_an_assignment_is_recorded_again_when_it_was_taken_away_meanwhile",
    ),
    Mutant(
        "replay",
        "an input that is set to what it is already is recorded",
        TAPE,
        "changed = name in recorded.inputs and getattr(self, name, None) != value",
        "changed = name in recorded.inputs",
        f"{MACHINES}::test_an_input_is_recorded_again_when_the_machine_has_changed_it",
    ),
]
