"""Reads scalars from TensorBoard event files without TensorFlow or PyTorch."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import logging
from etils import epath
from google.protobuf.message import DecodeError

from jaxaug_base.errors import UserError
from jaxaug_base.libraries import without

with without("boto3", "torch"):
    from tensorboardX.proto import event_pb2

_BFLOAT16 = 14
# DataType numbers of tensor.proto that scalar summaries use. NumPy has no bfloat16: the
# upper half of float32.
_DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.float64),
    3: np.dtype(np.int32),
    9: np.dtype(np.int64),
    _BFLOAT16: np.dtype(np.uint16),
    19: np.dtype(np.float16),
}
_REPEATED_FIELDS = ("float_val", "double_val", "int_val", "int64_val")


Curve = dict[int, float]
"""Maps a step to its value."""


def _records(path: epath.Path) -> Iterator[bytes]:
    """Yields the payloads of a TFRecord file; stops at an incomplete record."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not an ordinary file. Delete it, then try again.")
    with path.open("rb") as f:
        # A record is its length (8 bytes), a checksum (4), the payload, and a checksum
        # (4).
        while len(header := f.read(12)) == 12:
            (length,) = struct.unpack("<Q", header[:8])
            payload = f.read(length)
            if len(payload) < length or len(f.read(4)) < 4:
                return
            yield payload


def _scalar(value: Any) -> float | None:
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    if value.WhichOneof("value") != "tensor":
        return None
    dtype = _DTYPES.get(value.tensor.dtype)
    if dtype is None:
        return None
    if value.tensor.tensor_content:
        content = np.frombuffer(value.tensor.tensor_content, dtype)[:1]
        if value.tensor.dtype == _BFLOAT16:
            content = (content.astype(np.uint32) << 16).view(np.float32)
        return float(content[0])
    for field in _REPEATED_FIELDS:
        if items := getattr(value.tensor, field):
            return float(items[0])
    return None


def read_scalars(directory: epath.PathLike) -> dict[str, Curve]:
    """Returns tag -> step -> value of the event files inside a folder, by step.

    If a step was written twice, the record with the later wall time wins.
    """
    # The wall time is kept because file names do not order files of the same second.
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for path in sorted(epath.Path(directory).glob("*tfevents*")):
        for record in _records(path):
            event = event_pb2.Event()
            try:
                event.ParseFromString(record)
            except DecodeError:
                logging.warning("Unreadable record in %s; the rest is skipped.", path)
                break
            for value in event.summary.value:
                number = _scalar(value)
                if number is None:
                    continue
                by_step = found.setdefault(value.tag, {})
                if event.wall_time >= by_step.get(event.step, (0.0, 0.0))[0]:
                    by_step[event.step] = event.wall_time, number
    return {
        tag: {step: number for step, (_, number) in sorted(by_step.items())}
        for tag, by_step in found.items()
    }
