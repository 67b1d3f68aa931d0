# SPDX-License-Identifier: Apache-2.0
"""Descriptor files of Protobuf for tests, as protoc makes them: from a few words for each field."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

_F = descriptor_pb2.FieldDescriptorProto


def message(name: str, *fields: str, nested: tuple[Any, ...] = (), enums: tuple[Any, ...] = ()) -> Any:
    """Each field is ``[repeated|optional|required] type name number``; a type with a dot is a message's, with a colon an enum's."""
    made = descriptor_pb2.DescriptorProto(name=name, nested_type=nested, enum_type=enums)
    for text in fields:
        *label, kind, field_name, number = text.split()
        field = made.field.add(name=field_name, number=int(number), label=_F.LABEL_OPTIONAL)
        if label in (["repeated"], ["required"]):
            field.label = _F.Label.Value(f"LABEL_{label[0].upper()}")
        if label == ["optional"]:  # of proto3
            field.proto3_optional = True
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field_name}")
        if kind.startswith(":"):
            field.type, field.type_name = _F.TYPE_ENUM, f".{kind[1:]}"
        elif "." in kind:
            field.type, field.type_name = _F.TYPE_MESSAGE, f".{kind}"
        else:
            field.type = _F.Type.Value(f"TYPE_{kind.upper()}")
    return made


def map_entry(name: str, key: str, value: str) -> Any:
    entry = message(name, f"{key} key 1", f"{value} value 2")
    entry.options.map_entry = True
    return entry


def enum(name: str, **numbers: int) -> Any:
    values = [{"name": symbol, "number": number} for symbol, number in numbers.items()]
    return descriptor_pb2.EnumDescriptorProto(name=name, value=values)


def file(*messages: Any, enums: tuple[Any, ...] = (), syntax: str = "proto3") -> bytes:
    """A descriptor file of the package ``shop``, with its imports."""
    given = descriptor_pb2.FileDescriptorSet()
    for known in (timestamp_pb2, duration_pb2):
        given.file.add().ParseFromString(known.DESCRIPTOR.serialized_pb)
    given.file.add(
        name="shop.proto",
        package="shop",
        syntax=syntax,
        message_type=messages,
        enum_type=enums,
        dependency=[one.name for one in given.file],
    )
    return bytes(given.SerializeToString())


def message_class(files: bytes, name: str) -> Any:
    """What protoc generates for senders."""
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(one.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
