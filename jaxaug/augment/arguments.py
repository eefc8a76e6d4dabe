"""The arguments of `jaxaug augment` and its commands; importing this is cheap."""

import argparse

from jaxaug.core import arguments

SCHEMES = {
    "eda": "synonyms, insertions, swaps and deletions of words",
    "token_substitution": "synonyms",
    "pervasive_dropout": "words left out",
    "switch_out": "random words in the place of some",
    "typos": "letters beside the right ones, left out, doubled, swapped",
    "disfluency": "uh, i mean, repetitions, restarts",
    "contextual": "words that a language model would write there "
    "(--model, such as smollm2)",
    "paraphrase": "whole sentences of a model (--model and --sampler, as of "
    "`jaxaug paraphrase`)",
    "backtranslate": "there and back (`jaxaug models fetch marian-en-fr marian-fr-en`, "
    "--option pivots=fr)",
    "qcpg": "paraphrases under control (`jaxaug models fetch qcpg-sentences`)",
}
"""Name -> what it does and, in brackets, what it needs; shown by --help."""


def add_text(group: argparse._SubParsersAction) -> None:
    """Adds `text` to the commands of `jaxaug augment`."""
    text = "other wordings of any text: lines, or a column of CSV, TSV or JSON lines"
    width = max(map(len, SCHEMES))
    rows = [f"  {name:{width}}  {what}" for name, what in SCHEMES.items()]
    rows += ["", "and those of packages that register some (docs/extending.md)."]
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
        help="one of those below, or several, done from left to right",
    )
    parser.add_argument(
        "--in",
        dest="input",
        required=True,
        help="UTF-8: .csv, .tsv, .jsonl, else a text a line; - is standard input",
    )
    parser.add_argument(
        "--column", help="of the texts (default: text, or the only column)"
    )
    parser.add_argument(
        "--out",
        required=True,
        help="file to write, in the form of the input; JSON lines where --num of lines "
        "is above 1",
    )
    parser.add_argument(
        "--num", type=int, default=1, help="outputs of each text (default: 1)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--option",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="of a scheme, such as replace=0.5; SCHEME.NAME=VALUE where several have it",
    )
    parser.add_argument("--model", help="of paraphrase or contextual")
    parser.add_argument("--sampler", help="of paraphrase, such as top_k_top_p")


def add_dialogues(group: argparse._SubParsersAction) -> None:
    """Adds `dialogues` to the commands of `jaxaug augment`."""
    text = (
        "a copy of a data folder in which users mistype or hesitate; spans move along"
    )
    parser = group.add_parser("dialogues", help=text, description=text)
    parser.set_defaults(target="jaxaug.augment.plain.dialogues:run")
    parser.add_argument(
        "--scheme",
        required=True,
        metavar="NAME[,NAME]",
        help="typos (letters beside the right ones, left out, doubled, swapped), "
        "disfluency (uh, i mean, repetitions, restarts), or both",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--splits",
        default="train",
        metavar="NAMES",
        help="whose users are changed, such as train,test (default: train)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=0.1,
        help="probability of each word (default: 0.1)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="data folder to write")


def add_judge(group: argparse._SubParsersAction) -> None:
    """Adds `judge` to the commands of `jaxaug augment`."""
    text = "which candidates say what their original says, in other words"
    parser = group.add_parser("judge", help=text, description=text)
    parser.set_defaults(target="jaxaug.augment.judge.pairs:run")
    parser.add_argument(
        "--in",
        dest="input",
        required=True,
        help="UTF-8, tabs between columns, the header kind, original, candidate; a kind "
        "is slot, intent or service",
    )
    parser.add_argument(
        "--out",
        required=True,
        help="JSON lines to write, in the order of the input: with keep, reasons, metrics",
    )
    parser.add_argument(
        "--similarity",
        metavar="MODEL",
        help="of how near words are; none: their letters (default: minilm where it is on "
        "this machine)",
    )
    parser.add_argument(
        "--model",
        help="language model for the round trip, such as smollm2 (default: none)",
    )
    parser.add_argument(
        "--adapter", metavar="DIR", help="of the model: one that paraphrases"
    )


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `augment`."""
    parser = arguments.verb(
        verbs,
        "augment",
        "jaxaug.augment.run:run",
        "schema -> ranked paraphrases -> variant folders; the same command goes on "
        "after a stop",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--config",
        help="a file of configs/augment, a Python program that is run: take it from "
        "nobody whom you do not trust; FILE.py:TEXT hands TEXT to its get_config "
        "(default: configs/augment/schema_tree.py)",
    )
    parser.add_argument("--out", help="variants folder to write")
    parser.add_argument(
        "--splits",
        metavar="NAMES",
        help="whose schemas are augmented, such as train,test: variants of dev and test "
        "are what a tracker is evaluated on (default: as the config says, mostly train)",
    )
    parser.add_argument(
        "--allow_seen",
        action="store_true",
        help="let a model write variants of services that it was trained on (schema-"
        "paraphraser on SGD); no figures of trackers are to be made with them",
    )
    arguments.shards(parser)
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="check config, data and OUT, print what would be done with which models, "
        "and stop; needs no weights",
    )
    group = parser.add_subparsers(metavar="COMMAND")
    explain = arguments.verb(
        group,
        "explain",
        "jaxaug.augment.explaining:run",
        "the tree of one description of a finished run",
    )
    explain.add_argument("id", metavar="ID", help="such as train/3/slot/5")
    explain.add_argument("--out", required=True, help="folder of the run")
    explain.add_argument("--image", help=".svg or .png to write")
    review = arguments.verb(
        group,
        "review",
        "jaxaug.augment.review:run",
        "a page to accept, reject or reword the variants of a finished run",
    )
    review.add_argument(
        "out", metavar="OUT", help="folder of the run; the page is OUT/review.html"
    )
    review.add_argument(
        "--decisions",
        metavar="FILE",
        help="check the decisions.jsonl that the page saved, and lay it into OUT",
    )
    add_text(group)
    add_dialogues(group)
    add_judge(group)
