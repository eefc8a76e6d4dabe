"""A curriculum in a T5X run: its length, its counting of examples, and its plot."""

import copy
import functools
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import gin
import jax
import numpy as np
from absl import logging
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import write_text
from jaxaug.curriculum import plot
from jaxaug.curriculum import schedule as schedules
from jaxaug.curriculum.schedule import Schedule

_PLOT = "curriculum.txt"
_SAMPLED = 4000  # Number of rows in which examples are counted.


def run_steps() -> int:
    """Returns the number of training steps of this gin configuration's run.

    Raises:
        UserError: the configuration does not belong to `train`.
    """
    steps = _run_steps()
    if not steps:
        raise UserError(
            "curriculum: the gin configuration does not say how many steps the run "
            "has. Set train.total_steps or train.relative_steps, or the number of "
            "steps in tasks.curriculum.of_run.steps."
        )
    return steps


def _run_steps() -> int:
    return int(_of_train("relative_steps") or _of_train("total_steps") or 0)


def of_run(
    schedule: Schedule, steps: int | Literal["as written"] | None = None
) -> Schedule:
    """Returns the schedule of this gin configuration's run, stretched to its steps.

    A resumed run keeps the length that the schedule had at the start of the run. Later
    steps belong to the last stage.

    Args:
        schedule: stages in proportion.
        steps: length of the schedule; None uses the length of the run, 'as written' the
            schedule's own length.

    Raises:
        UserError: the schedule is longer than the run, or a stage would have no step.
    """
    whole = run_steps()
    if steps is None:
        steps = _begun_with(_of_train("model_dir")) or whole
    length = schedule.steps if steps == "as written" else int(steps)
    if length > whole:
        raise UserError(
            f"curriculum: the schedule has {length:,} steps, but the run only "
            f"{whole:,}. Its last stages would be missing. Train for at least "
            f"{length:,} steps; "
            f"or, in a new MODEL_DIR, stretch the schedule to the run with "
            "--gin.CURRICULUM_STEPS=None."
        )
    return schedules.stretched(schedule, length)


def _of_train(name: str, of: str = "train") -> Any:
    """Returns the value of a parameter in the gin configuration, or None."""
    for selector in (f"__main__.{of}", of):
        try:
            # Copying a value evaluates its references.
            return copy.deepcopy(gin.query_parameter(f"{selector}.{name}"))
        except ValueError:
            continue
    return None


def _begun_with(model_dir: str | None) -> int | None:
    """Returns the steps of the schedule with which an existing run started, or None."""
    if not model_dir:
        return None
    noted = epath.Path(model_dir) / _PLOT
    saved = noted.exists() and any(
        re.fullmatch(r"checkpoint_\d+", path.name) for path in noted.parent.iterdir()
    )
    if not saved:
        return None
    found = re.match(r"curriculum: \d+ stages?, ([\d,]+) steps", noted.read_text())
    return int(found.group(1).replace(",", "")) if found else None


def summarize(
    model_dir: str,
    summary_writer: Any,
    step: int,
    *,
    schedule: Schedule,
    then: Callable[[str, Any, int], None] | None = None,
) -> None:
    """Writes the plot of level against step: a `summarize_config_fn` of T5X.

    T5X calls it at the start of every run. The plot goes to
    `<model_dir>/curriculum.txt`, to TensorBoard, and, if matplotlib is installed, to
    `<model_dir>/curriculum.png`.

    Args:
        model_dir: folder of the run.
        summary_writer: a metric writer, or None.
        step: step at which the run starts.
        schedule: schedule in steps, from the first step that uses the data.
        then: called with the first three arguments, such as
            `t5x.gin_utils.summarize_gin_config`.

    Raises:
        UserError: the run does not read its data according to the schedule.
    """
    _check_beginning(model_dir, step, schedule)
    _check_reader()
    if jax.process_index() == 0:
        drawn = plot.text(schedule, notes=_notes(schedule))
        folder = epath.Path(model_dir)
        write_text(folder / _PLOT, f"{drawn}\n")
        if importlib.util.find_spec("matplotlib"):
            plot.write_png(folder / "curriculum.png", schedule)
        if summary_writer is not None:
            summary_writer.write_texts(step, {"curriculum": f"```\n{drawn}\n```"})
            summary_writer.flush()
    if then is not None:
        then(model_dir, summary_writer, step)


def _notes(schedule: Schedule) -> list[str]:
    """Returns notes on how the run may differ from its schedule."""
    notes = []
    if (steps := _run_steps()) > schedule.steps:
        notes.append(f"the last stage goes on until step {steps:,}, the end of the run")
    if _of_train("actions"):
        notes.append("an action of the run (train.actions) may stop it earlier")
    return notes


