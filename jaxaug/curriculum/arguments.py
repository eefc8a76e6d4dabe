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
    for name, default, text in (
        ("candidates", 60, "outputs of each text"),
        ("bottom_share", 0.5, "share of the candidates that bottom-k gives"),
        ("bottom_k", 2, "tokens that bottom-k removes"),
        ("bottom_steps", 1, "steps in which it does so"),
        ("top_k", 120, "of the other candidates, and after those steps"),
        ("top_p", 0.95, "likewise"),
        ("max_length", 48, "tokens of a candidate"),
        ("beta", 0.5, "least similarity of what is not implied"),
        ("keep", 20, "paraphrases of a text, at most"),
        ("levels", 5, "levels of difficulty"),
        ("seed", 0, "of everything that is random"),
        ("shard_size", 16, "texts that a stop loses at most"),
    ):
        kind = type(default)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    parser.add_argument(
        "--similarity",
        default="minilm",
        help="encoder of sentences, or bleurt-20 as in the paper",
    )
    parser.add_argument(
        "--implication",
        help="model of entailment, such as roberta-mi (default: none, similarity alone)",
    )
