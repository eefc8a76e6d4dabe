"""`jaxaug predict`: predicts the states of dialogues with a trained tracker."""

import functools
import sys
from collections.abc import Sequence

from etils import epath
from jaxaug_base.files import is_same

from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_stdin, read_text, write_text
from jaxaug.core.shards import Shards, Stage
from jaxaug.data.schema import Schema
from jaxaug.metrics.predictions import write_predictions
from jaxaug.track import turns
from jaxaug.track.answers import Prediction, as_json_line
from jaxaug.track.arguments import Predict, loaded
from jaxaug.track.base import BaseTracker, Writer

_SHARD = 256  # inputs of a shard; an interruption loses at most one shard
_LINES = (".jsonl", ".json")
_FIX = "Name a file with dialogues with --in, or - for standard input."


def run(arguments: Predict) -> int:
    """Runs the verb; see `jaxaug predict --help`."""
    if arguments.out and is_same(_target(arguments.out), arguments.input):
        raise UserError(
            f"--out {arguments.out}: would replace the input {arguments.input}. Name "
            "another file or folder."
        )
    tracker = loaded(arguments, arguments.schema, arguments.batch_size)
    if arguments.services:
        asked = [tracker.schema.service(name) for name in arguments.services]
        tracker = tracker.about(Schema(tuple(asked)))
    found = predict(tracker, *read_input(arguments.input))
    for line in check_lines(found):
        print(line, file=sys.stderr)
    if arguments.out is None:
        print("\n".join(map(as_json_line, found)))
        return 0
    print(f"wrote {write(found, arguments.out)}")
    return 0


def read_input(name: str) -> tuple[str, str]:
    """Returns the text of a file, or of standard input (`-`), and its name.

    Raises:
        UserError: the file cannot be read, or is not UTF-8.
    """
    if name == "-":
        return read_stdin(_FIX), "standard input"
    return read_text(name, _FIX), name


def predict(tracker: BaseTracker, text: str, where: str) -> list[Prediction]:
    """Predicts the states of the dialogues in a text; reuses cached outputs.

    Args:
        tracker: the tracker, with the schema of the dialogues.
        text: see `turns.read_dialogues`.
        where: name of the text in messages.

    Raises:
        UserError: see `turns.read_dialogues`.
    """
    dialogues = turns.read_dialogues(text, where, tracker.schema)
    return tracker.predict_all(dialogues, resumed(tracker))


def resumed(tracker: BaseTracker) -> Writer:
    """Returns a function that computes outputs in shards and caches them on disk."""
    key = [tracker.identity, tracker.code, *tracker.restrictions]
    stage = Stage("predict", key, tracker.write_tokens, "predict")
    shards = Shards(epath.Path(cache_folder.cache_dir()) / "shards", _SHARD)
    return functools.partial(shards.run, stage)


def check_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Returns the results of the checks, one line each; empty without checks."""
    frames = [frame for one in predictions for frame in one.frames]
    lines = []
    agreements = [frame.agreement for frame in frames if frame.agreement is not None]
    if agreements:
        shares = [one.share for found in agreements for one in found.values()]
        whole = sum(share == 1 for share in shares)
        lines.append(f"all wordings agree on {whole:,} of {len(shares):,} slots")
    for name in ("uncertain", "unsaid"):
        checked = [found for f in frames if (found := getattr(f, name)) is not None]
        if checked:
            marked = sum(map(len, checked))
            lines.append(f"{name} slots: {marked:,} in {len(checked):,} frames")
    return lines


def _target(out: PathLike) -> epath.Path:
    path = epath.Path(out)
    return path if path.suffix in _LINES else path / "dialogues.json"


def write(predictions: Sequence[Prediction], out: PathLike) -> epath.Path:
    """Writes JSON lines, or a folder for `jaxaug evaluate sgd --predictions`.

    Args:
        predictions: the predictions, in the order of the file.
        out: a file that ends in .jsonl or .json; any other path is a folder.

    Returns:
        The written file.
    """
    path = _target(out)
    if epath.Path(out).suffix in _LINES:
        write_text(path, "".join(f"{as_json_line(p)}\n" for p in predictions))
        return path
    write_predictions(
        path,
        [prediction.dialogue for prediction in predictions],
        {
            (p.dialogue.dialogue_id, frame.turn, frame.service): frame.state
            for p in predictions
            for frame in p.frames
        },
    )
    return path
