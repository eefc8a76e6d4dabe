"""`jaxaug paraphrase`: outputs of a model for each line of a text file."""

import argparse
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.core import parts, typed
from jaxaug.core.buckets import Batch, plan
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, read_text
from jaxaug.core.parts import Part
from jaxaug.core.paths import is_same
from jaxaug.core.progress import progress
from jaxaug.metrics import diversity
from jaxaug.models.text import prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.precision import with_precision
from jaxaug.paraphrase import samplers, version, word_vectors
from jaxaug.paraphrase.decoder import Decoder, Output
from jaxaug.paraphrase.output import OutputFile
from jaxaug.paraphrase.summary import summary

DEFAULT_PROMPT = "schema"
REFILL = ("auto", "on", "off")
_INPUT_FIX = "Name a UTF-8 text file with one input a line with --in."


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug paraphrase --help`."""
    text = paraphrase(
        arguments.input,
        arguments.out,
        model=registry.with_adapter(arguments.model, arguments.adapter),
        sampler=arguments.sampler,
        options=samplers.parse(arguments.sampler, arguments.option),
        num=arguments.num,
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        max_length=arguments.max_length,
        prompt=arguments.prompt,
        part=None if arguments.shard is None else parts.parse(arguments.shard),
        merge=arguments.merge,
        refill=arguments.refill,
        precision=arguments.precision,
    )
    print(text)
    return 0


def paraphrase(
    input_path: PathLike,
    out: PathLike,
    *,
    model: str,
    sampler: str,
    options: Mapping[str, Any] | None = None,
    num: int = 1,
    seed: int = 0,
    batch_size: int = 32,
    max_length: int = 64,
    prompt: str | None = None,
    part: Part | None = None,
    merge: Sequence[PathLike] | None = None,
    refill: str = "auto",
    precision: str = "float32",
) -> str:
    """Writes `num` outputs for each line of a file; goes on where a run has stopped.

    The bytes of the file depend neither on the batch size nor on stops.

    Args:
      input_path: text file with one input a line, local or gs://.
      out: JSON lines to write; see `jaxaug.paraphrase.output`.
      model: see `jaxaug.models.text.registry.load`.
      sampler: a name of `samplers.SAMPLERS`.
      options: of the sampler; the others have their default.
      num: outputs of each input.
      seed: of everything that is random.
      batch_size: inputs that are decoded together.
      max_length: tokens of an output at most, EOS included.
      prompt: of a language model: a name of `prompts.PROMPTS` or a file with `{text}`
        in it; by default that of its adapter, else "schema".
      part: does the batches of one of N machines, into `<out>.parts`.
      merge: folders with all N parts, which make the file; empty is `<out>.parts`.
      refill: whether a row that has ended is given to the next input at once: "on",
        "off", or "auto", where a sampler draws and there are more inputs than rows.
      precision: of the weights, see `jaxaug.models.text.precision`.

    Returns:
      A summary of diversity and similarity, to be printed.

    Raises:
      UserError: an argument, the input file or what the output file holds is wrong, or
        sacrebleu is not installed.
    """
    _check_numbers(num, batch_size, max_length, seed)
    inputs = read_lines(input_path)
    chosen = samplers.find(sampler)
    all_options = chosen.complete(options or {})
    decode_fn = chosen.build(num, all_options)
    _check_refill(refill, sampler, decode_fn)
    # What would fail after minutes of work fails now.
    if prompt is not None:
        prompts.find(prompt)
    if part is not None and merge is not None:
        raise UserError("--shard and --merge: first all shards, then --merge alone.")
    folder = parts.folder_of(out)
    target = out if part is None else folder / f"{part.name}.jsonl"
    if is_same(input_path, target):
        raise UserError(f"--out {target}: is the input file. Name another one.")
    check_writable(target)
    diversity.load_sacrebleu()
    loaded = registry.load(model)
    if prompt is not None and not isinstance(loaded, LanguageModel):
        raise UserError(
            f"--prompt {prompt}: model {model!r} takes none, it reads the line itself. "
            "Leave --prompt out."
        )
    # What counts is which model it is, not what it is called.
    notes = {"model": loaded.label}
    settings = {
        "weights": loaded.identity,
        "precision": precision,
        "sampler": sampler,
        "options": all_options,
        "num": num,
        "max_length": max_length,
        "seed": seed,
        "code": version.of_outputs() + chosen.code,
    }
    embeddings = None
    if all_options.get("embeddings"):
        named = str(all_options["embeddings"])
        embeddings, digest = word_vectors.table(named, loaded)
        settings["options"] = all_options | {"embeddings": digest}
    loaded = with_precision(loaded, precision)
    if isinstance(loaded, LanguageModel):
        if prompt is None and loaded.trained_prompt:
            settings["prompt"] = "\0".join(loaded.prompt)
        else:
            prompt = prompt or DEFAULT_PROMPT
            loaded = loaded.prompted(prompt)
            settings["prompt"] = _prompt_label(prompt)
    batches = _batches(loaded, inputs, batch_size)
    # Other batches are other parts, and may be rounded otherwise.
    shape = [list(batch.indices) for batch in batches]
    work = {"inputs": digest_of(inputs), "batches": digest_of(shape), **settings}
    with OutputFile(target, inputs, settings, num, notes) as file:
        if merge is not None:
            for where, one, names in parts.complete(merge or [folder], work):
                file.take(where / name for name in names)
                own = [b.indices for i, b in enumerate(batches) if one.owns(i)]
                _check_whole(file, where, one, own)
        else:
            owned = [b for i, b in enumerate(batches) if part is None or part.owns(i)]
            _complete(
                file, inputs, loaded, decode_fn, owned,
                refill=refill, num=num, max_length=max_length, seed=seed,
                embeddings=embeddings,
            )  # fmt: skip
        if part is None:
            file.finish()
        else:
            kept = file.keep()
    if part is not None:
        parts.finish(folder, part, work, [kept.name])
        return f"part {part.number} of {part.count} is complete: {kept}"
    return summary(inputs, file.outputs())


def _check_numbers(num: int, batch_size: int, max_length: int, seed: int) -> None:
    for name, value in (
        ("num", num),
        ("batch_size", batch_size),
        ("max_length", max_length),
    ):
        if value < 1:
            raise UserError(f"--{name} is {value}: give at least 1.")
    if max_length > samplers.LONGEST:
        raise UserError(
            f"--max_length is {max_length}: give {samplers.LONGEST} at most."
        )
    typed.check_seed(seed, "--seed")


def _check_refill(refill: str, sampler: str, decode_fn: Callable[..., Any]) -> None:
    if refill not in REFILL:
        raise UserError(f"--refill is {refill!r}: give one of {', '.join(REFILL)}.")
    if refill == "on" and samplers.chain(decode_fn, 0) is None:
        raise UserError(
            f"--refill on: sampler {sampler!r} searches, its rows end together. Leave "
            "--refill out, or take a sampler that draws."
        )


def read_lines(path: PathLike) -> list[str]:
    """The lines of a text file, without their ends.

    Raises:
      UserError: no such file, it is empty or not UTF-8, or a line is blank.
    """
    text = read_text(path, _INPUT_FIX)
    # Not splitlines, which also splits at characters that belong to a text.
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if not text.strip():
        raise UserError(f"{path}: holds no text. {_INPUT_FIX}")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise UserError(f"{path}: line {number} is blank. Remove it.")
    return lines


def _prompt_label(name: str) -> str:
    """Name of a prompt, with a hash of what a file holds: it may change under a run."""
    if name in prompts.PROMPTS:
        return name
    text = "\0".join(prompts.find(name))
    return f"{name} {hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def _check_whole(
    file: OutputFile, folder: epath.Path, part: Part, batches: Iterable[Sequence[int]]
) -> None:
    missing = sum(index not in file for batch in batches for index in batch)
    if missing:
        raise UserError(
            f"{folder}: {missing} inputs of part {part.number} of {part.count} are "
            "missing. Copy the folder whole, or run the part again."
        )


def _batches(
    model: registry.TextModel | LanguageModel, inputs: list[str], batch_size: int
) -> list[Batch]:
    """The batches of all inputs, the same at every restart and on all machines."""
    shared = model.shared if isinstance(model, LanguageModel) else 0
    sizes = [len(model.encode(text)) for text in inputs]
    for number, size in enumerate(sizes, 1):
        if size > samplers.LONGEST:
            raise UserError(
                f"line {number} of the input has {size} tokens, {samplers.LONGEST} are "
                "the most. Divide it into sentences, one a line."
            )
    return list(plan(sizes, batch_size, shared))


def _complete(
    file: OutputFile,
    inputs: list[str],
    model: registry.TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    batches: Sequence[Batch],
    *,
    refill: str,
    **settings: Any,
) -> None:
    """Computes what the file lacks."""
    decoder = Decoder(model, decode_fn, **settings)
    tokens = functools.cache(lambda index: model.encode(inputs[index]))
    total, done = sum(len(batch.indices) for batch in batches), len(file)

    def outputs() -> Iterator[dict[int, list[Output]]]:
        for length, group in itertools.groupby(batches, lambda batch: batch.length):
            alike = list(group)
            lacking = [i for b in alike for i in b.indices if i not in file]
            rows = alike[0].rows
            enough = refill == "on" or (refill == "auto" and len(lacking) > rows)
            if lacking and enough and decoder.can_stream:
                yield from decoder.stream(
                    [(i, tokens(i)) for i in lacking], length, rows
                )
                continue
            # Batches are the same at a restart, so that a batch is computed in the same
            # company again; those that are complete are left out.
            for batch in alike:
                if any(index not in file for index in batch.indices):
                    found = decoder([tokens(i) for i in batch.indices], batch)
                    yield dict(zip(batch.indices, found, strict=True))

    with progress(
        desc="paraphrase", total=total, initial=done, unit="line", last=True
    ) as bar:
        for found in outputs():
            done = len(file)
            file.add(found)
            bar.update(len(file) - done)
