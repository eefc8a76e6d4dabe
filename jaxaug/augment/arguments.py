"""Options of `jaxaug augment` and its commands; this module imports quickly."""

import argparse
from typing import Annotated

from jaxaug.core import arguments as args
from jaxaug.paraphrase.arguments import Endpoint

SCHEMES = {
    "eda": "synonyms, insertions, swaps and deletions of words",
    "token_substitution": "synonyms",
    "pervasive_dropout": "words left out",
    "switch_out": "some words replaced by random ones",
    "typos": "letters replaced by neighboring keys, left out, doubled, swapped",
    "disfluency": "uh, i mean, repetitions, restarts",
    "contextual": "words predicted in context by a language model "
    "(--model, such as smollm2)",
    "paraphrase": "whole sentences by a model (--model and --sampler, as for "
    "`jaxaug paraphrase`; or --model openai:NAME --option endpoint=URL)",
    "backtranslate": "translation there and back (`jaxaug models fetch marian-en-fr "
    "marian-fr-en`, --option pivots=fr)",
    "apertium": "translation there and back by rules (the program apertium with "
    "apertium-eng-spa, --option pivots=spa)",
    "qcpg": "paraphrases with controlled quality (`jaxaug models fetch "
    "qcpg-sentences`)",
}
"""Name -> its effect and, in brackets, its requirements; shown by --help."""

_LINE = max(map(len, SCHEMES))
_ROWS = "".join(f"  {name:{_LINE}}  {what}\n" for name, what in SCHEMES.items())


class Augment(
    args.DataDir, args.TrainedRun, Endpoint, args.Shards, args.Offline,
    verb="augment", target="jaxaug.augment.run:run",
):  # fmt: skip
    """Paraphrase a schema, rank the paraphrases, write variant folders; the same
    command resumes after a stop.

    Attributes:
        out: variants folder to write
        model: language model for the texts that still lack variants after the rounds of
            the config, such as smollm2; openai:NAME for a model behind --endpoint
        prompt: prompt of --model, as for `jaxaug paraphrase`
        splits: splits whose schemas are augmented, such as train,test; trackers are
            evaluated on variants of dev and test (default: as in the config, mostly
            train)
        variants: number of variants of each text (default: as in the config, mostly 5)
        dry_run: check config, data and OUT, print what would be done and with which
            models, and stop; needs no weights
    """

    config: Annotated[
        str | None,
        args.Arg(
            help=f"{args.CONFIG.format('augment')} "
            "(default: configs/augment/grammar_tree.py)"
        ),
    ] = None
    out: str | None = None
    model: str | None = None
    prompt: str | None = None
    splits: Annotated[str | None, args.Arg(metavar="NAMES")] = None
    variants: Annotated[args.Count | None, args.Arg(metavar="K")] = None
    dry_run: bool = False


class Explain(
    args.Settings, verb="augment explain", target="jaxaug.augment.explaining:run"
):
    """Show the tree of one description of a finished run.

    Attributes:
        id: such as train/3/slot/5
        out: folder of the run
        image: .svg or .png to write
    """

    id: Annotated[str, args.Arg("ID")]
    out: str
    image: str | None = None


class Review(args.Settings, verb="augment review", target="jaxaug.augment.review:run"):
    """Write a page to accept, reject or reword the variants of a finished run.

    Attributes:
        out: folder of the run; the page is OUT/review.html
        decisions: check the decisions.jsonl saved by the page, and copy it into OUT
    """

    out: Annotated[str, args.Arg("OUT")]
    decisions: args.File = None


class Text(
    args.Texts, args.Offline, args.TrainedRun,
    verb="augment text", target="jaxaug.augment.plain.text:run",
    epilog=f"schemes:\n{_ROWS}\nand schemes of installed packages (docs/extending.md).",
    formatter_class=argparse.RawDescriptionHelpFormatter,
):  # fmt: skip
    """Paraphrase or perturb any text: lines, or a column of CSV, TSV or JSON lines.

    Attributes:
        scheme: one or more of the schemes below, applied from left to right
        out: file to write, in the format of the input; plain lines become JSON lines if
            --num is above 1
        num: outputs for each text
        seed: seed of all random draws
        option: option of a scheme, such as replace=0.5; SCHEME.NAME=VALUE if several
            have it
        model: model of paraphrase or contextual
        sampler: sampler of paraphrase, such as top_k_top_p
    """

    scheme: Annotated[str, args.Arg(metavar="NAME[,NAME...]")]
    out: args.PathLike
    num: args.Count = 1
    seed: args.Seed = 0
    option: Annotated[args.Words, args.Arg(metavar="NAME=VALUE", action="extend")] = ()
    model: str | None = None
    sampler: str | None = None


class Dialogues(
    args.DataDir, verb="augment dialogues", target="jaxaug.augment.plain.dialogues:run"
):
    """Copy a data folder with typos or hesitations in user turns; adjusts spans.

    Attributes:
        scheme: typos (letters replaced by neighboring keys, left out, doubled,
            swapped), disfluency (uh, i mean, repetitions, restarts), or both
        splits: splits to change, such as train,test
        rate: probability of a change at each word
        seed: seed of all random draws
        out: data folder to write
    """

    scheme: Annotated[str, args.Arg(metavar="NAME[,NAME]")]
    splits: Annotated[str, args.Arg(metavar="NAMES")] = "train"
    rate: Annotated[float, args.Range(0, 1)] = 0.1
    seed: args.Seed = 0
    out: str


class Judge(
    args.TrainedRun, verb="augment judge", target="jaxaug.augment.judge.verdicts:run"
):
    """Decide which candidates are faithful rewordings of their original.

    Attributes:
        input: UTF-8, tab-separated, with the header kind, original, candidate; a kind
            is slot, intent, service, name or sentence
        out: JSON lines to write, in input order, with keep, reasons and faithful
        least: least probability, 0 to 1, of a candidate that is kept
    """

    input: Annotated[str, args.Arg("--in")]
    out: str
    least: Annotated[float, args.Range(0, 1), args.Arg(metavar="P")] = 0.5


add = args.adds(Augment, Explain, Review, Text, Dialogues, Judge)
