"""The exercises of an invented world, `jaxaug invent`; importing this registers `exercises`.

Lines of an input, a tab and its answer, in `exercises.tsv` of the data folder. About one
line in twenty makes the validation split.
"""

import functools

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders, pairs
from jaxaug_papers.mini import pretraining
from tasks import paraphrase


def register(data_dir: PathLike | None = None) -> None:
    """Adds `exercises` to SeqIO's registry; the file is read when a split is."""
    path = folders.resolve_data_dir(data_dir) / pretraining.EXERCISES
    splits = ["train", "validation"]
    paraphrase.add("exercises", splits, functools.partial(_pairs, path))


def _pairs(path: epath.Path, split: str) -> pairs.Pairs:
    if not path.exists():
        raise UserError(
            f"{path}: no such file. Task 'exercises' reads what `jaxaug invent --out "
            "DIR` writes: name that folder with $JAXAUG_DATA_DIR."
        )
    # Many exercises have the same answer: no group of pairs would be left.
    return pairs.table(path, by_input=True).of_split(split)


register()
