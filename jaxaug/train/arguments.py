"""The arguments of `jaxaug fewshot` and `jaxaug classify`; importing this is cheap."""

import argparse

from jaxaug.core import arguments

_CONFIG = (
    "a file of configs/{}. It is a Python program and is executed, so use only files you "
    "trust; FILE.py:TEXT passes TEXT to its get_config"
)


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verbs `fewshot` and `classify`."""
    _add_fewshot(verbs)
    _add_classify(verbs)


def _add_fewshot(verbs: argparse._SubParsersAction) -> None:
    parser = arguments.verb(
        verbs,
        "fewshot",
        "jaxaug.train.fewshot:run",
        "few-shot text classification: every method of a table, for several seeds",
    )
    parser.add_argument("--config", required=True, help=_CONFIG.format("fewshot"))
    parser.add_argument(
        "--data_dir", help="folder with fewshot/ and pcc/ (default: that of the config)"
    )
    parser.add_argument(
        "--encoder", help="an encoder of `jaxaug models list`, or static:NAME"
    )
    parser.add_argument("--out", help="folder to write (default: that of the config)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--dry_run", action="store_true", help="print the schedules and stop"
    )
    group.add_argument(
        "--texts",
        help="write the few-shot sentences to this file, one per line, and stop",
    )


def _add_classify(verbs: argparse._SubParsersAction) -> None:
    parser = arguments.verb(
        verbs,
        "classify",
        "jaxaug.train.classify.run:run",
        "test whether paraphrases of the training data make a better classifier, for "
        "several shares of the data and several seeds",
    )
    parser.add_argument("--config", required=True, help=_CONFIG.format("classify"))
    parser.add_argument(
        "--data_dir",
        help="folder that contains the data set's folder (default: that of the config)",
    )
    parser.add_argument("--out", help="folder to write (default: that of the config)")
    parser.add_argument(
        "--paraphraser",
        metavar="MODEL",
        help="a model of `jaxaug models list`, a run, or smollm2+ADAPTER (default: that "
        "of the config)",
    )
    parser.add_argument(
        "--wordnet_dir",
        metavar="DIR",
        help="folder with WordNet's data.noun and so on (default: that of the config)",
    )
    parser.add_argument(
        "--num_sources",
        type=arguments.whole(2**31 - 1),
        metavar="N",
        help="training texts to paraphrase for each seed (default: that of the config)",
    )
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        metavar="SHARE",
        help="shares of the training data, such as 1 0.1 (default: those of the config)",
    )
    parser.add_argument(
        "--classifiers",
        nargs="+",
        metavar="NAME",
        help="such as LogReg (default: those of the config)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="ROW",
        help="compute the first row and these, such as SBS 'Cont*' (default: all)",
    )
