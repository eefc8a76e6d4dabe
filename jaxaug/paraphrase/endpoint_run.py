"""`jaxaug paraphrase` with a model behind an endpoint."""

import argparse
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import is_same

from jaxaug.core import json_reader, typed
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, shown, write_text
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion
from jaxaug.data import tables
from jaxaug.models.endpoint import server
from jaxaug.paraphrase import endpoint
from jaxaug.paraphrase.endpoint import Writer
from jaxaug.paraphrase.endpoint_grid import Options, Setting
from jaxaug.paraphrase.summary import summary

# Arguments for models of this machine -> value that means "not given".
_LOCAL = {
    "adapter": None, "sampler": None, "batch_size": 32, "max_length": 64,
    "precision": "float32", "refill": "auto", "shard": None, "merge": None,
    "engine": "jax",
}  # fmt: skip
OWN = ("endpoint", "key_variable", "max_requests", "prices", "dry_run")
"""Arguments only for models behind an endpoint."""
_SHOWN = 10  # Maximum line numbers in a message.


def run(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug paraphrase` with a sampler or prompt, locally or by an endpoint."""
    for name in ("model", "out"):
        if getattr(arguments, name) is None:
            raise UserError(
                f"--{name} is missing: a call with --sampler or --prompt needs it. "
                "Leave "
                "both out for filtered paraphrases by smollm2."
            )
    if arguments.filter is not None:
        raise UserError(
            "--filter: outputs of a sampler or prompt are not filtered. Leave "
            "--sampler "
            "and --prompt out, or --filter."
        )
    arguments.num = 1 if arguments.num is None else arguments.num
    if check(arguments, _LOCAL):
        print(_asked(arguments))
        return 0
    # Local models import JAX.
    from jaxaug.paraphrase import run as local

    return local.run(arguments)


def check(
    arguments: argparse.Namespace,
    local: Mapping[str, Any],
    own: Sequence[str] = OWN,
) -> bool:
    """Returns whether the model is behind an endpoint.

    Args:
        arguments: arguments of a verb, with `model`.
        local: arguments for models of this machine -> value that means "not given".
        own: arguments for models behind an endpoint.

    Raises:
        UserError: an argument is given that is for models of the other kind.
    """
    model = arguments.model
    if server.is_endpoint(model):
        for name, default in local.items():
            if getattr(arguments, name) != default:
                raise UserError(
                    f"--{name}: is for models on this machine, not for {model}. Leave "
                    "it "
                    "out; --option sets the parameters of the requests."
                )
        return True
    for name in own:
        if getattr(arguments, name):
            raise UserError(
                f"--{name}: model {model!r} runs on this machine and has none. Leave "
                "it "
                f"out, or name a model {server.PREFIX}NAME."
            )
    return False


def check_plain(arguments: argparse.Namespace) -> None:
    """Refuses arguments that only a call with a sampler or prompt has.

    Raises:
        UserError: such an argument is given.
    """
    names: dict[str, Any] = dict(_LOCAL)
    if not server.is_endpoint(arguments.model or ""):
        names["option"] = []
    for name, default in names.items():
        if getattr(arguments, name) != default:
            raise UserError(
                f"--{name}: needs --sampler or, with an endpoint, --prompt; a plain "
                "call "
                "chooses both itself. Leave it out, or name a --sampler."
            )


def server_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of a setting that describe the server and its options."""
    found: dict[str, Any] = {
        "endpoint": arguments.endpoint,
        "key_variable": arguments.key_variable,
        "max_requests": arguments.max_requests,
        "prices": _prices(arguments.prices),
    }
    if server.is_endpoint(arguments.model or ""):
        found["options"] = _options(arguments.option)
    return found


def _asked(arguments: argparse.Namespace) -> str:
    setting = Setting.of(
        {
            "model": arguments.model,
            "num": arguments.num,
            "prompt": arguments.prompt,
            **server_of(arguments),
        },
        "--option",
    )
    typed.check_seed(arguments.seed, "--seed")
    writer = Writer(setting, arguments.seed)
    if arguments.dry_run:
        return planned(writer, tables.read_texts(arguments.input, arguments.column))
    return paraphrase(
        arguments.input, arguments.out, writer,
        column=arguments.column, seed=arguments.seed,
    )  # fmt: skip


def paraphrase(
    input_path: PathLike,
    out: PathLike,
    writer: Writer,
    *,
    column: str | None = None,
    seed: int = 0,
) -> str:
    """Writes up to `writer.setting.num` paraphrases of each text of a file.

    Args:
        input_path: texts, local or gs://; see `jaxaug.data.tables.read`.
        out: JSON lines to write. A record holds `line` (from 1), `input`, `index`,
            `output`, and the setting. The output of a blank text is the text itself,
            once.
        writer: writer of the outputs.
        column: column of the texts; None is `text`, or the only column.
        seed: seed of the writer, for the records.

    Returns:
        A summary of diversity, similarity, requests, and cost, to be printed.

    Raises:
        UserError: an argument, the input file, or the server is wrong, or `out` is
            another file. Earlier replies are kept.
    """
    setting = writer.setting
    texts = tables.read_texts(input_path, column)
    notes = {
        "model": setting.server.name,
        "endpoint": setting.server.url,
        "prompt": setting.prompt,
        "parameters": setting.options.parameters,
        "num": setting.num,
        "seed": seed,
    }
    target = epath.Path(out).expanduser()
    if is_same(input_path, target):
        raise UserError(f"--out {out}: is the input file. Name another one.")
    check_writable(out)
    _check_there(target, notes)
    distinct = _distinct(texts)
    with progress(
        desc="paraphrase", total=len(distinct), unit="text", last=True
    ) as bar:
        found = dict(zip(distinct, writer(distinct, bar.update), strict=True))
    if not any(found.values()):
        raise endpoint.nothing(setting)
    found |= {text: [text] for text in texts if not text.strip()}
    write_text(out, "".join(_lines(texts, found, notes)))
    kept = [(text, found[text]) for text in texts if text.strip()]
    lines = [summary([t for t, _ in kept], [o for _, o in kept]), writer.spent()]
    lines += _lacking(texts, found, setting.num)
    return "\n".join(lines)


def _lacking(
    texts: Sequence[str], found: Mapping[str, Sequence[str]], num: int
) -> list[str]:
    """Returns a line about the texts with too few outputs, if there are any."""
    few = [
        str(number)
        for number, text in enumerate(texts, 1)
        if text.strip() and len(found[text]) < num
    ]
    if not few:
        return []
    named = ", ".join(few[:_SHOWN]) + (", ..." if len(few) > _SHOWN else "")
    return [
        f"{len(few)} of {len(texts)} inputs have fewer than {num} outputs: line {named}"
    ]


def _lines(
    texts: Sequence[str], found: Mapping[str, Sequence[str]], notes: Mapping[str, Any]
) -> list[str]:
    records = [
        {"line": number, "input": text, "index": index, "output": output, **notes}
        for number, text in enumerate(texts, 1)
        for index, output in enumerate(found[text])
    ]
    return [json.dumps(record, ensure_ascii=False) + "\n" for record in records]


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text.strip()))


def planned(writer: Writer, texts: Sequence[str]) -> str:
    """Returns the text of a dry run: the expected cost of these texts."""
    return "\n".join([counted(texts), *writer.plan(_distinct(texts))])


def counted(texts: Sequence[str]) -> str:
    """Returns the first line of a dry run."""
    return (
        f"a dry run: nothing was asked or written; {len(texts):,} inputs, "
        f"{len(_distinct(texts)):,} distinct"
    )


def _check_there(target: epath.Path, notes: Mapping[str, Any]) -> None:
    """Checks that an existing output file has the same setting."""
    if not target.exists():
        return
    fix = f"Remove {target}, or name another --out."
    with target.open("rb") as file:
        try:
            record = json_reader.decoded(file.readline())
            there = {name: record[name] for name in notes}
        except (ValueError, LookupError, TypeError):
            raise UserError(
                f"{target}: is no output of `jaxaug paraphrase` with an endpoint. {fix}"
            ) from None
    for name, value in notes.items():
        if there[name] != value:
            raise UserError(
                f"{target}: was made with {name} {shown(there[name])}, this run has "
                f"{shown(value)}. {fix}"
            )


def _options(texts: Sequence[str]) -> dict[str, Any]:
    """Returns the options `name=value` of a command line."""
    hints = typing.get_type_hints(Options)
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in hints:
            raise UserError(
                f"--option {text}: write it as NAME=VALUE; {suggestion(name, hints)}"
            )
        found[name] = typed.parsed(value, hints[name])
    return found


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        read, written = map(float, text.split(","))
    except ValueError:
        raise UserError(
            f"--prices {text}: give two numbers, dollars per million tokens of input "
            "and "
            "of output, such as 0.15,0.60."
        ) from None
    return read, written
