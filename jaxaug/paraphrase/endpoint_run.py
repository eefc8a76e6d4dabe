"""`jaxaug paraphrase` with a model behind an endpoint."""

import json
import typing
from collections.abc import Iterable, Mapping, Sequence
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
from jaxaug.paraphrase.arguments import Paraphrase
from jaxaug.paraphrase.endpoint import Writer
from jaxaug.paraphrase.endpoint_grid import Options, Setting
from jaxaug.paraphrase.summary import summary

# Options for models of this machine.
_LOCAL = (
    "adapter", "sampler", "batch_size", "max_length", "precision", "refill", "shard",
    "merge", "engine",
)  # fmt: skip
OWN = ("endpoint", "key_variable", "max_requests", "prices", "dry_run")
"""Arguments only for models behind an endpoint."""
_SHOWN = 10  # Maximum line numbers in a message.


def run(given: Paraphrase) -> int:
    """Runs `jaxaug paraphrase` with a sampler or prompt, locally or by an endpoint."""
    for name in ("model", "out"):
        if getattr(given, name) is None:
            raise UserError(
                f"--{name} is missing: a call with --sampler or --prompt needs it. "
                "Leave both out for filtered paraphrases by smollm2."
            )
    if given.filter is not None:
        raise UserError(
            "--filter: outputs of a sampler or prompt are not filtered. Leave "
            "--sampler and --prompt out, or --filter."
        )
    if check(given, _LOCAL):
        print(_asked(given))
        return 0
    # Local models import JAX.
    from jaxaug.paraphrase import run as local

    return local.run(given)


def check(given: Any, local: Iterable[str], own: Iterable[str] = OWN) -> bool:
    """Returns whether the model is behind an endpoint; refuses the other's options.

    Raises:
        UserError: an option is given that is for models of the other kind.
    """
    model = given.model
    if server.is_endpoint(model):
        for name in given.changed(local):
            raise UserError(
                f"--{name}: is for models on this machine, not for {model}. Leave it "
                "out; --option sets the parameters of the requests."
            )
        return True
    for name in given.changed(own):
        raise UserError(
            f"--{name}: model {model!r} runs on this machine and has none. Leave it "
            f"out, or name a model {server.PREFIX}NAME."
        )
    return False


def check_plain(given: Paraphrase) -> None:
    """Raises `UserError` for options that only a call with a sampler or prompt has."""
    asked = server.is_endpoint(given.model or "")
    for name in given.changed(_LOCAL if asked else (*_LOCAL, "option")):
        raise UserError(
            f"--{name}: needs --sampler or, with an endpoint, --prompt; a plain call "
            "chooses both itself. Leave it out, or name a --sampler."
        )


def server_of(given: Any) -> dict[str, Any]:
    """Returns the fields of a setting that describe the server and its options."""
    found: dict[str, Any] = {
        "endpoint": given.endpoint,
        "key_variable": given.key_variable,
        "max_requests": given.max_requests,
        "prices": _prices(given.prices),
    }
    if server.is_endpoint(given.model or ""):
        found["options"] = _options(given.option or ())
    return found


def _asked(given: Paraphrase) -> str:
    setting = Setting.of(
        {
            "model": given.model,
            "num": given.num or 1,
            "prompt": given.prompt,
            **server_of(given),
        },
        "--option",
    )
    writer = Writer(setting, given.seed)
    if given.dry_run:
        return planned(writer, tables.read_texts(given.input, given.column))
    assert given.out is not None
    return paraphrase(
        given.input, given.out, writer, column=given.column, seed=given.seed
    )


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
        if name in found:
            raise UserError(f"--option {name}: comes twice. Leave one out.")
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
            "and of output, such as 0.15,0.60."
        ) from None
    return read, written
