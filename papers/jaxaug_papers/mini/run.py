"""`jaxaug invent`: writes the training data of the model `mini`.

The words of generated services come from the built-in lexicon and from MiniSGD's
training text. The vocabulary has them as whole pieces.
"""

import functools
import tempfile
from collections.abc import Collection

from etils import epath

from jaxaug.augment.language import lexicon
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import write_bytes
from jaxaug.data import minisgd
from jaxaug_papers.mini import pieces, pretraining
from jaxaug_papers.mini.arguments import Invent

VOCABULARY = "pieces.model"
_SHORTEST_WORD = 3
# The vocabulary needs less text than the model.
_write_small = functools.partial(
    pretraining.write, services=1000, dialogues=4000, exercises=10, seed=9
)


def run(given: Invent) -> int:
    """Runs `jaxaug invent`."""
    print(f"wrote {write(given)}")
    return 0


def write(given: Invent) -> epath.Path:
    """Writes generated data (see `pretraining`) with the vocabulary `pieces.model`.

    Raises:
        UserError: the folder exists, or a number is too small.
    """
    words = [
        word
        for word in lexicon.built_in().words
        if word.isalpha() and len(word) >= _SHORTEST_WORD
    ]
    model = vocabulary(words, given.pieces)
    folder = pretraining.write(
        given.out,
        services=given.services,
        dialogues=given.dialogues,
        exercises=given.exercises,
        words=words,
        seed=given.seed,
        reword=given.reword,
        corpus=given.corpus,
    )
    write_bytes(folder / VOCABULARY, model)
    return folder


def vocabulary(words: Collection[str], size: int) -> bytes:
    """Returns a vocabulary of MiniSGD's training text and of small generated data.

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
