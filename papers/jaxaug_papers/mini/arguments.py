"""Options of `jaxaug invent`; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import Range, Settings, adds

_Number = Annotated[int, Range(0, 2**31 - 1)]


class Invent(Settings, verb="invent", target="jaxaug_papers.mini.run:run"):
    """Write invented services, dialogues, exercises and a vocabulary, the training data
    of configs/pretrain_mini.gin.

    Attributes:
        out: folder to write
        services: invented services of the train split
        dialogues: their dialogues
        exercises: lines of exercises.tsv
        pieces: size of the vocabulary
        seed: a different seed gives different data
        reword: also describe slots of MiniSGD in other ways with the same words
        corpus: take most exercises from the corpus of rewordings
    """

    out: str
    services: _Number = 12_000
    dialogues: _Number = 50_000
    exercises: _Number = 300_000
    pieces: _Number = 3072
    seed: _Number = 0
    reword: bool = False
    corpus: bool = False


add = adds(Invent)
