# SPDX-License-Identifier: Apache-2.0
"""Bodies of Protobuf as values for Arrow, by a descriptor file.

Types are those of Spark's ``from_protobuf`` with ``emit.default.values`` and ``upcast.unsigned.ints``: a field without presence has its
default, one with presence is null where the sender left it out, and no unsigned number becomes negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.values.decoded_bodies import decoded
from sprocketmq.spark.values.schema_registry import WireForm

Convert = Callable[[Any], Any]
_F: Final = FieldDescriptor
_SCALARS: Final[dict[int, tuple[t.DataType, pa.DataType]]] = {
    _F.CPPTYPE_BOOL: (t.BooleanType(), pa.bool_()),
    _F.CPPTYPE_INT32: (t.IntegerType(), pa.int32()),
    _F.CPPTYPE_INT64: (t.LongType(), pa.int64()),
    _F.CPPTYPE_UINT32: (t.LongType(), pa.int64()),
    _F.CPPTYPE_UINT64: (t.DecimalType(20, 0), pa.decimal128(20, 0)),
    _F.CPPTYPE_FLOAT: (t.FloatType(), pa.float32()),
    _F.CPPTYPE_DOUBLE: (t.DoubleType(), pa.float64()),
    _F.CPPTYPE_ENUM: (t.StringType(), pa.string()),
    _F.CPPTYPE_STRING: (t.StringType(), pa.string()),
}
_TIMES: Final[dict[str, tuple[t.DataType, pa.DataType]]] = {
    "google.protobuf.Timestamp": (t.TimestampType(), pa.timestamp("us", "UTC")),
    "google.protobuf.Duration": (t.DayTimeIntervalType(), pa.duration("us")),
}
_LONGEST_VARINT: Final = 10  # bytes
_DEEPEST: Final = 100  # as protobuf's own limit


def spark_type(files: bytes, message_name: str) -> t.DataType:
    return protobuf_reader(files, message_name).spark_type


def values(bodies: pa.Array, files: bytes, message_name: str, form: WireForm | None) -> pa.StructArray:
    """The column of ``decoded``."""
    reader = protobuf_reader(files, message_name)
    read = reader.read
    if form is not None:

        def read(body: bytes) -> Any:
            form.id_of(body)
            return reader.read_indexed(body[form.size :])

    return decoded(bodies, read, reader.arrow_type, reader.arrow_type)


class ProtobufReader:
    """``spark_type`` and ``arrow_type`` of ``message_name``, and ``read`` for its bodies.

    Raises ConfigurationError (no descriptor file, no such message, a message that contains itself).
    """

    def __init__(self, files: bytes, message_name: str) -> None:
        descriptor = _message_of(files, message_name)
        self.spark_type, self.arrow_type = _struct(descriptor, ())
        self.indexes = _indexes(descriptor)
        self._name = descriptor.full_name
        self._message = message_factory.GetMessageClass(descriptor)
        self._convert = _of_message(descriptor)

    def read(self, body: bytes) -> dict[str, Any]:
        message = self._message()
        try:
            message.MergeFromString(body)
        except DecodeError:
            raise ValueError(f"it is no {self._name}") from None
        if not message.IsInitialized():
            raise ValueError(f"it lacks {', '.join(message.FindInitializationErrors())}, which {self._name} requires")
        return self._convert(message)  # type: ignore[no-any-return]

    def read_indexed(self, body: bytes) -> dict[str, Any]:
        """``read`` after the indexes that Confluent writes before the message: where in its file its type is."""
        count, at = _varint(body, 0)
        indexes = []
        if not 0 <= count <= _DEEPEST:
            raise ValueError(f"it begins with {count} indexes of a message")
        for _ in range(count):
            index, at = _varint(body, at)
            indexes.append(index)
        if (indexes or [0]) != self.indexes:
            raise ValueError(f"it is the message {indexes or [0]} of its schema, and {self._name} is {self.indexes}")
        return self.read(body[at:])


@lru_cache(maxsize=16)
def protobuf_reader(files: bytes, message_name: str) -> ProtobufReader:
    return ProtobufReader(files, message_name)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number as Confluent writes indexes, in zigzag, and where it ends."""
    number = 0
    for n, byte in enumerate(body[at : at + _LONGEST_VARINT]):
        number |= (byte & 127) << 7 * n
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at + n + 1
    raise ValueError("it ends within the indexes of its message")


