"""`jaxaug <verb>`: the command line.

Parsing imports nothing heavy. Each verb names the function that does the work as
`module:function`; it is imported only when the verb runs, takes the parsed
arguments and returns the exit status.
"""

import argparse
import importlib
import os
import select
import sys
from collections.abc import Sequence

from jaxaug.augment import arguments as augment
from jaxaug.core import completion
from jaxaug.core.errors import UserError
from jaxaug.core.installed import ShowVersions
from jaxaug.data import arguments as data
from jaxaug.launch import arguments as launch
from jaxaug.look import arguments as look
from jaxaug.serve import arguments as serve

_SIGPIPE = 128 + 13  # as a shell reports a program that this signal has ended
_SPLITS = ("train", "dev", "test")


def _data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data_dir",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )


def _split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split", choices=_SPLITS, required=True)


def _verb(
    group: argparse._SubParsersAction, name: str, target: str, text: str
) -> argparse.ArgumentParser:
    parser = group.add_parser(name, help=text, description=text)
    parser.set_defaults(target=target)
    return parser


def _add_data(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser("data", help="fetch, describe and rewrite data folders")
    group = parser.add_subparsers(metavar="COMMAND", required=True)
    fetch = _verb(
        group, "fetch", "jaxaug.data.fetch:run", "download a data set with a checksum"
    )
    fetch.add_argument("name", help="sgd, personachat, fewshot, ...")
    fetch.add_argument("--out", help="target folder (default: ./data/<name>)")
    describe = _verb(
        group,
        "describe",
        "jaxaug.data.describe:run",
        "counts per split and service, seen and unseen",
    )
    _data_dir(describe)
    data.add_check(group)
    data.add_show(group)
    variants = _verb(
        group,
        "variants",
        "jaxaug.data.variants:run",
        "write dialogues renamed to a schema variant",
    )
    _data_dir(variants)
    _split(variants)
    variants.add_argument("--variant", required=True, help="v1..v5")
    variants.add_argument("--out", required=True, help="folder to write")
    invent = _verb(
        group,
        "invent",
        "jaxaug.train.invented:run",
        "write invented services, dialogues and exercises with a vocabulary of pieces: "
        "what configs/pretrain_mini.gin trains on",
    )
    invent.add_argument("--out", required=True, help="folder to write")
    for name, count, text in (
        ("services", 12_000, "invented services of the train split"),
        ("dialogues", 50_000, "their dialogues"),
        ("exercises", 300_000, "lines of exercises.tsv"),
        ("pieces", 3072, "size of the vocabulary"),
        ("seed", 0, "another seed gives another world"),
    ):
        invent.add_argument(
            f"--{name}", type=int, default=count, help=f"{text} (default: {count})"
        )
    cache = _verb(
        group,
        "cache",
        "jaxaug.feed.offline:run",
        "write tokenised tasks as `seqio_cache_tasks` does, without Apache Beam; read "
        "them with --gin.USE_CACHED_TASKS=True --seqio_additional_cache_dirs=DIR",
    )
    _data_dir(cache)
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
    cache.add_argument(
        "--vocabulary", help="as $JAXAUG_VOCABULARY, which is the default"
    )
    cache.add_argument("--out", required=True, help="folder to write, local or gs://")


def _add_format(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser("format", help="dialogues to text-to-text examples")
    group = parser.add_subparsers(metavar="FORMAT", required=True)
    d3st = _verb(group, "d3st", "jaxaug.feed.export:run_d3st", "D3ST examples")
    d3st.add_argument("--categorical", choices=("1a", "a", "none"), default="1a")
    d3st.add_argument("--level", choices=("dst", "dst_intent"), default="dst_intent")
    d3st.add_argument("--delimiter", default="=")
    t5dst = _verb(group, "t5dst", "jaxaug.feed.export:run_t5dst", "T5DST examples")
    for verb in (d3st, t5dst):
        _data_dir(verb)
        _split(verb)
        verb.add_argument("--variant", help="v1..v5 (default: the original schema)")
        verb.add_argument("--order", choices=("schema", "shuffled"), default="schema")
        verb.add_argument(
            "--lowercase", action=argparse.BooleanOptionalAction, default=True
        )
        verb.add_argument("--seed", type=int, default=0, help="of the shuffled order")
        verb.add_argument("--epoch", type=int, default=0, help="of the shuffled order")
        verb.add_argument("--workers", type=int, default=0, help="0: one per core")
        verb.add_argument("--out", required=True, help="TSV file to write")


def _add_evaluate(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "evaluate", help="score predictions as the benchmarks define it"
    )
    group = parser.add_subparsers(metavar="BENCHMARK", required=True)
    sgd = _verb(
        group, "sgd", "jaxaug.metrics.evaluate:run_sgd", "SGD metrics (DSTC8 format)"
    )
    sgd.add_argument("--variant", help="v1..v5 (default: the original schema)")
    sgdx = _verb(
        group,
        "sgdx",
        "jaxaug.metrics.evaluate:run_sgdx",
        "SGD-X: JGA per variant and schema sensitivity",
    )
    for verb in (sgd, sgdx):
        _data_dir(verb)
        _split(verb)
        verb.add_argument("--predictions", required=True, help="folder of predictions")
        verb.add_argument(
            "--exact", action="store_true", help="exact instead of fuzzy value match"
        )
        verb.add_argument(
            "--joint_across_turn",
            action="store_true",
            help="joint accuracy over all frames of a turn",
        )
        verb.add_argument("--output", required=True, help="JSON file to write")


def _add_predict(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
        verbs,
        "predict",
        "jaxaug.track.run:run",
        "the states of dialogues, by a trained tracker; the same command goes on after "
        "a stop",
    )
    parser.add_argument(
        "--run", required=True, help="folder of a training run, or a checkpoint in it"
    )
    parser.add_argument(
        "--schema",
        help="schema.json with the services (default: those of the data folder)",
    )
    parser.add_argument(
        "--services",
        nargs="+",
        metavar="NAME",
        help="ask about these only (default: what a turn or its dialogue lists, else all)",
    )
    parser.add_argument(
        "--in",
        dest="input",
        default="-",
        help="dialogues in the layout of SGD (.json, .jsonl), or lines of USER: and "
        "SYSTEM: (default: standard input)",
    )
    parser.add_argument(
        "--out",
        help="JSON lines to write (.jsonl), or a folder for `jaxaug evaluate sgd` "
        "(default: print JSON lines)",
    )
    parser.add_argument("--batch_size", type=int, default=32)


def _shards(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        metavar="K/N",
        help="do the K-th of N parts (K from 1) into OUT.parts, on N machines",
    )
    parser.add_argument(
        "--merge",
        nargs="*",
        metavar="DIR",
        help="make OUT of all N parts in these folders (default: OUT.parts)",
    )


def _add_paraphrase(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
        verbs,
        "paraphrase",
        "jaxaug.paraphrase.run:run",
        "paraphrase each line of a text file; the same command goes on after a stop",
    )
    parser.add_argument(
        "--model",
        required=True,
        help="random-tiny, minisgd, a name of `jaxaug models list`, or the folder of "
        "a T5X run or of a published model",
    )
    parser.add_argument(
        "--adapter",
        help="LoRA adapter of the model: a folder of peft, or a run with "
        "configs/runs/lora.gin",
    )
    parser.add_argument(
        "--sampler",
        required=True,
        help="greedy, sampling, top_k_top_p, bottom_k, beam, diverse_beam, dips, dpp, "
        "ssr",
    )
    parser.add_argument("--num", type=int, default=1, help="outputs of each input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument(
        "--max_length", type=int, default=64, help="tokens of an output"
    )
    parser.add_argument(
        "--prompt",
        help="of a language model: schema (default), persona, plain (default with an "
        "adapter of ours), or a file with {text}",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "int8"),
        default="float32",
        help="of the weights; int8 takes a quarter of the memory",
    )
    parser.add_argument(
        "--refill",
        choices=("auto", "on", "off"),
        default="auto",
        help="of samplers that draw: give a row that has ended to the next input at once "
        "(auto: where there are more inputs than rows)",
    )
    parser.add_argument(
        "--option",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="of the sampler, such as k=2",
    )
    parser.add_argument(
        "--in", dest="input", required=True, help="UTF-8 text, one input a line"
    )
    parser.add_argument("--out", required=True, help="JSON lines to write")
    _shards(parser)


def _add_augment(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
        verbs,
        "augment",
        "jaxaug.augment.run:run",
        "schema -> ranked paraphrases -> variant folders; the same command goes on "
        "after a stop",
    )
    _data_dir(parser)
    parser.add_argument(
        "--config",
        help="a file of configs/augment, a Python program that is run: take it from "
        "nobody whom you do not trust; FILE.py:TEXT hands TEXT to its get_config",
    )
    parser.add_argument("--out", help="variants folder to write")
    parser.add_argument(
        "--splits",
        metavar="NAMES",
        help="whose schemas are augmented, such as train,test: variants of dev and test "
        "are what a tracker is evaluated on (default: as the config says, mostly train)",
    )
    _shards(parser)
    group = parser.add_subparsers(metavar="COMMAND")
    explain = _verb(
        group,
        "explain",
        "jaxaug.augment.run:run_explain",
        "the tree of one description of a finished run",
    )
    explain.add_argument("id", metavar="ID", help="such as train/3/slot/5")
    explain.add_argument("--out", required=True, help="folder of the run")
    explain.add_argument("--image", help=".svg or .png to write")
    augment.add_text(group)
    augment.add_dialogues(group)


def _add_fewshot(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
        verbs,
        "fewshot",
        "jaxaug.train.fewshot:run",
        "few-shot text classification: every method of a table, for several seeds",
    )
    parser.add_argument(
        "--config",
        required=True,
        help="a file of configs/fewshot, a Python program that is run: take it from "
        "nobody whom you do not trust; FILE.py:TEXT hands TEXT to its get_config",
    )
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
        "--texts", help="write the few-shot sentences there, one a line, and stop"
    )


