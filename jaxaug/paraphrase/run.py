"""`jaxaug paraphrase`: outputs of a model for each text of a file."""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import is_same

from jaxaug.core import compiled, parts
from jaxaug.core.buckets import Batch, plan
from jaxaug.core.digests import code_digest, digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable
from jaxaug.core.parts import Part
from jaxaug.core.progress import progress
from jaxaug.data import tables
from jaxaug.models.engine.runner import JAX
from jaxaug.models.text import prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import with_precision
from jaxaug.paraphrase import engine as engines
from jaxaug.paraphrase import literals, samplers, version, word_vectors
from jaxaug.paraphrase.arguments import LONGEST, Paraphrase
from jaxaug.paraphrase.decoder import Decoder, Output
from jaxaug.paraphrase.output import OutputFile
from jaxaug.paraphrase.summary import summary

DEFAULT_PROMPT = "schema"


def run(given: Paraphrase) -> int:
    """Runs the verb with a model on this machine; see also `endpoint_run.run`."""
    if given.sampler is None:
        raise UserError(
            "--sampler is missing: a model on this machine needs one, such as "
            "--sampler top_k_top_p."
        )
    if given.engine == JAX:
        compiled.keep_programs()
    assert given.model is not None  # See `endpoint_run.run`.
    model = registry.with_adapter(given.model, given.adapter)
    options = samplers.parse(given.sampler, given.option)
    part = None if given.shard is None else parts.parse(given.shard)
    print(write(dataclasses.replace(given, model=model), options, part))
    return 0


def paraphrase(
    input_path: PathLike,
    out: PathLike,
    *,
    options: Mapping[str, Any] | None = None,
    part: Part | None = None,
    **settings: Any,
) -> str:
    """Calls `write` with further fields of `Paraphrase` by name."""
    given = Paraphrase(input=input_path, out=out, **settings)
    return write(given, options or {}, part)


def write(given: Paraphrase, options: Mapping[str, Any], part: Part | None) -> str:
    """Writes outputs for each text of a file; resumes an interrupted run.

    The bytes of the file depend neither on the batch size nor on interruptions. The
    outputs of a text without words are the text itself. Of a text of several lines only
    the longest line changes. An output that lost a literal (see
    `jaxaug.paraphrase.literals`) is replaced by the text; its log probability is 0.

    Args:
        given: options of the verb, with `model`, `sampler`, and `out`.
        part: computes the batches of one of N machines, into `<out>.parts`.

    Returns:
        A summary of diversity and similarity, to be printed.

    Raises:
        UserError: an argument, the input file, or the content of the output file is
            wrong.
    """
    input_path, out, model, sampler = given.input, given.out, given.model, given.sampler
    assert out is not None and model is not None and sampler is not None
    num, max_length, seed = given.num or 1, given.max_length, given.seed
    prompt, precision, engine = given.prompt, given.precision, given.engine
    merge = given.merge
    inputs = tables.read_texts(input_path, given.column)
    chosen = samplers.find(sampler)
    all_options = chosen.complete(options)
    decode_fn = chosen.build(num, all_options)
    if given.refill == "on" and samplers.chain(decode_fn, 0) is None:
        raise UserError(
            f"--refill on: sampler {sampler!r} searches, its rows end together. Leave "
            "--refill out, or take a sampler that draws."
        )
    search = None
    if engine != JAX:
        engines.check_precision(precision)
        search = engines.search(sampler, all_options, num=num, max_length=max_length)
    # Check now what would otherwise fail after minutes of work.
    if prompt is not None:
        prompts.find(prompt)
    if part is not None and merge is not None:
        raise UserError("--shard and --merge: first all shards, then --merge alone.")
    folder = parts.folder_of(out)
    target = out if part is None else folder / f"{part.name}.jsonl"
    if is_same(input_path, target):
        raise UserError(f"--out {target}: is the input file. Name another one.")
    check_writable(target)
    loaded = registry.load(model)
    if prompt is not None and not isinstance(loaded, LanguageModel):
        raise UserError(
            f"--prompt {prompt}: model {model!r} takes no prompt; it reads the line "
            "itself. Leave --prompt out."
        )
    # The settings identify the model by its weights; its name is only a note.
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
    if engine != JAX:
        settings["engine"] = [engine, code_digest("jaxaug.models.engine")]
    embeddings = None
    if all_options.get("embeddings"):
        named = str(all_options["embeddings"])
        embeddings, digest = word_vectors.table(named, loaded)
        settings["options"] = all_options | {"embeddings": digest}
    if engine == JAX:
        loaded = with_precision(loaded, precision)
    if isinstance(loaded, LanguageModel):
        if prompt is None and loaded.trained_prompt:
            settings["prompt"] = "\0".join(loaded.prompt)
        else:
            prompt = prompt or DEFAULT_PROMPT
            loaded = loaded.prompted(prompt)
            settings["prompt"] = _prompt_label(prompt)
    asked = [_asked(text) for text in inputs]
    batches = _batches(loaded, asked, given.batch_size)
    # Other batches are other parts, and may be rounded differently.
    shape = [list(batch.indices) for batch in batches]
    work = {"inputs": digest_of(inputs), "batches": digest_of(shape), **settings}
    blank = [i for i, text in enumerate(asked) if not text]
    with OutputFile(target, inputs, settings, num, notes) as file:
        if part is None and blank:
            file.add({i: [Output(inputs[i], 0.0)] * num for i in blank})
        if merge is not None:
            for where, one, names in parts.complete(merge or [folder], work):
                file.take(where / name for name in names)
                own = [b.indices for i, b in enumerate(batches) if one.owns(i)]
                _check_whole(file, where, one, own)
        else:
            owned = [b for i, b in enumerate(batches) if part is None or part.owns(i)]
            decoder: Decoder | engines.EngineDecoder
            if search is None:
                decoder = Decoder(
                    loaded, decode_fn, num=num, max_length=max_length, seed=seed,
                    embeddings=embeddings,
                )  # fmt: skip
            else:
                decoder = engines.EngineDecoder(
                    loaded, search, precision=precision, seed=seed,
                    batch_size=given.batch_size,
                )  # fmt: skip
            _complete(file, inputs, asked, loaded, decoder, owned, given.refill)
        if part is None:
            file.finish()
        else:
            kept = file.keep()
    if part is not None:
        parts.finish(folder, part, work, [kept.name])
        return f"part {part.number} of {part.count} is complete: {kept}"
    found = zip(inputs, file.outputs(), strict=True)
    kept = [(text, outputs) for text, outputs in found if text.strip()]
    return summary([text for text, _ in kept], [outputs for _, outputs in kept])


