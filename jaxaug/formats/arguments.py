"""Options of `jaxaug format`; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core.arguments import DataDir, Range, Seed, Settings, Split, adds

_TARGET = "jaxaug.feed.export:run"


class Format(Settings, verb="format"):
    """Dialogues to text-to-text examples."""


class Corpus(DataDir):
    """A command that writes examples.

    Attributes:
        variant: v1..v5 (default: the original schema)
        seed: of the shuffled order
        epoch: of the shuffled order
        workers: 0: one per core
        out: TSV file to write
    """

    split: Split
    variant: str | None = None
    order: Literal["schema", "shuffled"] = "schema"
    lowercase: bool = True
    seed: Seed = 0
    epoch: Annotated[int, Range(0, 2**31 - 1)] = 0
    workers: Annotated[int, Range(0, 10_000)] = 0
    out: str


class D3ST(Corpus, verb="format d3st", target=_TARGET):
    """D3ST examples."""

    categorical: Literal["1a", "a", "none"] = "1a"
    level: Literal["dst_intent", "dst"] = "dst_intent"
    delimiter: str = "="


class JSON(Corpus, verb="format json", target=_TARGET):
    """Function calls: the schema as JSON tools, the state as JSON."""

    level: Literal["dst", "dst_intent"] = "dst"


class SDT(Corpus, verb="format sdt", target=_TARGET):
    """Examples of Show, Don't Tell: an example dialogue instead of descriptions
    ($JAXAUG_DEMONSTRATIONS names a file of them)."""

    categorical: Literal["letters", "values"] = "letters"
    level: Literal["dst", "dst_intent"] = "dst"
    answered: Literal["all", "active"] = "all"
    names: Literal["names", "ids"] = "names"


class SDTInd(Corpus, verb="format sdtind", target=_TARGET):
    """Examples of Show, Don't Tell, one slot at a time ($JAXAUG_DEMONSTRATIONS as for
    sdt)."""


class T5DST(Corpus, verb="format t5dst", target=_TARGET):
    """T5DST examples."""


add = adds(Format, D3ST, JSON, SDT, SDTInd, T5DST, metavar="FORMAT")
