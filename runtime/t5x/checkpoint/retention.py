"""Rules for keeping checkpoints: the newest, the best by a metric, and every n-th.

The functions for `SaveCheckpointConfig.checkpoint_steps` find the next step to save.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from absl import logging
from etils import epath
from jaxaug_base.event_files import read_scalars

from t5x.errors import UserError


def populate_metrics_for_steps(
    checkpoints_dir: epath.PathLike, metric_name: str, steps: Iterable[int]
) -> dict[int, float]:
    """Returns step -> value of a TensorBoard scalar, where it is written and not NaN.

    Args:
        checkpoints_dir: model folder that contains the event files.
        metric_name: `<run>/<tag>`, for example `train/accuracy` (folder train, tag
            accuracy) or `inference_eval/<task>/eval/<metric>`. The `eval/` may be
            omitted.
    """
    root, wanted = epath.Path(checkpoints_dir), set(steps)
    parts = metric_name.split("/")
    seen: list[str] = []
    for i in range(len(parts) - 1, 0, -1):
        run, tag = "/".join(parts[:i]), "/".join(parts[i:])
        scalars = read_scalars(root / run) if (root / run).is_dir() else {}
        seen += [f"{run}/{name}" for name in scalars]
        for name in (tag, f"eval/{tag}"):
            if name in scalars:
                values = scalars[name]
                return {
                    s: v for s, v in values.items() if s in wanted and not math.isnan(v)
                }
    known = f"; found {sorted(seen)}" if seen else ""
    logging.warning("No metric %r under %s so far%s.", metric_name, root, known)
    return {}


@dataclasses.dataclass(frozen=True)
class Retention:
    """Rule for deleting old checkpoints; see `OrbaxCheckpointManagerInterface`.

    Attributes:
        keep_without_metrics: its `keep_checkpoints_without_metrics`.
        keep_dataset: its `keep_dataset_checkpoints`.
    """

    keep: int | None = None
    metric_name: str | None = None
    metric_mode: str = "max"
    keep_without_metrics: bool = True
    force_keep_period: int | None = None
    keep_dataset: int | None = None

    def __post_init__(self) -> None:
        if self.metric_mode not in ("max", "min"):
            raise UserError(
                f"Unsupported `metric_mode` {self.metric_mode!r}: use 'max' or 'min'."
            )
        if self.metric_name is not None and "/" not in self.metric_name:
            raise UserError(
                f"metric_name_to_monitor={self.metric_name!r} must be '<run>/<tag>', "
                "for example 'train/accuracy' or 'inference_eval/<task>/<metric>'."
            )

    def _removable(self, steps: Sequence[int]) -> list[int]:
        """Returns the steps outside the forced period, and the newest, ascending."""
        period = self.force_keep_period
        ordered = sorted(steps)
        if not period:
            return ordered
        return [s for s in ordered[:-1] if s % period] + ordered[-1:]

    def steps_to_remove(
        self, steps: Sequence[int], checkpoints_dir: epath.PathLike
    ) -> list[int]:
        """Returns the steps to delete among finished checkpoints; may read metrics."""
        if not self.keep:
            return []
        candidates = self._removable(steps)
        if self.metric_name is None:
            return candidates[: -self.keep]
        if len(candidates) <= self.keep + 1:
            return []
        metrics = populate_metrics_for_steps(
            checkpoints_dir, self.metric_name, candidates
        )
        return self.worst(candidates[:-1], metrics)

    def worst(self, steps: Sequence[int], metrics: Mapping[int, float]) -> list[int]:
        """Returns all but the best `keep` steps; of equals, the older goes first."""
        if self.keep_without_metrics:
            steps = [s for s in steps if s in metrics]
        sign = 1 if self.metric_mode == "max" else -1
        ranked = sorted(
            steps, key=lambda s: (sign * metrics.get(s, -sign * math.inf), s)
        )
        return ranked[: max(0, len(ranked) - (self.keep or 0))]

    def dataset_steps_to_remove(self, steps: Sequence[int]) -> list[int]:
        """Returns the steps whose data iterator may be deleted."""
        return sorted(steps)[: -self.keep_dataset] if self.keep_dataset else []


def find_first_checkpoint_step(
    checkpoint_steps_index: int,
    checkpoint_steps: Sequence[int],
    first_step: int,
    host_step: int,
) -> int:
    """Returns the index of the first step >= `host_step` that is not `first_step`.

    The search starts at `checkpoint_steps_index`. If all steps are past, the last index
    is returned.
    """
    for i in range(checkpoint_steps_index, len(checkpoint_steps)):
        step = checkpoint_steps[i]
        if step >= host_step and step != first_step:
            return i
    return max(checkpoint_steps_index, len(checkpoint_steps) - 1)


def find_next_checkpoint_step(
    checkpoint_steps_index: int,
    inner_num_steps: int,
    is_checkpoint_step: bool,
    host_step: int,
    checkpoint_steps: Sequence[int],
    epoch_end_step: int,
    checkpoint_period: int | None,
    first_step: int,
) -> tuple[int, bool]:
    """Shortens a stretch of training so that it ends at the next checkpoint step.

    Steps that the period saves anyway are skipped. If the period is None or 0, only
    `checkpoint_steps` are saved.

    Returns:
        (number of steps to train now, whether to save after them).
    """
    for step in checkpoint_steps[checkpoint_steps_index:]:
        if step > min(host_step + inner_num_steps, epoch_end_step):
            break
        periodic = checkpoint_period and (step - first_step) % checkpoint_period == 0
        if step > max(first_step, host_step) and not periodic:
            return step - host_step, True
    return inner_num_steps, is_checkpoint_step
