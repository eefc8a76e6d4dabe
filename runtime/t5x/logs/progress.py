"""What a person sees of a run: messages and one line of progress."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

import jax
import numpy as np

from t5x.logs.metrics_writer import to_host

# The first of these that a model reports is shown as the loss.
_LOSSES = ("loss_per_nonpadding_target_token", "cross_ent_loss", "loss")


def announce(message: str, stream: TextIO | None = None) -> None:
    """Tells the user something on stderr, from the first process only."""
    if jax.process_index() == 0:
        stream = stream or sys.stderr
        # Clears a progress line that may stand there.
        prefix = "\r\x1b[K" if stream.isatty() else ""
        stream.write(f"{prefix}{message}\n")
        stream.flush()


class Progress:
    """The progress line of the first process: step, loss, steps/s and time to go.

    On a terminal the line is rewritten every second, elsewhere a new line is written
    every ten seconds.
    """

    def __init__(self, first_step: int, total_steps: int, stream: TextIO | None = None):
        self._total = total_steps
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._period = 1.0 if self._tty else 10.0
        self._enabled = jax.process_index() == 0
        self._started = self._printed = time.perf_counter()
        self._printed_step = first_step
        self._paused: tuple[int, float] | None = None
        self._seen: dict[str, tuple[float, float]] = {}

    def pause(self, step: int) -> None:
        """An interval of metrics ended with `step`; until `resume` there is no training."""
        self._paused = step, time.perf_counter()

    def resume(self, step: int) -> None:
        """A new interval of metrics begins at `step`.

        Time since `pause` does not count. Intervals shorter than the period of the lines
        share a line: else there would be none.
        """
        if self._paused is not None and self._paused[0] == step:
            self._printed += time.perf_counter() - self._paused[1]
        else:
            self._mark(step)
        self._paused = None
        self._seen = {}

    def _mark(self, step: int) -> None:
        self._printed = time.perf_counter()
        self._printed_step = step

    def update(self, step: int, metrics: Mapping[str, Any] | None) -> None:
        """Reports that `step` steps are queued; reads a metric only if it prints.

        `metrics` are accumulated over an interval; what is shown is the average since
        the line before, or since the interval began.
        """
        if not self._enabled:
            return
        now = time.perf_counter()
        if now - self._printed < self._period:
            return
        # Fetching the loss waits for the devices, so the rate is that of real steps.
        parts = [f"step {step:,}/{self._total:,} ({100 * step // self._total}%)"]
        parts += self._readings(metrics or {})
        now = time.perf_counter()
        rate = (step - self._printed_step) / (now - self._printed)
        parts.append(f"{rate:.1f} steps/s" if rate >= 1 else f"{rate:.3f} steps/s")
        if rate > 0:
            parts.append(f"ETA {format_seconds((self._total - step) / rate)}")
        line = "  ".join(parts)
        self._stream.write(f"\r\x1b[K{line}" if self._tty else f"{line}\n")
        self._stream.flush()
        self._mark(step)

    def _readings(self, metrics: Mapping[str, Any]) -> list[str]:
        loss = next((name for name in _LOSSES if name in metrics), None)
        readings = []
        for label, name in (("loss", loss), ("accuracy", "accuracy")):
            if name is not None and name in metrics:
                value = self._since_last_line(name, to_host(metrics[name]))
                readings.append(f"{label} {value:.4g}")
        return readings

    def _since_last_line(self, name: str, metric: Any) -> float:
        if not hasattr(metric, "total") or not hasattr(metric, "count"):
            return float(np.asarray(metric.compute()).reshape(()))
        total, count = float(metric.total), float(metric.count)
        old_total, old_count = self._seen.get(name, (0.0, 0.0))
        self._seen[name] = total, count
        return (total - old_total) / max(count - old_count, 1e-9)

    def close(self) -> None:
        """Leaves the cursor on a fresh line."""
        if self._enabled and self._tty:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def format_seconds(seconds: float) -> str:
    """12 -> '12s', 75 -> '1m15s', 4000 -> '1h06m'."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
