# SPDX-License-Identifier: Apache-2.0
"""The golden bytes are whole, indexed, and read by our decoder just as by the independent one of the interop tests."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from decoded_frames import decoded
from golden import VERSIONS, GoldenFrame, frames, store_dir, store_file
from interop.remoting import decode_header, split_frame
from sprocketmq.wire.frames.frame import FrameDecoder

FRAMES = frames()


def ids(frame: GoldenFrame) -> str:
    return frame.file.removeprefix("frames/").removesuffix(".bin")


def without_empty(ext_fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in ext_fields.items() if value}


def test_the_index_names_every_file_and_only_those() -> None:
    folder = store_dir(VERSIONS[0]).parents[1]
    present = {str(path.relative_to(folder)) for path in (folder / "frames").rglob("*.bin")}
    assert {frame.file for frame in FRAMES} == present
    assert len(FRAMES) == len(present)


@pytest.mark.parametrize("frame", FRAMES, ids=ids)
def test_our_decoder_reads_a_java_frame_as_the_independent_one_does(frame: GoldenFrame) -> None:
    kind, header_bytes, body = split_frame(frame.data)
    expected = decode_header(kind, header_bytes)
    (command,) = decoded(FrameDecoder(), frame.data)
    assert command.code == expected["code"]
    assert command.opaque == expected["opaque"]
    assert command.flag == expected["flag"]
    assert (command.remark or None) == (expected.get("remark") or None)
    # Under ROCKETMQ Java reads a value of no bytes as null, which is "not given" (RocketMQSerializable.readStr).
    assert without_empty(command.ext_fields) == without_empty(expected.get("extFields") or {})
    assert bytes(command.body) == body


def test_both_header_types_of_both_versions_are_there() -> None:
    for version in VERSIONS:
        for serialize in ("JSON", "ROCKETMQ"):
            codes = {frame.code for frame in frames(version=version, serialize=serialize)}
            wanted = {
                11,
                12,
                14,
                15,
                29,
                30,
                31,
                34,
                35,
                36,
                37,
                38,
                39,
                40,
                41,
                42,
                46,
                103,
                104,
                105,
                106,
                202,
                208,
                310,
                320,
                325,
                326,
            }
            assert wanted <= codes, f"{version} {serialize} lacks {sorted(wanted - codes)}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_commit_log_head_is_made_of_whole_records(version: str) -> None:
    log = store_file(version, "commitlog-head.bin")
    at = records = 0
    while at < len(log):
        size, magic, crc = struct.unpack_from(">iII", log, at)
        (physical_offset,) = struct.unpack_from(">q", log, at + 28)
        (body_size,) = struct.unpack_from(">i", log, at + 84)
        assert magic == 0xDAA320A7
        assert physical_offset == at
        assert zlib.crc32(log[at + 88 : at + 88 + body_size]) & 0x7FFFFFFF == crc
        at += size
        records += 1
    assert at == len(log)
    assert records > 20


@pytest.mark.parametrize("version", VERSIONS)
def test_every_consume_queue_unit_points_at_a_record_of_its_size(version: str) -> None:
    log = store_file(version, "commitlog-head.bin")
    heads = sorted(store_dir(version).glob("consumequeue-*-head.bin"))
    assert heads
    for head in heads:
        for offset, size, _ in struct.iter_unpack(">qiq", head.read_bytes()):
            assert struct.unpack_from(">i", log, offset)[0] == size, head.name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_index_head_holds_its_slots_and_entries(version: str) -> None:
    header = store_file(version, "index-header.bin")
    used_slots, count = struct.unpack_from(">ii", header, 32)
    entries = list(struct.iter_unpack(">iqii", store_file(version, "index-entries.bin")))
    slots = {int(slot): entry for slot, entry in json.loads(store_file(version, "index-slots.json")).items()}
    assert len(entries) == count
    assert len(slots) == used_slots
    for slot, entry in slots.items():
        assert entries[entry][0] % 5_000_000 == slot
