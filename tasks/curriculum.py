"""What a run with a curriculum says about it when it starts."""

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
from etils import epath

from jaxaug.core.files import write_text
from jaxaug.curriculum import plot
from jaxaug.curriculum.schedule import Schedule


def summarize(
    model_dir: str,
    summary_writer: Any,
    step: int,
    *,
    schedule: Schedule,
    then: Callable[[str, Any, int], None] | None = None,
) -> None:
    """Writes the plot of level against step: a `summarize_config_fn` of T5X.

    T5X calls it at the start of every run. `<model_dir>/curriculum.txt`, TensorBoard
    and, where matplotlib is installed, `<model_dir>/curriculum.png` show the plot.

    Args:
      model_dir: folder of the run.
      summary_writer: a metric writer, or None.
      step: at which the run starts.
      schedule: in steps from the first one that the data are used in.
      then: called with the first three arguments, such as
        `t5x.gin_utils.summarize_gin_config`.
    """
    if jax.process_index() == 0:
        drawn = plot.text(schedule)
        folder = epath.Path(model_dir)
        write_text(folder / "curriculum.txt", f"{drawn}\n")
        if importlib.util.find_spec("matplotlib"):
            plot.write_png(folder / "curriculum.png", schedule)
        if summary_writer is not None:
            summary_writer.write_texts(step, {"curriculum": f"```\n{drawn}\n```"})
            summary_writer.flush()
    if then is not None:
        then(model_dir, summary_writer, step)
