"""Origin of inference results, so that results of other jobs are not reused.

Finished chunks and complete tasks are not computed again. Both must come from the same
checkpoint and the same data.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from etils import epath
from jaxaug_base.files import naming, read_json

from t5x.errors import UserError

_FILE = "origin.json"


@dataclasses.dataclass(frozen=True)
class Origin:
    """Origin of the results of one task.

    Attributes:
        output_dir: folder of the results.
        name: name of the result file in it.
        chunks: name of the folder of chunks in it.
        facts: JSON values on which the results depend.
        rows: examples per chunk.
    """

    output_dir: str
    name: str
    chunks: str
    facts: Mapping[str, Any]
    rows: int

    @property
    def marker(self) -> str:
        """Path of the file that marks the task as complete."""
        return os.path.join(self.output_dir, f"{self.name}.COMPLETED")

    @property
    def tmp_dir(self) -> str:
        """Path of the folder of chunks."""
        return os.path.join(self.output_dir, self.chunks)

    def check(self) -> None:
        """Compares the origin with existing results; results of older versions have
        none.

        Raises:
            UserError: existing results have another origin, or their chunks have
                another size and no saved data position.
        """
        self._compare(_read(epath.Path(self.marker)), self.marker)
        folder = epath.Path(self.tmp_dir)
        known = _read(folder / _FILE)
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if not any(name.endswith(".COMPLETED") for name in names):
            return
        self._compare(known, self.tmp_dir)
        rows = known.get("rows", self.rows)
        has_position = any(name.startswith("input.ckpt") for name in names)
        if rows != self.rows and not has_position:
            raise UserError(
                f"{self.tmp_dir}: its chunks have {rows} examples, those of this job "
                f"{self.rows} (checkpoint_period * batch size), and the position in "
                "the data was not saved. Go on with the old values, or remove the "
                "folder."
            )

    def _compare(self, known: Mapping[str, Any], place: str) -> None:
        for name, value in self.facts.items():
            if known.get(name, value) != value:
                raise UserError(
                    f"{place}: results of {name} {known[name]!r:.80}, this job has "
                    f"{value!r:.80}. "
                    "Name another output_dir, or remove the old results."
                )

    def note(self) -> None:
        """Writes the origin next to the chunks."""
        text = json.dumps({**self.facts, "rows": self.rows})
        with naming(os.path.join(self.tmp_dir, _FILE)):
            epath.Path(self.tmp_dir, _FILE).write_text(text)

    def complete(self) -> None:
        """Marks the task as complete."""
        with naming(self.marker):
            epath.Path(self.marker).write_text(json.dumps(self.facts))


def _read(path: epath.Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        found = read_json(path)
    except ValueError:  # Older versions and T5X write empty files.
        return {}
    return found if isinstance(found, dict) else {}


def facts_of(checkpoint: str, dataset_cfg: Any) -> Mapping[str, Any]:
    """Returns the facts on which results depend: checkpoint, split, and lengths."""
    local = "://" not in checkpoint
    facts = {
        "checkpoint": os.path.normpath(checkpoint) if local else checkpoint,
        "split": dataset_cfg.split,
        "lengths": dataset_cfg.task_feature_lengths,
    }
    # Equal to what is read back: JSON turns tuples into lists and gin mappings into
    # objects.
    return json.loads(json.dumps(facts, default=_plain))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
