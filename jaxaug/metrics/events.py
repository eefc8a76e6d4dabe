"""Scalars that training wrote for TensorBoard, read without TensorFlow."""

import functools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from etils import epath
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import DecodeError

from jaxaug.core.files import PathLike, read_bytes

_FLOAT32 = 1
_KINDS = {
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}
# The part of TensorFlow's event.proto, summary.proto and tensor.proto that scalars need:
# message -> field -> (number, type, whether it is repeated).
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Event": {
        "wall_time": (1, "double", False),
        "step": (2, "int64", False),
        "summary": (5, "Summary", False),
    },
    "Summary": {"value": (1, "Value", True)},
    "Value": {
        "tag": (1, "string", False),
        "simple_value": (2, "float", False),
        "tensor": (8, "Tensor", False),
    },
    "Tensor": {
        "dtype": (1, "int32", False),
        "tensor_content": (4, "bytes", False),
        "float_val": (5, "float", True),
    },
}

Curve = dict[int, float]
"""Step -> value."""


def read_scalars(folder: PathLike) -> dict[str, Curve]:
    """All scalars of the event files in a folder, by tag.

    Of a step that was written twice, as after a stop, the later record counts. A record
    that is cut or damaged ends its file.
    """
    event_class = _event_class()
    # With its time: names of files do not tell which of one second is the later.
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for path in sorted(epath.Path(folder).glob("*tfevents*"), key=str):
        for record in _records(path):
            event = event_class()
            try:
                event.ParseFromString(record)
            except DecodeError:
                break
            for value in event.summary.value:
                number = _scalar(value)
                if number is None:
                    continue
                curve = found.setdefault(value.tag, {})
                if event.wall_time >= curve.get(event.step, (0.0, 0.0))[0]:
                    curve[event.step] = event.wall_time, number
    return {
        tag: {step: number for step, (_, number) in sorted(curve.items())}
        for tag, curve in found.items()
    }


def _records(path: epath.Path) -> Iterator[bytes]:
    """Contents of a TFRecord file: length (8 bytes), CRC (4), content, CRC (4)."""
    data = read_bytes(path, "Delete the file.")
    start = 0
    while start + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, start)
        if start + 16 + length > len(data):
            return
        yield data[start + 12 : start + 12 + length]
        start += 16 + length


def _scalar(value: Any) -> float | None:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    if not value.HasField("tensor") or tensor.dtype != _FLOAT32:
        return None
    if len(tensor.tensor_content) == 4:
        return float(np.frombuffer(tensor.tensor_content, "<f4")[0])
    return float(tensor.float_val[0]) if len(tensor.float_val) == 1 else None


@functools.cache
def _event_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="jaxaug/events.proto", package="jaxaug.events", syntax="proto2"
    )
    field_type = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            field = added.field.add(name=name, number=number)
            field.label = (
                field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            )
            if kind in _KINDS:
                field.type = _KINDS[kind]
            else:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".jaxaug.events.{kind}"
    return message_factory.GetMessages([file])["jaxaug.events.Event"]
