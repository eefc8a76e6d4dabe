"""`jaxaug invent`: writes the training data of the model `mini`.

The words of generated services come from the built-in lexicon and from MiniSGD's
training text. The vocabulary has them as whole pieces.
"""

import argparse
import functools
import tempfile
from collections.abc import Collection

from etils import epath

from jaxaug.augment.language import lexicon
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_bytes
from jaxaug.data import minisgd
from jaxaug_papers.mini import pieces, pretraining

VOCABULARY = "pieces.model"
_SHORTEST_WORD = 3
# The vocabulary needs less text than the model.
_write_small = functools.partial(
    pretraining.write, services=1000, dialogues=4000, exercises=10, seed=9
)


def run(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug invent`."""
    folder = write(
        arguments.out,
        services=arguments.services,
        dialogues=arguments.dialogues,
        exercises=arguments.exercises,
        size=arguments.pieces,
        seed=arguments.seed,
        reword=arguments.reword,
    )
    print(f"wrote {folder}")
    return 0


def write(
    out_dir: PathLike,
    *,
    services: int,
    dialogues: int,
    exercises: int,
    size: int,
    seed: int = 0,
    reword: bool = False,
) -> epath.Path:
    """Writes generated data (see `pretraining`) with the vocabulary `pieces.model`.

    Args:
        out_dir: folder that does not exist yet.
        services: number of services in the train split.
        dialogues: number of dialogues in the train split.
        exercises: number of exercises.
        size: number of pieces of the vocabulary.
        seed: random seed.
        reword: see `pretraining.write`.

    Raises:
        UserError: the folder exists, or a number is too small.
    """
    words = [
        word
        for word in lexicon.built_in().words
        if word.isalpha() and len(word) >= _SHORTEST_WORD
    ]
    model = vocabulary(words, size)
    folder = pretraining.write(
        out_dir,
        services=services,
        dialogues=dialogues,
        exercises=exercises,
        words=words,
        seed=seed,
        reword=reword,
    )
    write_bytes(folder / VOCABULARY, model)
    return folder


def vocabulary(words: Collection[str], size: int) -> bytes:
    """Returns a vocabulary of MiniSGD's training text and of small generated data.

    Args:
        words: words that become whole pieces and occur in the generated data.
        size: number of pieces.

    Raises:
        UserError: a vocabulary of this size cannot be trained.
    """
    known = minisgd.materialise(cache_folder.cache_dir())
    with tempfile.TemporaryDirectory() as scratch:
        world = _write_small(epath.Path(scratch) / "world", words=words)
        try:
            return pieces.train([known, world], words, size)
        except RuntimeError as error:
            raise UserError(
                f"no vocabulary of {size} pieces can be made: {error}. Give another "
                "number with --pieces."
            ) from None
