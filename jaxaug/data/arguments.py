"""The arguments of the verbs about data; cheap to import."""

import argparse

from jaxaug.core import arguments


def _of_folder(
    group: argparse._SubParsersAction, name: str, target: str, text: str
) -> argparse.ArgumentParser:
    """Adds a command with an optional data folder."""
    parser = arguments.verb(group, name, target, text)
    parser.add_argument(
        "dir",
        metavar="DIR",
        nargs="?",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )
    return parser


def _add_show(group: argparse._SubParsersAction) -> None:
    text = "show dialogues with their states, and what each turn changes"
    parser = _of_folder(group, "show", "jaxaug.data.show:run", text)
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="(default: all, train first)"
    )
    parser.add_argument("--dialogue", metavar="ID", help="show only this dialogue")
    parser.add_argument(
        "--service", metavar="NAME", help="only dialogues that use this service"
    )
    parser.add_argument(
        "--num",
        type=arguments.whole(arguments.MANY),
        default=3,
        metavar="N",
        help="how many (default: 3)",
    )
    parser.add_argument(
        "--no-color",
        action="store_true",
        help="print without color even on a terminal, as with $NO_COLOR",
    )


def _add_sample(group: argparse._SubParsersAction) -> None:
    text = "write a smaller data folder: whole dialogues, all services, all wordings"
    parser = _of_folder(group, "sample", "jaxaug.data.sample:run", text)
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--frames",
        nargs="+",
        metavar="SPLIT=N",
        help="keep dialogues with about N frames of a split; copy other splits whole",
    )
    what.add_argument(
        "--list",
        metavar="FILE",
        help="sample.json of an earlier sample, to make the same one again",
    )
    parser.add_argument(
        "--seed",
        type=arguments.whole(arguments.MAX_SEED),
        default=0,
        help="seed of the selection (default: 0)",
    )


def _add_chats(group: argparse._SubParsersAction) -> None:
    """Adds the commands that read and write chat messages with tool calls."""
    text = "convert chat messages with tool calls to a split of a data folder"
    parser = arguments.verb(
        group, "import", "jaxaug.tools.conversations:run_import", text
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="file (.jsonl, .json, .parquet, .arrow), or a folder with them, such as "
        "one of Hugging Face `datasets`",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="document with the tools of records without `tools`, in any format of "
        "`jaxaug schema import`",
    )
    arguments.split(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="data folder")
    text = (
        "convert a split of a data folder to chat messages with tool calls; "
        "`export rewordings` writes the corpus of rewordings"
    )
    parser = _of_folder(group, "export", "jaxaug.tools.conversations:run_export", text)
    parser.add_argument("--split", choices=("train", "dev", "test"))
    parser.add_argument(
        "--out",
        metavar="PATH",
        help=".jsonl or .parquet file to write; folder for `rewordings` "
        "(default: ./rewordings)",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "parquet"),
        help="of the files of `rewordings` (default: jsonl)",
    )


def add_init(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `init`."""
    text = (
        "write example data to adapt: 2 services, 20 dialogues, every field explained"
    )
    parser = arguments.verb(verbs, "init", "jaxaug.data.example:run", text)
    parser.add_argument(
        "dir", metavar="DIR", help="new or empty folder, local or gs://"
    )


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `data`."""
    parser = verbs.add_parser("data", help="fetch, describe and rewrite data folders")
    group = parser.add_subparsers(metavar="COMMAND", required=True)
    fetch = arguments.verb(
        group, "fetch", "jaxaug.data.fetch:run", "download a data set with a checksum"
    )
    fetch.add_argument(
        "name",
        help="sgd, personachat, or one of an installed package, such as multiwoz22",
    )
    fetch.add_argument("--out", help="target folder (default: ./data/<name>)")
    convert = arguments.verb(
        group,
        "convert",
        "jaxaug.data.fetch:run_convert",
        "convert a published folder to the layout that jaxaug reads, and count the "
        "changes",
    )
    convert.add_argument("name", help="one of an installed package, such as multiwoz22")
    convert.add_argument("--source", required=True, help="folder as published")
    convert.add_argument("--out", required=True, help="folder to write")
    convert.add_argument(
        "--mentioned_only",
        action="store_true",
        help="write frames only for the domains of a dialogue: smaller, but joint "
        "accuracy no longer counts hallucinated domains",
    )
    _add_chats(group)
    describe = arguments.verb(
        group,
        "describe",
        "jaxaug.data.describe:run",
        "counts per split and service, seen and unseen",
    )
    arguments.data_dir(describe)
    text = "report every error in a data folder, with file, line and fix"
    _of_folder(group, "check", "jaxaug.feed.inversion:run", text)
    _add_show(group)
    _add_sample(group)
    variants = arguments.verb(
        group,
        "variants",
        "jaxaug.data.variants:run",
        "write dialogues renamed to a schema variant",
    )
    arguments.data_dir(variants)
    arguments.split(variants)
    variants.add_argument("--variant", required=True, help="v1..v5")
    variants.add_argument("--out", required=True, help="folder to write")
    shown = arguments.verb(
        group,
        "demonstrations",
        "jaxaug.data.demonstrations:run",
        "write the example dialogue that SDT shows for each service, as a file to edit",
    )
    arguments.data_dir(shown)
    shown.add_argument("--out", required=True, help="JSON file to write")
    cache = arguments.verb(
        group,
        "cache",
        "jaxaug.feed.sets:run",
        "format and tokenize tasks before training, into the cache folder of all "
        "programs ($JAXAUG_CACHE_DIR)",
    )
    arguments.data_dir(cache)
    for kind in ("task", "mixture"):
        text = f"registered {kind}s, such as d3st_{'sgd' if kind == 'task' else 'eval'}"
        cache.add_argument(
            f"--{kind}", nargs="+", default=[], metavar="NAME", help=text
        )
    cache.add_argument(
        "--module",
        nargs="+",
        help="modules that register them (default: those of jaxaug)",
    )
    cache.add_argument("--vocabulary", help="as for $JAXAUG_VOCABULARY, the default")
    cache.add_argument(
        "--out", help="cache folder, local or gs:// (default: $JAXAUG_CACHE_DIR)"
    )
