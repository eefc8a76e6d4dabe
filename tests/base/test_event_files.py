"""Scalars of TensorBoard's event files, from any writer."""

import struct

import numpy as np
import pytest
from jaxaug_base import event_files
from jaxaug_base.errors import UserError
from tensorboardX.proto import event_pb2, summary_pb2, tensor_pb2


def frame(step, value, seconds=0.0):
    """Returns a record with its length; checksums are not read."""
    summary = summary_pb2.Summary(value=[value])
    event = event_pb2.Event(step=step, wall_time=seconds, summary=summary)
    data = event.SerializeToString()
    return struct.pack("<Q4x", len(data)) + data + bytes(4)


def scalar(step, tag, number, seconds=0.0):
    value = summary_pb2.Summary.Value(tag=tag, simple_value=number)
    return frame(step, value, seconds)


def tensor(step, **content):
    content = tensor_pb2.TensorProto(**{"dtype": "DT_FLOAT", **content})
    return frame(step, summary_pb2.Summary.Value(tag="loss", tensor=content))


def test_every_way_to_write_a_scalar(tmp_path):
    first = scalar(1, "loss", 3.0) + scalar(1, "other", 1.0) + scalar(4, "loss", 2.5)
    first += scalar(3, "loss", 2.0) + scalar(9, "loss", 1.0)[:-1]  # is being written
    (tmp_path / "events.out.tfevents.1").write_bytes(first)
    again = scalar(4, "loss", 1.5) + tensor(5, float_val=[0.5])
    again += tensor(6, tensor_content=struct.pack("<f", 0.25))
    again += tensor(7, dtype="DT_STRING", string_val=[b"a"])
    again += tensor(8, dtype="DT_DOUBLE", tensor_content=np.float64(0.5).tobytes())
    half = struct.pack("<f", 1.5)[2:]  # The upper half is bfloat16.
    again += tensor(10, dtype="DT_BFLOAT16", tensor_content=half)
    again += struct.pack("<Q", 1000) + b"1234partial"
    (tmp_path / "events.out.tfevents.2").write_bytes(again)
    (tmp_path / "events.out.tfevents.3").write_bytes(
        struct.pack("<Q4x", 2) + b"\xff" * 6
    )
    found = event_files.read_scalars(tmp_path)
    assert found == {
        "loss": {1: 3.0, 3: 2.0, 4: 1.5, 5: 0.5, 6: 0.25, 8: 0.5, 10: 1.5},
        "other": {1: 1.0},
    }
    assert [*found["loss"]] == [1, 3, 4, 5, 6, 8, 10]


def test_events_order_two_files_of_the_same_second(tmp_path):
    """The process of the second file has a smaller number in its file name."""
    for name, seconds, steps in (("31", 10.2, (1, 2, 3)), ("204", 10.8, (3, 4))):
        path = tmp_path / f"events.out.tfevents.10.vm.{name}.0"
        path.write_bytes(b"".join(scalar(s, "loss", seconds, seconds) for s in steps))
    found = event_files.read_scalars(tmp_path)["loss"]
    assert found == pytest.approx({1: 10.2, 2: 10.2, 3: 10.8, 4: 10.8})


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "events.out.tfevents.1").mkdir()
    with pytest.raises(UserError, match=r"tfevents\.1 is not an ordinary file\. Del"):
        event_files.read_scalars(tmp_path)
