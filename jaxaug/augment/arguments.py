"""Arguments of `jaxaug augment` and its commands; this module imports quickly."""

import argparse

from jaxaug.core import arguments
from jaxaug.paraphrase import arguments as paraphrase

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
    "marian-fr-en`, "
    "--option pivots=fr)",
    "apertium": "translation there and back by rules (the program apertium with "
    "apertium-eng-spa, --option pivots=spa)",
    "qcpg": "paraphrases with controlled quality (`jaxaug models fetch "
    "qcpg-sentences`)",
}
"""Name -> its effect and, in brackets, its requirements; shown by --help."""


def add_text(group: argparse._SubParsersAction) -> None:
    """Adds `text` to the commands of `jaxaug augment`."""
    text = (
        "paraphrase or perturb any text: lines, or a column of CSV, TSV or JSON lines"
    )
    width = max(map(len, SCHEMES))
    rows = [f"  {name:{width}}  {what}" for name, what in SCHEMES.items()]
    rows += ["", "and schemes of installed packages (docs/extending.md)."]
    parser = group.add_parser(
        "text",
        help=text,
        description=text,
        epilog="\n".join(["schemes:", *rows]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(target="jaxaug.augment.plain.text:run")
    parser.add_argument(
        "--scheme",
        required=True,
        metavar="NAME[,NAME...]",
        help="one or more of the schemes below, applied from left to right",
    )
    arguments.texts(parser)
    parser.add_argument(
        "--out",
        required=True,
        help="file to write, in the format of the input; plain lines become JSON lines "
        "if "
        "--num is above 1",
    )
    parser.add_argument(
        "--num",
        type=arguments.whole(arguments.MANY),
        default=1,
        help="outputs for each text (default: 1)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--option",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="option of a scheme, such as replace=0.5; SCHEME.NAME=VALUE if several "
        "have it",
    )
    parser.add_argument("--model", help="model of paraphrase or contextual")
    arguments.offline(parser)
    arguments.trained_run(parser)
    parser.add_argument("--sampler", help="sampler of paraphrase, such as top_k_top_p")


def add_dialogues(group: argparse._SubParsersAction) -> None:
    """Adds `dialogues` to the commands of `jaxaug augment`."""
    text = "copy a data folder with typos or hesitations in user turns; adjusts spans"
    parser = group.add_parser("dialogues", help=text, description=text)
    parser.set_defaults(target="jaxaug.augment.plain.dialogues:run")
    parser.add_argument(
        "--scheme",
        required=True,
        metavar="NAME[,NAME]",
        help="typos (letters replaced by neighboring keys, left out, doubled, "
        "swapped), "
        "disfluency (uh, i mean, repetitions, restarts), or both",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--splits",
        default="train",
        metavar="NAMES",
        help="splits to change, such as train,test (default: train)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=0.1,
        help="probability of a change at each word (default: 0.1)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="data folder to write")


def add_judge(group: argparse._SubParsersAction) -> None:
    """Adds `judge` to the commands of `jaxaug augment`."""
    text = "decide which candidates are faithful rewordings of their original"
    parser = group.add_parser("judge", help=text, description=text)
    parser.set_defaults(target="jaxaug.augment.judge.pairs:run")
    parser.add_argument(
        "--in",
        dest="input",
        required=True,
        help="UTF-8, tab-separated, with the header kind, original, candidate; a kind "
        "is slot, intent, service, name or sentence",
    )
    parser.add_argument(
        "--out",
        required=True,
        help="JSON lines to write, in input order, with keep, reasons and faithful",
    )
    parser.add_argument(
        "--least",
        type=float,
        default=0.5,
        metavar="P",
        help="least probability, 0 to 1, of a candidate that is kept (default: 0.5)",
    )
    arguments.trained_run(parser)


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `augment`."""
    parser = arguments.verb(
        verbs,
        "augment",
        "jaxaug.augment.run:run",
        "paraphrase a schema, rank the paraphrases, write variant folders; the same "
        "command resumes after a stop",
    )
    arguments.data_dir(parser)
    arguments.trained_run(parser)
    parser.add_argument(
        "--config",
        help=f"{arguments.CONFIG.format('augment')} "
        "(default: configs/augment/grammar_tree.py)",
    )
    parser.add_argument("--out", help="variants folder to write")
    parser.add_argument(
        "--model",
        help="language model for the texts that still lack variants after "
        "the rounds of the config, such as smollm2; openai:NAME for a model behind "
        "--endpoint",
    )
    parser.add_argument(
        "--prompt", help="prompt of --model, as for `jaxaug paraphrase`"
    )
    paraphrase.endpoint(parser)
    paraphrase.of_requests(parser)
    parser.add_argument(
        "--splits",
        metavar="NAMES",
        help="splits whose schemas are augmented, such as train,test; trackers are "
        "evaluated on variants of dev and test (default: as in the config, mostly "
        "train)",
    )
    parser.add_argument(
        "--variants",
        type=arguments.whole(arguments.MANY),
        metavar="K",
        help="number of variants of each text (default: as in the config, mostly 5)",
    )
    arguments.shards(parser)
    arguments.offline(parser)
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="check config, data and OUT, print what would be done and with which "
        "models, "
        "and stop; needs no weights",
    )
    group = parser.add_subparsers(metavar="COMMAND")
    explain = arguments.verb(
        group,
        "explain",
        "jaxaug.augment.explaining:run",
        "show the tree of one description of a finished run",
    )
    explain.add_argument("id", metavar="ID", help="such as train/3/slot/5")
    explain.add_argument("--out", required=True, help="folder of the run")
    explain.add_argument("--image", help=".svg or .png to write")
    review = arguments.verb(
        group,
        "review",
        "jaxaug.augment.review:run",
        "write a page to accept, reject or reword the variants of a finished run",
    )
    review.add_argument(
        "out", metavar="OUT", help="folder of the run; the page is OUT/review.html"
    )
    review.add_argument(
        "--decisions",
        metavar="FILE",
        help="check the decisions.jsonl saved by the page, and copy it into OUT",
    )
    add_text(group)
    add_dialogues(group)
    add_judge(group)