def _add_levels(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
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


def _add_models(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser("models", help="list and fetch named models")
    group = parser.add_subparsers(metavar="COMMAND", required=True)
    _verb(
        group,
        "list",
        "jaxaug.models.named.catalogue:run_list",
        "named models: which are on disk, which need the network, how to get each",
    )
    fetch = _verb(
        group,
        "fetch",
        "jaxaug.models.named.catalogue:run_fetch",
        "download named models into the cache",
    )
    fetch.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="a name of the list, or hf:OWNER/NAME of the Hugging Face hub",
    )


def _add_convert(verbs: argparse._SubParsersAction) -> None:
    parser = _verb(
        verbs,
        "convert",
        "jaxaug.models.convert:run",
        "a model from one form into another: Hugging Face, T5X, GGUF",
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        help="published folder, T5X run or checkpoint, .gguf file, name of `jaxaug "
        "models list`, or hf:OWNER/NAME of the Hugging Face hub",
    )
    parser.add_argument(
        "--to",
        dest="destination",
        required=True,
        help="new folder; checkpoint_N for T5X",
    )
    parser.add_argument(
        "--format",
        choices=("hf", "t5x", "t5x_legacy", "peft"),
        help="what to write (default: t5x for checkpoint_N, else hf); peft writes the "
        "adapter of a run with configs/runs/lora.gin, as bfloat16",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--merge-lora",
        metavar="ADAPTER",
        help="put a LoRA adapter into the weights: a folder of peft, or such a run",
    )
    group.add_argument(
        "--unmerge-lora",
        metavar="ADAPTER",
        help="take it out of weights that it was put into, up to rounding",
    )
    parser.add_argument(
        "--like", help="published folder with the configuration and tokenizer to use"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="round parameters to it (default: as they are)",
    )
    parser.add_argument("--data", help="model card: the training data")
    parser.add_argument("--licence", help="model card: the licence")
    parser.add_argument("--metrics", help="model card: JSON file of names and values")
    parser.add_argument("--seed", type=int, help="model card: the seed of the training")


def build_parser() -> argparse.ArgumentParser:
    """The parser of every verb; importing this module stays cheap."""
    parser = argparse.ArgumentParser(
        prog="jaxaug", description="Schema augmentation for dialogue state tracking."
    )
    parser.add_argument(
        "--version",
        action=ShowVersions,
        help="show the versions of jaxaug, its runtime, JAX and Python",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    doctor = _verb(
        verbs,
        "doctor",
        "jaxaug.doctor:run",
        "versions, devices, data found, what is missing and the fix for each",
    )
    _data_dir(doctor)
    data.add_init(verbs)
    _add_data(verbs)
    _add_format(verbs)
    _add_evaluate(verbs)
    _add_predict(verbs)
    serve.add(verbs)
    _add_paraphrase(verbs)
    _add_levels(verbs)
    _add_fewshot(verbs)
    _add_models(verbs)
    _add_convert(verbs)
    _add_augment(verbs)
    launch.add(verbs)
    report = _verb(
        verbs, "report", "jaxaug.metrics.report_verb:run", "compare finished runs"
    )
    report.add_argument("runs", nargs="+", metavar="RUN", help="model folders")
    report.add_argument(
        "--html", help="page to write: tables, intervals and plots in one file"
    )
    report.add_argument(
        "--csv", help="CSV file to write; differences go to NAME.differences.csv"
    )
    report.add_argument("--png", help="PNG file to write")
    report.add_argument(
        "--resamples",
        type=int,
        default=10_000,
        metavar="N",
        help="of the bootstrap behind the intervals (default: 10000)",
    )
    look.add_errors(verbs)
    look.add_tasks(verbs)
    completion.add(verbs, parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit status.

    A `UserError` or an operating-system error (a missing file, a full disk) ends
    in one line on stderr and status 1. A reader that has seen enough (`| head`) ends it
    silently, with status 141.
    """
    arguments = build_parser().parse_args(argv)
    module, function = arguments.target.split(":")
    try:
        status = getattr(importlib.import_module(module), function)(arguments) or 0
        sys.stdout.flush()
        return status
    except (UserError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return _SIGPIPE
        print(f"jaxaug: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("jaxaug: interrupted", file=sys.stderr)
        return 130


def _nobody_reads() -> bool:
    """Whether standard output is a pipe that was closed; if so, it is left to itself."""
    try:
        output = sys.stdout.fileno()
    except OSError:  # It is no file.
        return False
    poll = select.poll()
    poll.register(output, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    # What is still buffered would be tried again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


if __name__ == "__main__":
    sys.exit(main())
