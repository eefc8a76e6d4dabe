"""Arguments of `jaxaug paraphrase`; this module imports quickly."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `paraphrase`."""
    parser = arguments.verb(
        verbs,
        "paraphrase",
        "jaxaug.augment.plain.people:run",
        "paraphrase each text of a file: without --sampler and --prompt filtered, else "
        "every "
        "output; the same command resumes after a stop",
    )
    parser.add_argument(
        "--model",
        help="rewording-paraphraser (default without --sampler and --prompt), "
        "random-tiny, minisgd, a name from `jaxaug models list`, or the folder of a "
        "T5X run or a published model; openai:NAME for a model behind --endpoint",
    )
    endpoint(parser)
    dry_run(parser)
    arguments.offline(parser)
    arguments.trained_run(parser)
    parser.add_argument(
        "--adapter",
        help="LoRA adapter for the model: a folder in peft format, or a run with "
        "configs/runs/lora.gin",
    )
    parser.add_argument(
        "--sampler",
        help="greedy, sampling, top_k_top_p, bottom_k, beam, "
        "diverse_beam, dips, dpp, ssr, or one that another package registers",
    )
    parser.add_argument(
        "--num",
        type=arguments.whole(arguments.MANY),
        help="outputs for each input (default: 5, or 1 with --sampler or --prompt)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--batch_size", type=arguments.whole(arguments.MANY), default=32
    )
    parser.add_argument(
        "--max_length",
        type=arguments.whole(arguments.MANY),
        default=64,
        help="maximum tokens per output",
    )
    parser.add_argument(
        "--prompt",
        help="prompt for a language model: schema (default), persona, plain (default "
        "with an "
        "adapter of ours), or a file with {text}; chat:NAME or chat:FILE puts it into "
        "the "
        "chat template of the model. With --endpoint: plain (default), schema, or a "
        "file",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16", "int16", "int8"),
        default="float32",
        help="precision of the weights; bfloat16, half of the memory, is also that of "
        "the "
        "computation, in which accelerators are fastest; int8 takes a quarter; float16 "
        "and int16 need --engine ctranslate2, which lacks bfloat16",
    )
    arguments.engine(parser)
    parser.add_argument(
        "--refill",
        choices=("auto", "on", "off"),
        default="auto",
        help="for greedy, sampling, top_k_top_p and bottom_k: reuse finished rows for "
        "the "
        "next inputs (auto: if there are more inputs than rows)",
    )
    parser.add_argument(
        "--option",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="option of the sampler, such as k=2; with --endpoint: temperature, top_p, "
        "max_tokens, per_request, json, concurrent, retries, timeout",
    )
    parser.add_argument(
        "--filter",
        metavar="HOW",
        help="without --sampler and --prompt: strict accounts for every word (default "
        "of "
        "smollm2), light checks numbers, names, negations and questions (default of "
        "other "
        "models), off keeps every output that differs",
    )
    arguments.texts(parser)
    parser.add_argument(
        "--out",
        help="file to write: JSON lines with --sampler or --prompt; else in the format "
        "of "
        "the input, as `jaxaug augment text` does (default: standard output)",
    )
    arguments.shards(parser)


def endpoint(parser: argparse.ArgumentParser) -> None:
    """Adds the server of a model `openai:NAME`, and the limits of its use."""
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="server with the OpenAI chat-completions interface, such as "
        "http://localhost:8000/v1, for a model openai:NAME",
    )
    parser.add_argument(
        "--key_variable",
        metavar="NAME",
        help="environment variable with the key of the endpoint (default: "
        "OPENAI_API_KEY)",
    )
    parser.add_argument(
        "--max_requests",
        type=arguments.whole(arguments.MANY),
        help="send the endpoint at most this many requests; the rest needs another "
        "call",
    )
    parser.add_argument(
        "--prices",
        metavar="IN,OUT",
        help="dollars per million tokens of input and of output, to report the cost",
    )


def of_requests(parser: argparse.ArgumentParser) -> None:
    """Adds `--option` to a verb that has it only for models behind an endpoint."""
    parser.add_argument(
        "--option",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="with --endpoint: temperature, top_p, max_tokens, per_request, json, "
        "concurrent, retries, timeout",
    )


def dry_run(parser: argparse.ArgumentParser) -> None:
    """Adds `--dry_run`."""
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="with --endpoint: print the expected requests, tokens and cost, and stop",
    )
