"""Options of `jaxaug format`; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core.arguments import DataDir, Range, Seed, Settings, Split, adds

_TARGET = "jaxaug.feed.export:run"


class Format(Settings, verb="format"):
    """Dialogues to text-to-text examples."""


class Order(Settings):
    """Order and case of the text.

    Attributes:
        order: order of slots, intents, and options: the order of the schema, or
            shuffled per frame and epoch
        lowercase: lower-case prompt, dialogue, and answer
        seed: seed of the shuffled order
    """

    order: Literal["schema", "shuffled"] = "schema"
    lowercase: bool = True
    seed: Seed = 0


class D3STText(Order):
    """Text of D3ST.

    Attributes:
        delimiter: delimiter between an index and its description or value; one or more
            characters other than letters, digits, and white space
        level: dst answers with the state, dst_intent also with the active intent and
            the requested slots
        categorical: options of categorical slots as `1a) x 1b) y`, as `a) x b) y`, or
            no options; letters are answered as `<index><letter>` in both styles
    """

    delimiter: str = "="
    level: Literal["dst_intent", "dst"] = "dst_intent"
    categorical: Literal["1a", "a", "none"] = "1a"


class JSONText(Order):
    """Text of tool prompts; names of services, intents, and slots keep their case.

    Attributes:
        level: dst answers with the state, dst_intent also with the active intent and
            the requested slots
    """

    level: Literal["dst", "dst_intent"] = "dst"


class SDTText(Order):
    """Text of SDT.

    Attributes:
        level: dst answers with the state, dst_intent also with the active intent
        categorical: letters shows possible values as `b of possible values a) x b) y`,
            answered by letter; values shows `y of possible values x, y`, answered by
            value
        answered: all slots are answered, with `none` if they have no value, or only the
            active ones
        names: slots as their names, or as ids, their numbers in the prompt
    """

    level: Literal["dst", "dst_intent"] = "dst"
    categorical: Literal["letters", "values"] = "letters"
    answered: Literal["all", "active"] = "all"
    names: Literal["names", "ids"] = "names"


class Corpus(DataDir):
    """A command that writes examples.

    Attributes:
        variant: v1..v5 (default: the original schema)
        epoch: epoch of the shuffled order
        workers: 0: one per core
        out: TSV file to write
    """

    split: Split
    variant: str | None = None
    epoch: Annotated[int, Range(0, 2**31 - 1)] = 0
    workers: Annotated[int, Range(0, 10_000)] = 0
    out: str


class D3ST(D3STText, Corpus, verb="format d3st", target=_TARGET):
    """D3ST examples."""


class JSON(JSONText, Corpus, verb="format json", target=_TARGET):
    """Function calls: the schema as JSON tools, the state as JSON."""


class SDT(SDTText, Corpus, verb="format sdt", target=_TARGET):
    """Examples of Show, Don't Tell: an example dialogue instead of descriptions
    ($JAXAUG_DEMONSTRATIONS names a file of them)."""


class SDTInd(Order, Corpus, verb="format sdtind", target=_TARGET):
    """Examples of Show, Don't Tell, one slot at a time ($JAXAUG_DEMONSTRATIONS as for
    sdt)."""


class T5DST(Order, Corpus, verb="format t5dst", target=_TARGET):
    """T5DST examples."""


add = adds(Format, D3ST, JSON, SDT, SDTInd, T5DST, metavar="FORMAT")
