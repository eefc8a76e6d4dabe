"""Writer of TensorBoard event files."""

import itertools
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath
from jaxaug_base.without_torch import without_torch

with without_torch():
    from tensorboardX import summary as summary_lib
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboardX.proto.tensor_pb2 import TensorProto
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboardX.record_writer import directory_check, register_writer_factory

_FLUSH_SECONDS = 10
# On an object store each flush rewrites the file.
_REMOTE_FLUSH_SECONDS = 60
# File names contain the second, which does not separate two writers of one process.
_numbers = itertools.count()


class _RemoteFile:
    """A file that is kept in memory and rewritten at each flush.

    Files on object stores cannot grow, and tensorboardX's own writers for them need the
    stores' clients. epath uses TensorFlow or fsspec, whichever is installed.
    """

    def __init__(self, path: str):
        self._path = epath.Path(path)
        self._data = bytearray()
        self._written = -1

    def write(self, data: bytes) -> None:
        self._data += data

    def flush(self) -> None:
        if self._written != len(self._data):
            self._path.write_bytes(bytes(self._data))
            self._written = len(self._data)

    def close(self) -> None:
        self.flush()


class _RemoteFiles:
    """Opens files for tensorboardX by the scheme of their URL."""

    def open(self, path: str) -> _RemoteFile:
        return _RemoteFile(path)

    def directory_check(self, path: str) -> None:
        epath.Path(path).mkdir(parents=True, exist_ok=True)


class TensorBoardWriter:
    """Writes TensorBoard event files with the methods of clu's `MetricWriter`.

    clu's own interface class cannot be imported without TensorFlow. Videos,
    hyper-parameters, and custom summaries are not supported and raise TypeError.
    """

    def __init__(self, logdir: str):
        scheme, remote, _ = logdir.partition("://")
        if remote:
            register_writer_factory(scheme, _RemoteFiles())
        self._flush_seconds = _REMOTE_FLUSH_SECONDS if remote else _FLUSH_SECONDS
        # The flush of tensorboardX's FileWriter does not wait for its own thread.
        directory_check(logdir)
        suffix = f".{os.getpid()}.{next(_numbers)}"
        self._file = EventsWriter(os.path.join(logdir, "events"), suffix)
        self._flushed = time.time()

    def _add(self, step: int, summary: Summary) -> None:
        now = time.time()
        self._file.write_event(Event(wall_time=now, step=step, summary=summary))
        if now - self._flushed > self._flush_seconds:
            self.flush()

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Writes scalars of one step."""
        values = [
            Summary.Value(tag=name, simple_value=float(np.asarray(value).reshape(())))
            for name, value in scalars.items()
        ]
        self._add(step, Summary(value=values))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Writes texts (Markdown) of one step."""
        metadata = SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(plugin_name="text")
        )
        for name, text in texts.items():
            tensor = TensorProto(
                dtype="DT_STRING",
                string_val=[text.encode()],
                tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
            )
            value = Summary.Value(tag=name, metadata=metadata, tensor=tensor)
            self._add(step, Summary(value=[value]))

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        """Writes images [n, h, w, c] or [h, w, c] of one step."""
        for name, image in images.items():
            array = np.asarray(image)
            layout = "NHWC" if array.ndim == 4 else "HWC"
            self._add(step, summary_lib.image(name, array, dataformats=layout))

    def write_audios(
        self, step: int, audios: Mapping[str, Any], *, sample_rate: int
    ) -> None:
        """Writes sounds [n, t, c] in [-1, 1] of one step."""
        for name, sounds in audios.items():
            for number, sound in enumerate(np.asarray(sounds)):
                self._add(
                    step, summary_lib.audio(f"{name}/{number}", sound, sample_rate)
                )

    def write_histograms(
        self,
        step: int,
        arrays: Mapping[str, Any],
        num_buckets: Mapping[str, int] | None = None,
    ) -> None:
        """Writes histograms of one step."""
        for name, array in arrays.items():
            buckets = (num_buckets or {}).get(name) or 30
            self._add(
                step, summary_lib.histogram(name, np.asarray(array), bins=buckets)
            )

    def write_summaries(
        self, step: int, values: Mapping[str, Any], metadata: Any = None
    ) -> None:
        """Raises TypeError: summaries of custom plugins are not supported."""
        raise TypeError(f"cannot write custom summaries {sorted(values)}")

    def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
        """Raises TypeError: videos are not supported."""
        raise TypeError(f"cannot write videos {sorted(videos)}")

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Raises TypeError: the gin configuration is written as a text instead."""
        raise TypeError(f"cannot write hyper parameters {sorted(hparams)}")

    def flush(self) -> None:
        """Writes buffered events to disk."""
        self._file.flush()
        self._flushed = time.time()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._file.close()
