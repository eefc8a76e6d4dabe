"""The arguments of `jaxaug classify`; cheap to import."""

import argparse

from jaxaug.core import arguments
from jaxaug.paraphrase import arguments as paraphrase


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `classify`."""
    parser = arguments.verb(
        verbs,
        "classify",
        "jaxaug_papers.dips.classify.run:run",
        "test whether paraphrases of the training data improve a classifier, for "
        "several shares of the data and several seeds",
    )
    parser.add_argument(
        "--config", required=True, help=arguments.CONFIG.format("classify")
    )
    parser.add_argument(
        "--data_dir",
        help="folder that contains the data set's folder (default: from the config)",
    )
    parser.add_argument("--out", help="folder to write (default: from the config)")
    parser.add_argument(
        "--model",
        "--paraphraser",
        metavar="MODEL",
        help="a model of `jaxaug models list`, a run, or smollm2+ADAPTER (default: "
        "from the config); openai:NAME for a model behind --endpoint, which has one "
        "row instead of one for each decoder",
    )
    paraphrase.endpoint(parser)
    paraphrase.of_requests(parser)
    paraphrase.dry_run(parser)
    parser.add_argument(
        "--wordnet_dir",
        metavar="DIR",
        help="folder with WordNet's data.noun and so on (default: from the config)",
    )
    parser.add_argument(
        "--num_sources",
        type=arguments.whole(2**31 - 1),
        metavar="N",
        help="training texts to paraphrase for each seed (default: from the config)",
    )
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        metavar="SHARE",
        help="shares of the training data, such as 1 0.1 (default: from the config)",
    )
    parser.add_argument(
        "--classifiers",
        nargs="+",
        metavar="NAME",
        help="classifiers, such as LogReg (default: from the config)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="ROW",
        help="compute the first row and these, such as SBS 'Cont*' (default: all)",
    )