def _asked(text: str) -> str:
    """Returns the input of the model for a text; empty if the text has no word."""
    piece = literals.framed(text).longest
    return piece.masked if piece else ""


def _whole(text: str, outputs: Sequence[Output]) -> list[Output]:
    """Returns the outputs of a text from the outputs of `_asked`."""
    framed = literals.framed(text)
    assert framed.longest is not None
    place = framed.pieces.index(framed.longest)
    found = []
    for one in outputs:
        new = framed.longest.restored(one.text)
        found.append(
            Output(text, 0.0)
            if new is None
            else one._replace(text=framed.filled({place: new}))
        )
    return found


def _prompt_label(name: str) -> str:
    """Returns the name of a prompt, with a hash of the content of its file."""
    if name in prompts.PROMPTS:
        return name
    found = prompts.find(name)
    text = "\0".join(found.message if isinstance(found, prompts.Chat) else found)
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
    """Returns the batches of all inputs but blank ones, the same on all machines."""
    places = [place for place, text in enumerate(inputs) if text.strip()]
    sizes = [len(model.encode(inputs[place])) for place in places]
    for place, size in zip(places, sizes, strict=True):
        if size > LONGEST:
            raise UserError(
                f"line {place + 1} of the input has {size} tokens; at most {LONGEST} "
                "are allowed. Divide it into sentences, one per line."
            )
    return [
        batch._replace(indices=tuple(places[i] for i in batch.indices))
        for batch in plan(sizes, batch_size, model.shared)
    ]


def _complete(
    file: OutputFile,
    inputs: list[str],
    asked: list[str],
    model: registry.TextModel | LanguageModel,
    decoder: Decoder | engines.EngineDecoder,
    batches: Sequence[Batch],
    refill: str,
) -> None:
    """Computes the outputs that the file lacks."""
    tokens = functools.cache(lambda index: model.encode(asked[index]))
    indices = [index for batch in batches for index in batch.indices]
    total, done = len(indices), sum(index in file for index in indices)

    def outputs() -> Iterator[dict[int, list[Output]]]:
        for length, group in itertools.groupby(batches, lambda batch: batch.length):
            alike = list(group)
            lacking = [i for b in alike for i in b.indices if i not in file]
            rows = alike[0].rows
            enough = refill == "on" or (refill == "auto" and len(lacking) > rows)
            if (
                lacking
                and enough
                and isinstance(decoder, Decoder)
                and decoder.can_stream
            ):
                yield from decoder.stream(
                    [(i, tokens(i)) for i in lacking], length, rows
                )
                continue
            # Batches are the same at a restart, so an input is always computed with the
            # same neighbors. Complete batches are skipped.
            for batch in alike:
                if any(index not in file for index in batch.indices):
                    yield decoder.batch({i: tokens(i) for i in batch.indices}, batch)

    with progress(
        desc="paraphrase", total=total, initial=done, unit="line", last=True
    ) as bar:
        for found in outputs():
            done = len(file)
            file.add({i: _whole(inputs[i], own) for i, own in found.items()})
            bar.update(len(file) - done)
