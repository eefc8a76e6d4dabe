"""A small note in model_dir while a run is not complete, so that it can go on exactly.

It keeps what checkpoints do not hold: the seeds that were drawn, the step at which the
run began (periods count from there), the last evaluation, and the state of actions.
"""

import json
import threading
from typing import Any

import jax
from etils import epath

from t5x import paths
from t5x.errors import UserError

FILE_NAME = "unfinished_run.json"


class RunRecord:
    """The note of one run. All processes read it; the first one writes it.

    Attributes:
        found: whether an unfinished run left a note.
    """

    def __init__(self, model_dir: str):
        self._path = epath.Path(model_dir) / FILE_NAME
        self._lock = threading.Lock()
        self.found = self._path.exists()
        self._values: dict[str, Any] = {}
        if self.found:
            try:
                self._values = paths.read_json(self._path)
                if not isinstance(self._values, dict):
                    raise TypeError("it holds no JSON object")
            except (ValueError, TypeError, OSError) as error:
                raise UserError(
                    f"{self._path} is damaged ({error}); delete it to go on from the "
                    "newest checkpoint."
                ) from error

    def get(self, key: str, default: Any = None) -> Any:
        """The value noted under a name."""
        return self._values.get(key, default)

    def update(self, **values: Any) -> None:
        """Notes values, atomically."""
        with self._lock:
            self._values.update(values)
            if jax.process_index() == 0:
                with paths.replacing(self._path) as temporary:
                    temporary.write_text(json.dumps(self._values))

    def complete(self) -> None:
        """The run is complete: removes the note."""
        with self._lock:
            if jax.process_index() == 0:
                self._path.unlink(missing_ok=True)
