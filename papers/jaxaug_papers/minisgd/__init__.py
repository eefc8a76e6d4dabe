"""The generator of MiniSGD, a small data set in the layout of the SGD repository.

jaxaug ships its output (`archive`). The number of dialogues is an argument, so that it
also serves load tests. It has 28 services with 205 descriptions of services, intents,
and slots. Two services occur only in dev and nine only in test. Slots share values, so
a tracker must read the descriptions.

Each description has five hand-written rewordings. Their distances from the originals
match SGD-X (`tests/papers/minisgd/test_schemas.py` prints and checks the figures of
Table 1 of Coca et al., 2023). MiniSGD is not a benchmark.
"""

import importlib.resources
import json
from collections.abc import Mapping

from etils import epath
from jaxaug_base.files import temporary_name

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data.minisgd import COMPLETE
from jaxaug_papers.minisgd.simulator import dialogue, write_dialogues, write_records
from jaxaug_papers.minisgd.world import AUGMENTED, VARIANTS, schema_json

__all__ = ["write"]

TRAIN_DIALOGUES = 4000
DEV_DIALOGUES = 200
TEST_DIALOGUES = 400
AUGMENTED_FOLDER = "aug"


def write(
    out_dir: PathLike,
    *,
    train_dialogues: int = TRAIN_DIALOGUES,
    dev_dialogues: int = DEV_DIALOGUES,
    test_dialogues: int = TEST_DIALOGUES,
    seed: int = 0,
) -> epath.Path:
    """Writes a world: schemas, variants and simulated dialogues.

    The layout is `{train,dev,test}/{schema.json,dialogues_001.json..}` (128 dialogues
    per file), `sgd_x/data/v1..v5/<split>/schema.json`, and
    `variants/<name>/v1..v5/train/schema.json`. The names are `aug` (hand-written),
    `eda`, and `tree` (generated, see the folder `variants` of this package). Dialogues
    are streamed, so memory does not grow with their number. The same arguments give the
    same bytes on every machine and Python.

    Args:
        out_dir: folder that does not exist yet, local or gs://. A local folder appears
            when it is complete. Object stores rename single files, so a remote folder
            is complete when the function returns.
        seed: random seed of the dialogues; schemas do not depend on it.

    Raises:
        UserError: the folder exists, or a number is below 1.
    """
    folder = epath.Path(out_dir)
    sizes = {"train": train_dialogues, "dev": dev_dialogues, "test": test_dialogues}
    for split, size in sizes.items():
        if size < 1:
            raise UserError(f"{split}_dialogues is {size}: give at least 1.")
    if folder.exists():
        raise UserError(
            f"{folder} exists: MiniSGD is written into a new folder. "
            "Name another one, or remove it."
        )
    partial = temporary_name(folder)
    try:
        _write_world(partial, sizes, seed)
        partial.rename(folder)
    finally:
        if partial.exists():
            partial.rmtree()
    return folder


def _write_world(folder: epath.Path, sizes: Mapping[str, int], seed: int) -> None:
    for split, size in sizes.items():
        _write_split(folder, split, size, seed)
    marker = json.dumps({"seed": seed, "dialogues": sizes})
    (folder / COMPLETE).write_text(marker + "\n")


def _write_split(root: epath.Path, split: str, size: int, seed: int) -> None:
    folder = root / split
    write_records(folder / "schema.json", schema_json(split))
    for label in VARIANTS:
        path = root / "sgd_x" / "data" / label / split / "schema.json"
        write_records(path, schema_json(split, label))
    if split == "train":
        for variant, label in zip(VARIANTS, AUGMENTED, strict=True):
            path = root / "variants" / AUGMENTED_FOLDER / variant / split
            write_records(path / "schema.json", schema_json(split, label))
        for name, data in _resources("variants"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    write_dialogues(folder, size, lambda index: dialogue(split, index, seed))


def _resources(folder: str) -> list[tuple[str, bytes]]:
    """Returns the path and bytes of the JSON files in a folder of this package."""
    found = []
    for entry in importlib.resources.files(__name__).joinpath(folder).iterdir():
        name = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir():
            found += _resources(name)
        elif name.endswith(".json"):
            found.append((name, entry.read_bytes()))
    return sorted(found)
