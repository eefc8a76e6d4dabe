"""The exercises of an invented world, `jaxaug data invent`: task `exercises`.

Lines of an input, a tab and its answer, in `exercises.tsv` of the data folder. About one
line in twenty makes the validation split.
"""

import functools

from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.minisgd import pretraining
from tasks import paraphrase


def register(data_dir: PathLike | None = None) -> None:
    """Adds `exercises` to SeqIO's registry if the data folder has such a file."""
    path = folders.resolve_data_dir(data_dir) / pretraining.EXERCISES
    if path.exists():
        paraphrase.add(
            "exercises",
            ["train", "validation"],
            functools.partial(paraphrase.of_file, path),
        )