def _check_beginning(model_dir: str, step: int, schedule: Schedule) -> None:
    """Refuses total steps that include the steps of an initial checkpoint."""
    total = _of_train("total_steps")
    if not step or not total or _of_train("relative_steps"):
        return
    if not (epath.Path(model_dir) / _PLOT).exists() and schedule.steps > total - step:
        raise UserError(
            f"curriculum: the run begins at step {step:,}, that of its initial "
            "checkpoint, and ends at "
            f"{total:,}, but the schedule has {schedule.steps:,} steps. "
            f"Give train.relative_steps = {total - step} instead of train.total_steps."
        )


def _check_reader() -> None:
    """Refuses a packed curriculum whose examples are not counted."""
    scoped = "train/utils.DatasetConfig"
    name = _of_train("mixture_or_task_name", scoped)
    if not _of_train("pack", scoped) or not isinstance(name, str):
        return
    import seqio

    from jaxaug.curriculum.scheduled import ScheduledMixture

    reader = inspect.unwrap(_of_train("get_dataset_fn") or _nobody)
    found = seqio.get_mixture_or_task(name)
    if (
        isinstance(found, ScheduledMixture)
        and not found.examples_per_row
        and not getattr(reader, "counts_examples", False)
    ):
        raise UserError(
            "curriculum: rows are packed (DatasetConfig.pack = True), and nothing "
            "says how many examples a row holds. Set train.get_dataset_fn = "
            "@token_feed.get_dataset, which needs no such number; or "
            "@tasks.curriculum.get_dataset, which counts them; or "
            "level_mixture.examples_per_row; or pack = False."
        )


def _nobody() -> None:
    """Represents the reader of T5X."""


def _counted(
    cfg: Any, num_shards: int, examples_per_row: Callable[[Any], float]
) -> Any:
    """Returns a `DatasetConfig` whose curriculum counts the examples of its reader.

    Args:
        cfg: a `t5x.utils.DatasetConfig`; returned unchanged if it names no curriculum.
        num_shards: number of hosts that share the data.
        examples_per_row: returns the count for a `DatasetConfig` of one level's data.
    """
    import seqio

    from jaxaug.curriculum.scheduled import ScheduledMixture

    given = cfg.mixture_or_task_name
    found = seqio.get_mixture_or_task(given) if isinstance(given, str) else given
    if not isinstance(found, ScheduledMixture):
        return cfg
    levels = found.tasks_of_levels()
    per_row = found.examples_per_row if cfg.pack else (1.0,) * len(levels)
    if not per_row:
        per_row = tuple(
            round(
                examples_per_row(_renamed(cfg, seqio.Mixture(f"level_{n}", rates))), 2
            )
            for n, rates in enumerate(list(level.items()) for level in levels)
        )
        shown = ", ".join(f"{number:.2f}" for number in per_row)
        logging.info("curriculum: a row holds %s examples of the levels.", shown)
    return _renamed(cfg, found.read_by(num_shards, cfg.batch_size, per_row))


def _renamed(cfg: Any, source: Any) -> Any:
    """Returns the configuration with other data."""
    made = copy.copy(cfg)
    made.mixture_or_task_name = source
    return made


def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Callable[..., Any],
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    *,
    otherwise: Callable[..., Any],
) -> Any:
    """Returns batches of one host, with a curriculum that counts packed examples.

    It is a value for `train.get_dataset_fn` of T5X.

    Args:
        cfg, shard_id, num_shards, feature_converter_cls: as in T5X.
        num_epochs, continue_from_last_checkpoint: as in T5X.
        otherwise: returns the batches, such as `t5x.utils.get_dataset`.
    """
    count = functools.partial(_count, otherwise, feature_converter_cls)
    return otherwise(
        _counted(cfg, num_shards, count),
        shard_id,
        num_shards,
        feature_converter_cls,
        num_epochs,
        continue_from_last_checkpoint,
    )


get_dataset.counts_examples = True  # type: ignore[attr-defined]


def _count(otherwise: Callable[..., Any], converter: Any, cfg: Any) -> float:
    """Returns the mean number of examples per row in the batches of another reader."""
    counts: list[int] = []
    for batch in _numpy(otherwise(cfg, 0, 1, converter)):
        if "decoder_segment_ids" not in batch:
            raise UserError(
                "curriculum: DatasetConfig.pack = True, but the batches have no "
                "decoder_segment_ids, so examples in a row cannot be counted. Set "
                "level_mixture.examples_per_row, or pack = False."
            )
        counts += np.max(batch["decoder_segment_ids"], axis=1).tolist()
        if len(counts) >= _SAMPLED:
            break
    return float(np.mean(counts))


def _numpy(batches: Any) -> Iterator[Any]:
    found = getattr(batches, "as_numpy_iterator", None)
    return found() if found else iter(batches)