def _message_of(files: bytes, message_name: str) -> Descriptor:
    try:
        given = descriptor_pb2.FileDescriptorSet.FromString(files)
    except DecodeError as error:
        raise ConfigurationError(
            "schema is no descriptor file; make one with: protoc --include_imports --descriptor_set_out=FILE"
        ) from error
    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in given.file}
    while waiting:
        ready = [file for file in waiting.values() if waiting.keys().isdisjoint(file.dependency)]
        if not ready:
            raise ConfigurationError(f"schema has files that import each other: {', '.join(waiting)}")
        for file in ready:
            try:
                pool.AddSerializedFile(waiting.pop(file.name).SerializeToString())
            except TypeError as error:
                raise ConfigurationError(
                    f"schema has {file.name}, which cannot be used: {error}; "
                    "make the file with: protoc --include_imports --descriptor_set_out=FILE"
                ) from error
    messages = {
        message.full_name: message
        for file in given.file
        for message in _with_nested(pool.FindFileByName(file.name).message_types_by_name.values())
    }
    alike = [name for name in messages if name == message_name] or [
        name for name in messages if name.rpartition(".")[2] == message_name
    ]
    if len(alike) != 1:
        raise ConfigurationError(
            f"message_name is {message_name!r}; schema has {', '.join(sorted(messages)) or 'no message'}"
        )
    return messages[alike[0]]


def _with_nested(messages: Iterable[Descriptor]) -> Iterable[Descriptor]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield message
            yield from _with_nested(message.nested_types)


def _indexes(message: Descriptor) -> list[int]:
    if message.containing_type is None:
        return [list(message.file.message_types_by_name).index(message.name)]
    return [
        *_indexes(message.containing_type),
        [one.name for one in message.containing_type.nested_types].index(message.name),
    ]


def _struct(message: Descriptor, above: tuple[str, ...]) -> tuple[t.StructType, pa.StructType]:
    if message.full_name in above:
        raise ConfigurationError(
            f"the message {message.full_name} contains itself, which no type of Spark can; leave the field out of the descriptor file"
        )
    above = (*above, message.full_name)
    spark, arrow = [], []
    for field in message.fields:
        spark_type, arrow_type = _typed(field, above)
        spark.append(t.StructField(field.name, spark_type))
        arrow.append(pa.field(field.name, arrow_type))
    return t.StructType(spark), pa.struct(arrow)


def _typed(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[t.DataType, pa.DataType]:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        (spark_key, arrow_key), (spark_value, arrow_value) = _typed(parts["key"], above), _typed(parts["value"], above)
        return t.MapType(spark_key, spark_value), pa.map_(arrow_key, arrow_value)
    if field.type == _F.TYPE_BYTES:
        one: tuple[t.DataType, pa.DataType] = t.BinaryType(), pa.binary()
    elif field.message_type is None:
        one = _SCALARS[field.cpp_type]
    else:
        one = _TIMES.get(field.message_type.full_name) or _struct(field.message_type, above)
    return (t.ArrayType(one[0]), pa.list_(one[1])) if field.is_repeated else one


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _of_message(message: Descriptor) -> Convert:
    fields = [
        (field.name, not field.is_repeated and field.has_presence and not field.has_default_value, _of_field(field))
        for field in message.fields
    ]

    def convert(given: Any) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for name, can_be_absent, of_field in fields:
            if can_be_absent and not given.HasField(name):
                value[name] = None
            else:
                value[name] = of_field(getattr(given, name)) if of_field else getattr(given, name)
        return value

    return convert


def _of_field(field: FieldDescriptor) -> Convert | None:
    if _is_map(field):
        of_value = _of_one(field.message_type.fields_by_name["value"])
        if of_value is None:
            return lambda given: list(given.items())
        return lambda given: [(key, of_value(value)) for key, value in given.items()]
    one = _of_one(field)
    if not field.is_repeated:
        return one
    return list if one is None else lambda given: [one(item) for item in given]


def _of_one(field: FieldDescriptor) -> Convert | None:
    if field.enum_type is not None:
        return _of_enum(field.name, field.enum_type)
    if field.message_type is None:
        return None
    if field.message_type.full_name in _TIMES:
        return lambda given: given.seconds * 1_000_000 + given.nanos // 1_000
    return _of_message(field.message_type)


def _of_enum(name: str, enum: EnumDescriptor) -> Convert:
    names: dict[int, str] = {}
    for value in enum.values:  # of several names of a number the first one
        names.setdefault(value.number, value.name)

    def convert(number: int) -> str:
        if number not in names:
            raise ValueError(f"{name} is {number}, which is no number of {enum.full_name}")
        return names[number]

    return convert
