"""The arguments of `jaxaug papers`; cheap to import."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `papers`."""
    papers = verbs.add_parser("papers", help="tools of the papers' experiments")
    group = papers.add_subparsers(metavar="COMMAND", required=True)
    text = "write a blinded A/B sheet for two files of outputs, or test its votes"
    parser = arguments.verb(group, "ab", "jaxaug_papers.ab.run:run", text)
    parser.add_argument(
        "files",
        nargs=2,
        metavar="FILE",
        help="JSON lines with `input` and `output` (of `jaxaug paraphrase`), or with "
        "`inputs` and `prediction` (of t5x.infer)",
    )
    parser.add_argument(
        "--names", nargs=2, metavar="NAME", help="of the files (default: their stems)"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", help="HTML file to write; it does not reveal the files")
    what.add_argument(
        "--votes",
        nargs="+",
        metavar="VOTES",
        help=".json or .csv files that the sheet saved, one per voter",
    )
    parser.add_argument(
        "--questions",
        default="paraphrases",
        help="with --out: paraphrases (Table 6 of PCC), dialogue (Table 10), or a text "
        "file with a question per line (default: paraphrases)",
    )
    parser.add_argument(
        "--num",
        type=arguments.whole(10_000),
        default=200,
        help="with --out: at most this many pairs (default: 200)",
    )
    parser.add_argument(
        "--seed",
        type=arguments.whole(2**31 - 1),
        default=0,
        help="with --out: draws pairs, order, and sides (default: 0)",
    )
