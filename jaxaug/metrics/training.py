"""Records of a training run: curves, scores, outputs, and configuration."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging
from etils import epath
from jaxaug_base.event_files import Curve, read_scalars
from jaxaug_base.files import absolute

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, read_text, shown
from jaxaug.core.text import printable

_CONFIG = "config.gin"
_CHOICES = "choices.json"
_SCORES = "-metrics.jsonl"
_OUTPUTS = re.compile(r"(?P<task>.+)-(?P<step>\d+)\.jsonl")
# Samples per task, spread over its examples.
_SAMPLES = 5
_FIX = "Delete the file, or evaluate the run again."


@dataclass(frozen=True, slots=True)
class Sample:
    """One example of an evaluation: input, target, and output."""

    source: str
    target: str
    output: str


@dataclass(frozen=True, slots=True)
class Training:
    """Records of one training run.

    Attributes:
        steps: tag -> curve, of `train/`.
        held_out: task -> tag -> curve, of `training_eval/`.
        scores: task -> metric -> curve, of `inference_eval/`.
        samples: task -> examples of its newest evaluation.
    """

    name: str
    steps: Mapping[str, Curve]
    held_out: Mapping[str, Mapping[str, Curve]]
    scores: Mapping[str, Mapping[str, Curve]]
    samples: Mapping[str, Sequence[Sample]]
    config: str
    choices: Mapping[str, str]


def read(run: PathLike) -> Training | None:
    """Reads the folder of a run; returns None if the folder has no `config.gin`.

    Raises:
        UserError: a file of the run is damaged.
    """
    folder = epath.Path(run)
    if not (folder / _CONFIG).is_file():
        return None
    held_out = folder / "training_eval"
    tasks = sorted(held_out.iterdir(), key=str) if held_out.is_dir() else []
    choices = folder / _CHOICES
    return Training(
        printable(absolute(folder).name),
        read_scalars(folder / "train"),
        {path.name: read_scalars(path) for path in tasks if path.is_dir()},
        _scores(folder / "inference_eval"),
        _samples(folder / "inference_eval"),
        read_text(folder / _CONFIG, _FIX),
        _choices(choices) if choices.exists() else {},
    )


def _choices(path: epath.Path) -> Mapping[str, str]:
    found = read_json(path, _FIX)
    if not isinstance(found, dict):
        raise UserError(f"{path}: {shown(found)} is no object of choices. {_FIX}")
    return found


def _scores(folder: epath.Path) -> dict[str, dict[str, Curve]]:
    found: dict[str, dict[str, Curve]] = {}
    for path in sorted(folder.glob(f"*{_SCORES}"), key=str):
        curves = found.setdefault(path.name.removesuffix(_SCORES), {})
        for line in _objects(path):
            step = line.pop("step", None)
            for metric, value in line.items():
                if type(step) is int and type(value) in (int, float):
                    curves.setdefault(metric, {})[step] = _float(value, path)
    return found


def _float(value: float, path: epath.Path) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(
            f"{path}: the score {shown(value)} is too great for a number. {_FIX}"
        ) from None


def _samples(folder: epath.Path) -> dict[str, list[Sample]]:
    newest: dict[str, tuple[int, epath.Path]] = {}
    for path in folder.glob("*.jsonl"):
        if match := _OUTPUTS.fullmatch(path.name):
            found = int(match["step"]), path
            newest[match["task"]] = max(newest.get(match["task"], found), found)
    return {
        task: [_sample(line) for line in _spread([*_objects(path)])]
        for task, (_, path) in sorted(newest.items())
    }


def _spread(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    count = min(_SAMPLES, len(lines))
    return (lines[place * len(lines) // count] for place in range(count))


def _sample(line: Mapping[str, Any]) -> Sample:
    """Converts a line of SeqIO's JSON logger to a sample, as text if possible."""
    asked = line.get("input")
    asked = asked if isinstance(asked, Mapping) else {}
    return Sample(
        _text(asked.get("inputs_pretokenized", "")),
        _text(asked.get("targets_pretokenized", line.get("target", ""))),
        _text(line.get("output", line.get("prediction", ""))),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _objects(path: epath.Path) -> Iterator[dict[str, Any]]:
    """Yields the objects in the lines of a file; warns of incomplete lines."""
    # splitlines would also split at characters that belong to a text.
    for number, line in enumerate(read_text(path, _FIX).split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json_reader.decoded(line)
        except json_reader.JsonError as error:
            logging.warning("%s: line %d is left out: %s", path, number, error)
            continue
        if isinstance(found, dict):
            yield found


def last(curve: Curve) -> float:
    """Returns the value at the last step; NaN for an empty curve."""
    return curve[max(curve)] if curve else math.nan
