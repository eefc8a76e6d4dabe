"""The task `exercises` for the data of `jaxaug invent`; registered on import.

`exercises.tsv` of the data folder has lines of an input, a tab, and its answer. About
one line in 20 belongs to the validation split.
"""

import functools

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders, pairs
from jaxaug_papers.mini import pretraining
from tasks import paraphrase


def register(data_dir: PathLike | None = None) -> None:
    """Adds `exercises`; the file is read with the first split."""
    path = folders.resolve_data_dir(data_dir) / pretraining.EXERCISES
    splits = ["train", "validation"]
    paraphrase.add("exercises", splits, functools.partial(_pairs, path))


def _pairs(path: epath.Path, split: str) -> pairs.Pairs:
    if not path.exists():
        raise UserError(
            f"{path}: no such file. Task 'exercises' reads what `jaxaug invent --out "
            "DIR` writes: name that folder with $JAXAUG_DATA_DIR."
        )
    # Many exercises share an answer, which would join nearly all pairs into one group.
    return pairs.table(path, by_input=True).of_split(split)


register()
