"""Metrics of a run: summed on the devices, written to TensorBoard in the background."""

import dataclasses
import itertools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath
from jaxaug_base import clu_names as clu
from jaxaug_base.libraries import without

from t5x import metrics as metrics_lib
from t5x.logs.sinks import MetricSink, scalars_of

with without("torch"):
    from tensorboardX import summary as summary_lib
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import directory_check, register_writer_factory

_FLUSH_SECONDS = 10
# On an object store each flush rewrites the file.
_REMOTE_FLUSH_SECONDS = 60
# File names contain the second, which does not separate two writers of one process.
_numbers = itertools.count()


class _RemoteFile:
    """A file that is kept in memory and rewritten at each flush.

    Files on object stores cannot grow. epath uses TensorFlow or fsspec, whichever is
    installed.
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


def _refusing(what: str) -> Callable[..., None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise TypeError(f"cannot write {what}")

    return refuse


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
        for name, text in texts.items():
            summary = summary_lib.text(name, text)
            summary.value[0].tag = name  # Without the suffix of tensorboardX.
            self._add(step, summary)

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

    write_summaries = _refusing("custom summaries")
    write_videos = _refusing("videos")
    write_hparams = _refusing("hyper parameters")

    def flush(self) -> None:
        """Writes buffered events to disk."""
        self._file.flush()
        self._flushed = time.time()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._file.close()


# Number of steps without effect, in trainers that count them.
SKIPPED_STEPS = "nonfinite_steps"


class NullWriter:
    """Metric writer that drops everything, for processes other than 0."""

    def _drop(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    write_scalars = write_texts = write_images = write_audios = _drop
    write_histograms = write_summaries = write_videos = write_hparams = _drop
    flush = close = _drop


_METHODS = {
    clu.values.Scalar: "write_scalars",
    clu.values.Image: "write_images",
    clu.values.Text: "write_texts",
    clu.values.Histogram: "write_histograms",
}


def write_values(writer: Any, step: int, values: Mapping[str, Any]) -> None:
    """Writes clu values with the writer's method for their type."""
    groups: dict[str, dict[str, Any]] = defaultdict(dict)
    buckets = {}
    for name, value in values.items():
        if isinstance(value, clu.values.Audio):
            writer.write_audios(
                step, {name: value.value}, sample_rate=value.sample_rate
            )
            continue
        method = _METHODS.get(type(value), "write_scalars")
        groups[method][name] = getattr(value, "value", value)
        if isinstance(value, clu.values.Histogram):
            buckets[name] = value.num_buckets
    for method, group in groups.items():
        extra = {"num_buckets": buckets} if method == "write_histograms" else {}
        getattr(writer, method)(step, group, **extra)


def to_host(tree: Any) -> Any:
    """Waits for a pytree of (replicated) arrays, and returns it with NumPy arrays."""

    def fetch(x: Any) -> Any:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return np.asarray(x.addressable_data(0))
        return x

    return jax.device_get(jax.tree.map(fetch, tree))


class MetricsManager:
    """Writes the metrics of one dataset under `<summary_dir>/<name>`.

    Only process 0 writes. Waiting for the devices, computing, and writing happen in
    order in one background thread; `close()` waits for it.
    """

    def __init__(self, name: str, summary_dir: str | None = None):
        self._name = name
        self.sinks: Sequence[MetricSink] = ()
        self.summary_dir = os.path.join(summary_dir, name) if summary_dir else None
        self._writer = (
            self._create_writer(name, summary_dir)
            if jax.process_index() == 0
            else NullWriter()
        )
        self._writer_lock = threading.Lock()
        self._pool = futures.ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._pending: list[futures.Future] = []
        self._started = time.time()
        self._last_ready = 0.0

    def _create_writer(self, name: str, summary_dir: str | None = None) -> Any:
        """Returns the writer of process 0; override it to write elsewhere."""
        if not summary_dir:
            return NullWriter()
        return TensorBoardWriter(os.path.join(summary_dir, name))

    @property
    def summary_writer(self) -> Any:
        """The metric writer."""
        return self._writer

    def write_scalar(self, key: str, val: Any, step: Any) -> None:
        """Writes one scalar."""
        self.write_scalars(step, {key: val})

    def write_scalars(self, step: Any, scalars: Mapping[str, Any]) -> None:
        """Writes scalars, which may be arrays."""
        step, scalars = to_host((step, dict(scalars)))
        with self._writer_lock:
            self._writer.write_scalars(int(step), scalars)
        self._send(int(step), scalars)

    def start_duration_timer(self, block_on: Any = ()) -> None:
        """Starts the clock of the next summary once `block_on` is computed."""
        jax.block_until_ready(block_on)
        self._started = time.time()

    def write_metrics_summary(
        self, metrics: Mapping[str, Any] | None, step: Any, num_steps: int
    ) -> futures.Future:
        """Writes metrics summed over steps; returns a future of their values.

        The duration for rates ends when the metrics are computed. It starts with the
        last `start_duration_timer`, but not before the previous summary was computed,
        because steps are queued long before they run. Averages leave out the steps that
        `nonfinite_steps` counts.
        """
        started = self._started

        def summarize() -> dict[str, Any]:
            fetched = to_host(dict(metrics or {}))
            ready = time.time()
            duration = max(ready - max(started, self._last_ready), 1e-9)
            self._last_ready = ready
            timed = metrics_lib.set_time_metrics_duration(fetched, duration)
            skipped = getattr(fetched.get(SKIPPED_STEPS), "total", 0)
            final = metrics_lib.set_step_metrics_num_steps(
                timed, num_steps - int(skipped)
            )
            # An average over nothing is NaN, without a warning.
            with np.errstate(divide="ignore", invalid="ignore"):
                summary = {k: _numpy_value(m.compute_value()) for k, m in final.items()}
            host_step = int(to_host(step))
            with self._writer_lock:
                write_values(self._writer, host_step, summary)
            self._send(host_step, summary)
            _log(self._name, host_step, summary)
            return summary

        future = self._pool.submit(summarize)
        running = [f for f in self._pending if not f.done() or f.exception()]
        self._pending = [*running, future]
        return future

    def _send(self, step: int, values: Mapping[str, Any]) -> None:
        for sink in self.sinks:
            sink.log(step, scalars_of(self._name, values))

    def flush(self) -> None:
        """Waits until all summaries are written, and raises their errors."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()
        with self._writer_lock:
            self._writer.flush()

    def close(self) -> None:
        """Flushes and ends the background thread."""
        try:
            self.flush()
        finally:
            self._pool.shutdown(wait=True)
            with self._writer_lock:
                self._writer.close()
                self._writer = NullWriter()


def _numpy_value(value: Any) -> Any:
    if isinstance(value, clu.values.Scalar):
        return dataclasses.replace(value, value=np.asarray(value.value))
    return value


def _log(name: str, step: int, summary: Mapping[str, Any]) -> None:
    scalars = [
        f"{key}={float(v.value.reshape(())):.6g}"
        for key, v in sorted(summary.items())
        if isinstance(v, clu.values.Scalar)
    ]
    logging.info("[%s] step %d: %s", name, step, ", ".join(scalars))
