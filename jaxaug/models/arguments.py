"""Arguments of `jaxaug models` and `jaxaug convert`; importing this module is cheap."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `models`."""
    parser = verbs.add_parser("models", help="list and fetch named models")
    group = parser.add_subparsers(metavar="COMMAND", required=True)
    arguments.verb(
        group,
        "list",
        "jaxaug.models.named.catalogue:run_list",
        "named models: which are on disk, which need the network, how to get each",
    )
    fetch = arguments.verb(
        group,
        "fetch",
        "jaxaug.models.named.catalogue:run_fetch",
        "download named models into the cache",
    )
    fetch.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="a name from the list, or hf:OWNER/NAME on the Hugging Face hub",
    )


def add_convert(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `convert`."""
    parser = arguments.verb(
        verbs,
        "convert",
        "jaxaug.models.convert:run",
        "convert a model between formats: Hugging Face, T5X, GGUF, CTranslate2",
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        help="published folder, T5X run or checkpoint, .gguf file, name from `jaxaug "
        "models list`, or hf:OWNER/NAME on the Hugging Face hub",
    )
    arguments.trained_run(parser)
    parser.add_argument(
        "--to",
        dest="destination",
        required=True,
        help="new folder; checkpoint_N for T5X",
    )
    parser.add_argument(
        "--format",
        choices=("hf", "t5x", "t5x_legacy", "peft", "ctranslate2"),
        help="what to write (default: t5x for checkpoint_N, else hf); peft writes the "
        "adapter of a run with configs/runs/lora.gin, as bfloat16; ctranslate2 needs "
        "the extra engine",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "float16", "int16", "int8"),
        help="precision of the weights with --format ctranslate2 (default: float32)",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--merge-lora",
        metavar="ADAPTER",
        help="merge a LoRA adapter into the weights: a folder in peft format, or a run "
        "trained with configs/runs/lora.gin",
    )
    group.add_argument(
        "--unmerge-lora",
        metavar="ADAPTER",
        help="remove a merged adapter from the weights, up to rounding",
    )
    parser.add_argument(
        "--like", help="published folder with the configuration and tokenizer to use"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="round parameters to this type (default: unchanged)",
    )
    parser.add_argument(
        "--scan-layers",
        action="store_true",
        help="write a T5 as stacks of scanned layers, for t5x.examples.scalable_t5",
    )
    parser.add_argument("--data", help="model card: the training data")
    parser.add_argument("--licence", help="model card: the license")
    parser.add_argument("--metrics", help="model card: JSON file of names and values")
    parser.add_argument(
        "--seed",
        type=arguments.whole(arguments.MAX_SEED),
        help="model card: the training seed",
    )
