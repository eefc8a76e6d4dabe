"""Record of a run in model_dir, used to resume it exactly and to mark its end.

It holds what checkpoints lack: the random seeds, the first step of the run, the last
evaluation, and the state of actions. Periods and relative steps count from the first
step.
"""

import json
import threading
from typing import Any

import jax
from etils import epath
from jaxaug_base.files import read_json, replacing

from t5x.errors import UserError

FILE_NAME = "unfinished_run.json"
FINISHED_NAME = "finished_run.json"


class RunRecord:
    """Record of one run. All processes read it; process 0 writes it.

    Attributes:
        found: whether an unfinished run left a record.
    """

    def __init__(self, model_dir: str):
        self._path = epath.Path(model_dir) / FILE_NAME
        self._finished_path = epath.Path(model_dir) / FINISHED_NAME
        self._lock = threading.Lock()
        self.found = self._path.exists()
        self._values: dict[str, Any] = {}
        for path in (self._path, self._finished_path):
            if path.exists():
                self._values = _read(path)
                break

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value recorded under a name."""
        return self._values.get(key, default)

    def update(self, **values: Any) -> None:
        """Records values atomically."""
        with self._lock:
            if {**self._values, **values} == self._values:
                return
            self._values.update(values)
            self._write(self._path)

    def complete(self, step: int, total_steps: int) -> None:
        """Records that the run is finished.

        Args:
            step: last step; below `total_steps` if an action stopped the run.
            total_steps: planned last step.
        """
        with self._lock:
            self._values["finished"] = {"step": step, "total_steps": total_steps}
            self._write(self._finished_path)
            if jax.process_index() == 0:
                self._path.unlink(missing_ok=True)

    def is_finished(self, step: int, total_steps: int) -> bool:
        """Returns whether the run ended at `step` and needs no more steps."""
        end = self.get("finished")
        return bool(end) and step == end["step"] and total_steps <= end["total_steps"]

    def reopen(self) -> None:
        """Removes the end mark of a finished run that is to continue."""
        if self.get("finished"):
            self.update(finished=None, stop=False)
            if jax.process_index() == 0:
                self._finished_path.unlink(missing_ok=True)

    def begin_anew(self) -> None:
        """Discards the record of a finished run whose checkpoints are gone."""
        with self._lock:
            if self._values.get("finished"):
                self._values = {}

    def _write(self, path: epath.Path) -> None:
        if jax.process_index() == 0:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(self._values))


def _read(path: epath.Path) -> dict[str, Any]:
    try:
        values = read_json(path)
        if not isinstance(values, dict):
            raise TypeError("it holds no JSON object")
        end = values.get("finished")
        if end is not None and not {"step", "total_steps"} <= end.keys():
            raise TypeError("it does not say where the run ended")
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it to go on from the newest "
            f"checkpoint."
        ) from error
    return values
