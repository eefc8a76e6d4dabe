"""Metric sinks in addition to TensorBoard: Weights & Biases.

train_script.train.metric_sinks = [@sinks.Wandb]
sinks.Wandb.project = 'trackers'
"""

import importlib
import os
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from etils import epath

from t5x.errors import UserError

_ID = "wandb_id.txt"


class MetricSink(Protocol):
    """Receives the scalars of a run, on process 0 only, from several threads.

    It is constructed with the keywords `model_dir` and `config`, the text of the
    configuration.
    """

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Logs numbers under names such as `train/loss`; steps come in any order."""

    def close(self) -> None:
        """Closes the sink; called once, when the run ends or is stopped."""


class Wandb:
    """Sends scalars to Weights & Biases, as one run per folder.

    A resumed run continues the same Weights & Biases run: its id is stored in the run
    folder, in `wandb_id.txt`.
    """

    def __init__(
        self,
        model_dir: str,
        config: str,
        project: str = "t5x",
        name: str | None = None,
        mode: str | None = None,
    ):
        """Opens the Weights & Biases run.

        Args:
            name: name of the run; None means the folder name.
            mode: 'online', 'offline', or 'disabled'; None uses `$WANDB_MODE`.

        Raises:
            UserError: wandb is not installed, or refuses the run, such as without a
                login.
        """
        try:
            wandb = importlib.import_module("wandb")
        except ModuleNotFoundError as error:
            if error.name != "wandb":
                raise  # A dependency of wandb is missing: the traceback names it.
            raise UserError(
                "train.metric_sinks sends metrics to Weights & Biases, but the package "
                "wandb is not installed. Run `pip install wandb`, or leave out "
                "@sinks.Wandb (configs/runs/wandb.gin)."
            ) from error
        folder = epath.Path(model_dir)
        kept = folder / _ID
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(uuid.uuid4().hex)
        local = "://" not in model_dir
        try:
            self._run: Any = wandb.init(
                project=project,
                name=name or folder.name,
                id=kept.read_text().strip(),
                resume="allow",
                dir=os.fspath(folder) if local else None,
                mode=mode,
                config={"gin": config},
            )
        except wandb.errors.Error as error:
            raise UserError(
                f"Weights & Biases: {error} Run `wandb login`, or send nothing for "
                "now: --gin.sinks.Wandb.mode=\"'offline'\" keeps it in the run's "
                "folder."
            ) from error
        # Evaluations may report earlier steps, and wandb's own step counter only rises.
        self._run.define_metric("*", step_metric="step")
        self._lock = threading.Lock()

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        with self._lock:
            self._run.log({**scalars, "step": step})

    def close(self) -> None:
        self._run.finish()


def scalars_of(prefix: str, values: Mapping[str, Any]) -> dict[str, float]:
    """Returns `<prefix>/<name>` -> number, for the numbers among values."""
    found = {}
    for name, value in values.items():
        number = np.asarray(getattr(value, "value", value))
        if number.size == 1 and np.issubdtype(number.dtype, np.number):
            found[f"{prefix}/{name}"] = float(number.reshape(()))
    return found
