"""The arguments of `jaxaug levels`; importing this is cheap."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `levels`."""
    parser = arguments.verb(
        verbs,
        "levels",
        "jaxaug.curriculum.generate:run",
        "paraphrases of the lines of a file by level of difficulty; the same command "
        "goes on after a stop",
    )
    parser.add_argument(
        "--in", dest="input", required=True, help="UTF-8 text, one text a line"
    )
    parser.add_argument(
        "--out", required=True, help="JSON lines to write: a text and its levels"
    )
    parser.add_argument(
        "--model", required=True, help="that paraphrases: as of `jaxaug paraphrase`"
    )
    parser.add_argument("--prompt", help="as of `jaxaug paraphrase`")
    parser.add_argument(
        "--quota",
        nargs="+",
        default=["bottom_k=4", "top_k_top_p=16"],
        metavar="SAMPLER=NUMBER",
        help="paraphrases of a text that are kept of each sampler (bottom_k, "
        "top_k_top_p, sampling); default, as in the paper: bottom_k=4 top_k_top_p=16; "
        "its COVID-Q: bottom_k=2 top_k_top_p=18; pure sampling: sampling=20",
    )
    for name, default, text in (
        ("oversample", 3, "outputs of a sampler, as a multiple of its quota"),
        ("rounds", 3, "how often a text is asked while a quota of it is not full"),
        ("bottom_k", 2, "tokens that bottom-k removes"),
        ("bottom_steps", 1, "steps in which it does so"),
        ("top_k", 120, "of top_k_top_p, and of bottom_k after its steps"),
        ("top_p", 0.95, "likewise"),
        ("max_length", 48, "tokens of a candidate"),
        ("levels", 5, "levels of difficulty"),
        ("seed", 0, "of everything that is random"),
        ("shard_size", 16, "texts that a stop loses at most"),
    ):
        kind = type(default)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    parser.add_argument(
        "--beta",
        type=float,
        help="least similarity of what is not implied (default: 0.5, of minilm 0.8; "
        "without a model of implication 0.2 of minilm, and of others whatever it is)",
    )
    parser.add_argument(
        "--similarity",
        default="auto",
        help="encoder of sentences, or BLEURT (default: bleurt-20, as in the paper, "
        "where it is on this machine, else minilm)",
    )
    parser.add_argument(
        "--implication",
        default="auto",
        help="model of entailment, or none (default: roberta-mi where it is on this "
        "machine)",
    )
