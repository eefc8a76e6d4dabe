"""Messages and progress lines on the terminal."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import jax
import numpy as np

from t5x.logs.metrics_writer import to_host

# The first of these metrics that a model reports is shown as the loss.
_LOSSES = ("loss_per_nonpadding_target_token", "cross_ent_loss", "loss")


def announce(message: str, stream: TextIO | None = None) -> None:
    """Writes a message to stderr, from process 0 only."""
    if jax.process_index() == 0:
        stream = stream or sys.stderr
        # Clears the current progress line.
        prefix = "\r\x1b[K" if stream.isatty() else ""
        stream.write(f"{prefix}{message}\n")
        stream.flush()


class _Line:
    """A line of process 0, rewritten every second, or new every ten if no terminal."""

    def __init__(self, stream: TextIO | None):
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._period = 1.0 if self._tty else 10.0
        self._enabled = jax.process_index() == 0
        self._started = self._printed = time.perf_counter()

    def _is_due(self) -> bool:
        return self._enabled and time.perf_counter() - self._printed >= self._period

    def _show(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}" if self._tty else f"{line}\n")
        self._stream.flush()


class Progress(_Line):
    """Progress line of a run: step, loss, steps/s, and remaining time.

    The remaining time includes evaluations once one was timed. Before that, the line
    gives their number. `evaluations` maps a step to their number after it.
    """

    def __init__(
        self,
        first_step: int,
        total_steps: int,
        stream: TextIO | None = None,
        evaluations: Callable[[int], int] = lambda step: 0,
    ):
        self._total = total_steps
        self._evaluations = evaluations
        self._evaluation_seconds: list[float] = []
        self._rate = 0.0  # steps a second, in the last line
        super().__init__(stream)
        self._printed_step = first_step
        self._paused: tuple[int, float] | None = None
        self._seen: dict[str, tuple[float, float]] = {}

    def pause(self, step: int) -> None:
        """Ends an interval of metrics at `step`; training pauses until `resume`."""
        self._paused = step, time.perf_counter()

    def resume(self, step: int) -> None:
        """Starts an interval of metrics at `step`; time since `pause` does not count.

        Intervals shorter than the line period share one line.
        """
        if self._paused is not None and self._paused[0] == step:
            seconds = time.perf_counter() - self._paused[1]
            self._printed += seconds
            if self._evaluations(step - 1) > self._evaluations(step):
                self._evaluation_seconds.append(seconds)
        else:
            self._mark(step)
        self._paused = None
        self._seen = {}

    def _mark(self, step: int) -> None:
        self._printed = time.perf_counter()
        self._printed_step = step

    def update(self, step: int, metrics: Mapping[str, Any] | None) -> None:
        """Reports that `step` steps are queued; fetches a metric only to print it.

        The line shows the average since the previous line, or since the interval
        started.
        """
        if not self._is_due():
            return
        # Fetching the loss waits for the devices, so the rate counts executed steps.
        parts = [f"step {step:,}/{self._total:,} ({100 * step // self._total}%)"]
        parts += self._readings(metrics or {})
        now = time.perf_counter()
        self._rate = rate = (step - self._printed_step) / (now - self._printed)
        parts.append(f"{rate:.1f} steps/s" if rate >= 1 else f"{rate:.3f} steps/s")
        if rate > 0:
            parts.append(f"ETA {format_seconds(self.left(step) or 0)}")
            more = self._evaluations(step)
            if more and not self._evaluation_seconds:
                parts.append(f"+ {more} evaluation{'s' if more > 1 else ''}")
        self._show("  ".join(parts))
        self._mark(step)

    def left(self, step: int, evaluation: float = 0.0) -> float | None:
        """Estimates the seconds from a step to the end; None before the first line.

        `evaluation` is used for the seconds of an evaluation before one is timed.
        """
        if not self._rate:
            return None
        timed = self._evaluation_seconds
        each = sum(timed) / len(timed) if timed else evaluation
        return (self._total - step) / self._rate + each * self._evaluations(step)

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
        """Clears the progress line."""
        if self._enabled and self._tty:
            self._show("")


class Work(_Line):
    """Progress line of a command that processes examples.

    `total` is None if their number is unknown. `after` maps the seconds of this work to
    the seconds of the work that follows, or None.
    """

    def __init__(
        self,
        what: str,
        total: int | None,
        after: Callable[[float], float | None] = lambda seconds: 0.0,
        stream: TextIO | None = None,
    ):
        self._what, self._total, self._after = what, total, after
        super().__init__(stream)
        self._done = self._skipped = 0

    def skip_to(self, done: int) -> None:
        """Counts examples that an earlier run finished."""
        self._skipped += max(done - self._done, 0)
        self._done = max(done, self._done)

    def add(self, count: int) -> None:
        """Counts `count` more finished examples; writes a line periodically."""
        self._done += count
        if self._is_due():
            self._printed = time.perf_counter()
            parts = self._parts(self._printed - self._started)
            self._show(f"{self._what}: {'  '.join(parts)}")

    def _parts(self, seconds: float) -> list[str]:
        rate = (self._done - self._skipped) / seconds
        speed = f"{rate:.1f} examples/s"
        if self._total is None or self._done > self._total:
            return [f"{self._done:,} examples", speed]
        share = 100 * self._done // self._total
        parts = [f"{self._done:,}/{self._total:,} examples ({share}%)", speed]
        if rate > 0:
            left = (self._total - self._done) / rate
            after = self._after((self._total - self._skipped) / rate)
            if after is not None:
                parts.append(f"ETA {format_seconds(left + after)}")
        return parts


def format_seconds(seconds: float) -> str:
    """Formats a duration: 12 -> '12s', 75 -> '1m15s', 4000 -> '1h06m'."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
