"""Arguments of `jaxaug levels`; this module imports quickly."""

import argparse
from typing import Any

from jaxaug.core import arguments
from jaxaug.paraphrase import arguments as paraphrase


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `levels`."""
    parser = arguments.verb(
        verbs,
        "levels",
        "jaxaug.curriculum.generate:run",
        "paraphrase the texts of a file and sort the outputs into levels of "
        "difficulty; the same command resumes after a stop",
    )
    arguments.texts(parser)
    parser.add_argument(
        "--out", required=True, help="JSON lines to write: texts and their levels"
    )
    parser.add_argument(
        "--model", required=True, help="paraphrasing model, as for `jaxaug paraphrase`"
    )
    arguments.trained_run(parser)
    paraphrase.endpoint(parser)
    paraphrase.of_requests(parser)
    paraphrase.dry_run(parser)
    parser.add_argument("--prompt", help="as for `jaxaug paraphrase`")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "int8"),
        default="float32",
        help="as for `jaxaug paraphrase`",
    )
    parser.add_argument(
        "--quota",
        nargs="+",
        metavar="SAMPLER=NUMBER",
        help="paraphrases per text to keep from each sampler (bottom_k, "
        "top_k_top_p, sampling); default, as in the paper: bottom_k=4 top_k_top_p=16; "
        "for its COVID-Q: bottom_k=2 top_k_top_p=18; pure sampling in place of "
        "bottom-k: sampling=4 top_k_top_p=16; with --endpoint: sampling=20",
    )
    for name, default, text in (
        (
            "oversample",
            3,
            "outputs to generate per sampler, as a multiple of its quota",
        ),
        ("rounds", 3, "maximum number of attempts to fill the quotas of a text"),
        ("bottom_k", 2, "tokens that bottom-k removes"),
        ("bottom_steps", 1, "steps in which bottom-k applies"),
        ("top_k", 120, "top-k of top_k_top_p, and of bottom_k after its steps"),
        ("top_p", 0.95, "top-p of the same"),
        ("max_length", 48, "maximum tokens per candidate"),
        ("levels", 5, "number of levels"),
        ("seed", 0, "seed of all random draws"),
        ("shard_size", 16, "texts per shard, the most that an interruption can lose"),
    ):
        kind: Any = type(default)
        # Seeds are checked like the seeds of configurations.
        if kind is int and name != "seed":
            kind = arguments.whole(arguments.MANY)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    parser.add_argument(
        "--beta",
        type=float,
        help="minimum similarity of paraphrases that are not implied (default: 0.5 for "
        "bleurt-base-128, 0.7 for bleurt-20, 0.8 for minilm, 0.5 for other encoders; "
        "without an implication model 0.2 for minilm, and no minimum for others)",
    )
    parser.add_argument(
        "--similarity",
        default="auto",
        help="sentence encoder, or BLEURT (default: the first that is on this machine "
        "of bleurt-base-128, on whose scale the paper's scores are, bleurt-20, and "
        "minilm)",
    )
    parser.add_argument(
        "--implication",
        default="auto",
        help="entailment model, or none (default: roberta-mi if it is on this machine)",
    )
