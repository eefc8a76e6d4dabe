"""`jaxaug predict`: the states of dialogues, by a trained tracker."""

import argparse
import functools
import sys
from collections.abc import Sequence

from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_stdin, read_text, write_text
from jaxaug.core.paths import is_same
from jaxaug.core.shards import Shards, Stage
from jaxaug.data.schema import Schema
from jaxaug.metrics.predictions import write_predictions
from jaxaug.track import turns
from jaxaug.track.answers import Prediction, as_json_line
from jaxaug.track.arguments import loaded
from jaxaug.track.base import BaseTracker, Writer

_SHARD = 256  # inputs that a stop loses at most
_LINES = (".jsonl", ".json")
_FIX = "Name a file with dialogues with --in, or - for standard input."


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug predict --help`."""
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
    for line in told(found):
        print(line, file=sys.stderr)
    if arguments.out is None:
        print("\n".join(map(as_json_line, found)))
        return 0
    print(f"wrote {write(found, arguments.out)}")
    return 0


def read_input(name: str) -> tuple[str, str]:
    """Returns the text of a file, or of standard input (`-`), and its name.

    Raises:
      UserError: the file cannot be read, or is no UTF-8.
    """
    if name == "-":
        return read_stdin(_FIX), "standard input"
    return read_text(name, _FIX), name


def predict(tracker: BaseTracker, text: str, where: str) -> list[Prediction]:
    """The states of the dialogues in a text; what was computed before is read again.

    Args:
        tracker: with the schema of the dialogues.
        text: see `turns.read_dialogues`.
        where: what the text is, for messages.

    Raises:
        UserError: see `turns.read_dialogues`.
    """
    dialogues = turns.read_dialogues(text, where, tracker.schema)
    return tracker.predict_all(dialogues, resumed(tracker))


def resumed(tracker: BaseTracker) -> Writer:
    """Computes the outputs of inputs in shards that are kept, and reads those again."""
    key = [tracker.identity, tracker.code, *tracker.restrictions]
    stage = Stage("predict", key, tracker.write_tokens, "predict")
    shards = Shards(epath.Path(cache_folder.cache_dir()) / "shards", _SHARD)
    return functools.partial(shards.run, stage)


def told(predictions: Sequence[Prediction]) -> list[str]:
    """What the checks found, one line each; empty without checks."""
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
    """Writes JSON lines, or a folder that `jaxaug evaluate sgd --predictions` reads.

    Args:
        predictions: in the order of the file.
        out: a file that ends in .jsonl or .json, else the folder.
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
