"""A curriculum in a T5X run: its length, and its plot."""

import copy
import importlib.util
import re
from collections.abc import Callable
from typing import Any, Literal

import gin
import jax
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import write_text
from jaxaug.curriculum import schedule as schedules
from jaxaug.curriculum.schedule import Schedule

_PLOT = "curriculum.txt"


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
            f"{length:,} steps; or, in a new MODEL_DIR, stretch the schedule to the "
            "run with --gin.CURRICULUM_STEPS=None."
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
        step: step at which the run starts.
        schedule: schedule in steps, from the first step that uses the data.
        then: called with the first three arguments, such as
            `t5x.gin_utils.summarize_gin_config`.

    Raises:
        UserError: the steps include the steps of an initial checkpoint.
    """
    _check_beginning(model_dir, step, schedule)
    if jax.process_index() == 0:
        drawn = schedules.plot_text(schedule, notes=_notes(schedule))
        folder = epath.Path(model_dir)
        write_text(folder / _PLOT, f"{drawn}\n")
        if importlib.util.find_spec("matplotlib"):
            schedules.write_png(folder / "curriculum.png", schedule)
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
