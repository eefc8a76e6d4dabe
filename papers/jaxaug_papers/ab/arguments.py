"""Options of `jaxaug papers`; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import Arg, Range, Settings, Words, adds


class Papers(Settings, verb="papers"):
    """Tools of the papers' experiments."""


class AB(Settings, verb="papers ab", target="jaxaug_papers.ab.run:run"):
    """Write a blinded A/B sheet for two files of outputs, or test its votes.

    Attributes:
        files: JSON lines with `input` and `output` (of `jaxaug paraphrase`), or with
            `inputs` and `prediction` (of t5x.infer)
        names: of the files (default: their stems)
        out: HTML file to write; it does not reveal the files
        votes: .json or .csv files that the sheet saved, one per voter
        questions: with --out: paraphrases (Table 6 of PCC), dialogue (Table 10), or a
            text file with a question per line
        num: with --out: at most this many pairs
        seed: with --out: draws pairs, order, and sides
    """

    files: Annotated[tuple[str, str], Arg("FILE")]
    names: Annotated[tuple[str, str] | None, Arg(metavar="NAME")] = None
    out: Annotated[str | None, Arg(either="work", required=True)] = None
    votes: Annotated[Words, Arg(metavar="VOTES", either="work")] = ()
    questions: str = "paraphrases"
    num: Annotated[int, Range(1, 10_000)] = 200
    seed: Annotated[int, Range(0, 2**31 - 1)] = 0


add = adds(Papers, AB)
