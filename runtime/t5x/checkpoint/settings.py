"""Settings of saving and restoring, bound by gin as utils.*CheckpointConfig."""

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from jaxaug_base.files import absolute

from t5x import checks, state_utils
from t5x.checkpoint.orbax import Checkpointer, OrbaxCheckpointManagerInterface
from t5x.checkpoint.restore import (
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
)
from t5x.errors import UserError


def _check_choice(owner: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise UserError(f"`{owner}` must be one of {list(choices)}. Got {value!r}.")


@dataclasses.dataclass
class SaveCheckpointConfig:
    """Settings of saving.

    Attributes:
        dtype: dtype of saved parameters: 'float32', 'bfloat16', or None (unchanged).
            The optimizer state keeps its own.
        period: steps between checkpoints, counted from the first step of the run.
        checkpoint_steps: additional steps at which to save.
        keep: number of newest (SaveBestCheckpointer: best) checkpoints to keep; None
            keeps all.
        keep_dataset_checkpoints: number of newest data iterators to keep; None keeps
            all.
        save_dataset: whether to store the data position, so that a restarted run sees
            the same batches as an uninterrupted one. T5X defaults to False; True costs
            a few kilobytes per checkpoint.
        checkpointer_cls: Checkpointer or SaveBestCheckpointer, whose rule for keeping
            checkpoints is used.
    """

    dtype: str | None = "float32"
    period: int | None = None
    checkpoint_steps: Sequence[int] | None = None
    keep: int | None = None
    keep_dataset_checkpoints: int | None = None
    save_dataset: bool = True
    checkpointer_cls: Callable[..., Any] = Checkpointer
    state_transformation_fns: Sequence[SaveStateTransformationFn] = dataclasses.field(
        default_factory=list
    )
    checkpoint_manager_cls: Callable[..., Any] = OrbaxCheckpointManagerInterface

    def __post_init__(self) -> None:
        _check_choice(
            "SaveCheckpointConfig.dtype", self.dtype, (None, "float32", "bfloat16")
        )
        for name in ("period", "keep", "keep_dataset_checkpoints"):
            value = getattr(self, name)
            if value is not None:
                owner = f"SaveCheckpointConfig.{name}"
                checks.whole_number(owner, value, least=0, hint=", or None")
        steps = self.checkpoint_steps
        if steps is not None and not isinstance(steps, Sequence):
            raise UserError(
                f"SaveCheckpointConfig.checkpoint_steps = {steps!r}: give a list of "
                f"steps, or None."
            )


@dataclasses.dataclass
class RestoreCheckpointConfig:
    """Settings of restoring.

    Attributes:
        path: a checkpoint ('specific') or a folder of checkpoints; or several.
        mode: 'specific', 'latest' (newest in the folder), or 'all' (each in turn).
        assignment_map: (pattern, replacement) pairs. The pattern matches a whole name
            of the model ('target/...', 'state/param_states/...'). The replacement is
            the name in the checkpoint, or None to leave the array out.
        strict: without effect, as is `checkpointer_cls`; gin files of T5X set them.
        fallback_to_scratch: whether to initialize what the checkpoint lacks; needs an
            assignment map or transformation, and an init rng.
        dtype: dtype of restored parameters; None keeps the stored dtype.
        restore_dataset: whether to restore the data position, if it was saved.
        state_transformation_fns: fn(checkpoint state dict, target state dict), applied
            after the assignment map.
    """

    path: str | Sequence[str]
    mode: str = "latest"
    assignment_map: Sequence[tuple[str, str | None]] | None = None
    strict: bool = True
    fallback_to_scratch: bool = False
    dtype: str | None = None
    restore_dataset: bool = False
    checkpointer_cls: Callable[..., Any] = Checkpointer
    state_transformation_fns: Sequence[RestoreStateTransformationFn] = ()
    checkpoint_manager_cls: Callable[..., Any] = OrbaxCheckpointManagerInterface

    def __post_init__(self) -> None:
        _check_choice(
            "RestoreCheckpointConfig.mode", self.mode, ("specific", "latest", "all")
        )
        _check_choice(
            "RestoreCheckpointConfig.dtype",
            self.dtype,
            (None, "float32", "bfloat16", "float16"),
        )
        if self.assignment_map is not None:
            rename = functools.partial(
                state_utils.apply_assignment_map, assignment_map=self.assignment_map
            )
            self.state_transformation_fns = (rename, *self.state_transformation_fns)


def with_absolute_path(restore_cfg: Any) -> Any:
    """Returns a copy of a RestoreCheckpointConfig with absolute paths."""
    cfg = copy.copy(restore_cfg)
    if isinstance(cfg.path, (str, os.PathLike)):
        cfg.path = os.fspath(absolute(cfg.path))
    else:
        cfg.path = [os.fspath(absolute(path)) for path in cfg.path]
    return cfg


@dataclasses.dataclass
class CheckpointConfig:
    """Saving and restoring of a run; either may be None."""

    save: SaveCheckpointConfig | None = None
    restore: RestoreCheckpointConfig | None = None
