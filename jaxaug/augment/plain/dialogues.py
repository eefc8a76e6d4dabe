"""`jaxaug augment dialogues`: a data folder with typos or hesitations in user turns."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from jaxaug_base.files import absolute, new_folder

from jaxaug.augment.arguments import Dialogues
from jaxaug.augment.language import words
from jaxaug.augment.language.words import Span
from jaxaug.augment.schemes import sentences
from jaxaug.augment.schemes.sentences import NOISES, Rate
from jaxaug.core import manifest, typed
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_bytes
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, sgd


class Noising(NamedTuple):
    """Noise for the utterances of users.

    Attributes:
        names: names of `NOISES`, applied in order.
        rate: rate of each, 0 to 1.
        seed: seed of all draws, together with the dialogue id and the turn number.
    """

    names: tuple[str, ...]
    rate: float
    seed: int


def run(arguments: Dialogues) -> int:
    """Runs the verb; see `jaxaug augment dialogues --help`."""
    names = tuple(name.strip() for name in arguments.scheme.split(","))
    splits = tuple(name.strip() for name in arguments.splits.split(","))
    noising = Noising(names, arguments.rate, arguments.seed)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    print(write(data_dir, arguments.out, splits, noising))
    return 0


def write(
    data_dir: PathLike, out: PathLike, splits: Sequence[str], noising: Noising
) -> str:
    """Writes a data folder with noise in the user turns; returns a summary.

    All other data is unchanged.

    Spans move with the text, and the text inside them stays. Every value of the turn
    that is in its utterance stays too. Other splits, schemas, and the variants in the
    folder are copied byte by byte.

    Args:
        data_dir: folder in the layout of the SGD repository.
        out: a folder that does not exist, or the output of an identical call.

    Raises:
        UserError: an argument or the data are wrong, or `out` is another folder.
    """
    _check(noising)
    sources = {p for split in splits for p in folders.dialogue_paths(data_dir, split)}
    files = sorted(_files(data_dir))
    digest = digest_of(
        [
            sorted(splits),
            list(noising),
            [[name, file_digest(path)] for name, path in files],
            code_digest("jaxaug.augment"),
        ]
    )
    target = absolute(out)
    if target.exists():
        return _complete(target, digest)
    counts = np.zeros(2, np.int64)
    with new_folder(target) as folder:
        for name, path in progress(files, desc="dialogues", unit="file"):
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path not in sources:
                copy.write_bytes(read_bytes(path, FETCH_AGAIN))
                continue
            schema = sgd.read_schema_of(data_dir, path.parent.name)
            dialogues = sgd.read_dialogue_json(path, schema)
            found = np.sum([noised(one, noising) for one in dialogues], axis=0)
            counts += found
            # A file without changes stays as it is, to the byte.
            text = json.dumps(dialogues, indent=2) + "\n"
            copy.write_bytes(text.encode() if found[0] else path.read_bytes())
        manifest.write(folder, digest=digest)
    return (
        f"{counts[0]:,} of {counts[1]:,} user turns changed "
        f"({', '.join(noising.names)}; {', '.join(splits)}); wrote {target}"
    )


def noised(dialogue: Mapping[str, Any], noising: Noising) -> tuple[int, int]:
    """Changes the user turns of a dialogue of a dialogue file, in place.

    Args:
        dialogue: a JSON object that `jaxaug.data.check` accepts.

    Returns:
        The number of changed user turns, and the number of user turns.
    """
    name = zlib.crc32(dialogue["dialogue_id"].encode())
    changed = total = 0
    for number, turn in enumerate(dialogue["turns"]):
        if turn["speaker"] != "USER":
            continue
        before = turn["utterance"]
        for place, scheme in enumerate(noising.names):
            rng = np.random.default_rng([noising.seed, name, number, place])
            _change(turn, scheme, noising.rate, rng)
        changed += turn["utterance"] != before
        total += 1
    return changed, total


def _change(
    turn: dict[str, Any], scheme: str, rate: float, rng: np.random.Generator
) -> None:
    text = turn["utterance"]
    spans = [span for frame in turn["frames"] for span in frame.get("slots", ())]
    kept: list[Span] = [(span["start"], span["exclusive_end"]) for span in spans]
    values = words.occurrences(text, _values(turn))
    found = NOISES[scheme](text, rng, rate, [*kept, *values])
    turn["utterance"] = words.applied(text, found)
    for span, old in zip(spans, kept, strict=True):
        span["start"], span["exclusive_end"] = words.moved(old, found)


def _values(turn: Mapping[str, Any]) -> Iterator[str]:
    """Yields all values in the annotation of a turn; only some slots have spans."""
    for frame in turn["frames"]:
        for values in frame.get("state", {}).get("slot_values", {}).values():
            yield from values
        for action in frame.get("actions", ()):
            yield from action.get("values", ())
            yield from action.get("canonical_values", ())


def _check(noising: Noising) -> None:
    typed.check_hints(
        {"--rate": noising.rate}, {"--rate": Rate}, "jaxaug augment dialogues"
    )
    typed.check_seed(noising.seed, "--seed")
    for name in noising.names:
        if name in sentences.METHODS and name not in NOISES:
            raise UserError(
                f"--scheme {name}: does not say which words it has changed, so spans "
                f"would be lost. For dialogues use one of {', '.join(NOISES)}."
            )
        if name not in NOISES:
            raise UserError(
                f"--scheme {name}: is not a scheme for dialogues; "
                f"{suggestion(name, NOISES)}"
            )


def _files(data_dir: PathLike) -> Iterator[tuple[str, epath.Path]]:
    """Yields (name below the folder, path) of all files of splits and variants."""
    root = epath.Path(data_dir)
    for split in folders.SPLITS:
        if (root / split / "schema.json").exists():
            schema = folders.schema_path(root, split)
            for path in (schema, *folders.dialogue_paths(root, split)):
                yield f"{split}/{path.name}", path
    for variants in (folders.sgdx_folder(root), *root.glob("variants/*")):
        for variant in folders.variant_names(variants):
            for split in folders.variant_splits(variants, variant):
                path = folders.variant_schema_path(variants, variant, split)
                yield str(path.relative_to(root)), path


def _complete(target: epath.Path, digest: str) -> str:
    """Returns a message for an existing folder.

    Raises:
        UserError: the folder is not the output of an identical call.
    """
    try:
        written = manifest.verified(target).get("digest") == digest
    except manifest.DamagedError:
        written = False
    if not written:
        raise UserError(
            f"--out {target}: exists, and is not the output of this call. Choose "
            "another folder, or remove it."
        )
    return f"{target} is complete: nothing to do"
