"""`jaxaug augment text`: other wordings of any text, by a chain of schemes."""

import inspect
import sys
import typing
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from jaxaug.augment.arguments import Text
from jaxaug.augment.schemes import registry, sentences
from jaxaug.augment.schemes.sentences import MODEL_SCHEMES
from jaxaug.core import cache_folder, extensions, typed
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import write_text
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import spaced
from jaxaug.data import tables
from jaxaug.models.endpoint.server import is_endpoint
from jaxaug.paraphrase import endpoint_grid
from jaxaug.paraphrase.arguments import Paraphrase

PARAPHRASE, CONTEXTUAL = "paraphrase", "contextual"
_OWN = ("seed", "num", "batch_size")  # Options that the verb itself has.
_OF_SETTING = ("prompt", "max_length")  # Options of a paraphraser itself.
_OF_ENDPOINT = ("endpoint", "prompt", "key_variable", "max_requests", "prices")

Outputs = list[list[str]]


class Step(NamedTuple):
    """One scheme of a chain, with its options.

    Attributes:
        name: a method on sentences, or a name of `MODEL_SCHEMES`.
        options: all options except those at their default.
    """

    name: str
    options: Mapping[str, Any]

    @property
    def method(self) -> Callable[..., str] | None:
        """The method on sentences; None for a scheme with a model."""
        return None if self.name in MODEL_SCHEMES else sentences.METHODS[self.name]

    def job(self, seed: int, num: int) -> registry.Job:
        """Returns the job of a scheme with a model: `num` outputs of each text."""
        if self.name != PARAPHRASE:
            return registry.made(self.name, seed, {**self.options, "num": num})[0]
        options = {**self.options, "num": num}
        return registry.made(PARAPHRASE, seed, {"grid": [options]})[0]


def steps(
    names: Sequence[str],
    options: Sequence[str] = (),
    model: str | None = None,
    sampler: str | None = None,
) -> list[Step]:
    """Returns the steps of a chain.

    Args:
        options: `name=value`, or `scheme.name=value` if several schemes have the
            option.
        model: model of the scheme paraphrase, else of contextual.

    Raises:
        UserError: a scheme or an option is unknown, several schemes have an option, a
            value has the wrong type, or a model or sampler is superfluous or missing.
    """
    known = [*sentences.METHODS, *MODEL_SCHEMES]
    for name in names:
        if name not in known:
            raise UserError(
                f"--scheme {name}: no such scheme; {suggestion(name, known)}"
            )
        if names.count(name) > 1:
            raise UserError(f"--scheme: {name!r} comes twice. Name it once.")
    asked = PARAPHRASE in names and is_endpoint(model)
    if asked and sampler:
        raise UserError(
            f"--sampler {sampler}: {model} has the sampler of its server. Leave it out."
        )
    if PARAPHRASE in names and not (model and (sampler or asked)):
        raise UserError(
            "--scheme paraphrase: --model and --sampler are missing, such as --model "
            "smollm2 --sampler top_k_top_p."
        )
    if sampler and PARAPHRASE not in names:
        raise UserError(f"--sampler {sampler}: only paraphrase has one. Leave it out.")
    taking = next((name for name in (PARAPHRASE, CONTEXTUAL) if name in names), None)
    if model and taking is None:
        raise UserError(
            f"--model {model}: only paraphrase and contextual have one. Leave it out."
        )
    hints = {name: _hints(name, sampler, asked) for name in names}
    given = _given(options, hints)
    if model:
        given[taking or ""]["model"] = model
    return [_step(name, given[name], sampler) for name in names]


def _hints(name: str, sampler: str | None, asked: bool) -> dict[str, Any]:
    """Returns name -> annotation of a scheme's options; `asked` means an endpoint."""
    if name == PARAPHRASE and asked:
        own = typing.get_type_hints(endpoint_grid.Block)
        own = {name: own[name] for name in _OF_ENDPOINT}
        return typing.get_type_hints(endpoint_grid.Options) | own
    if name == PARAPHRASE:
        # Imported here, as models import JAX.
        from jaxaug.paraphrase import generation, samplers

        own = typing.get_type_hints(generation.Setting)
        hints = samplers.find(str(sampler)).hints
        return {**hints, **{name: own[name] for name in _OF_SETTING}}
    is_model = name in MODEL_SCHEMES
    function: Callable[..., Any] = (
        registry.candidates_of(name) if is_model else sentences.METHODS[name]
    )
    found = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    return {
        one.name: found.get(one.name, Any)
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and one.name not in _OWN
    }


def _given(
    options: Sequence[str], hints: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns scheme -> its options."""
    found: dict[str, dict[str, Any]] = {name: {} for name in hints}
    for option in options:
        left, equals, text = option.partition("=")
        scheme, dot, name = left.partition(".")
        if not equals:
            raise UserError(f"--option {option}: write it as name=value.")
        if not dot:
            name = left
        owners = [s for s in hints if name in hints[s] and (not dot or s == scheme)]
        if dot and scheme not in hints:
            raise UserError(
                f"--option {option}: {scheme!r} is not a scheme of this chain; "
                f"{suggestion(scheme, hints)}"
            )
        if not owners:
            known = hints[scheme] if dot else {n for one in hints.values() for n in one}
            raise UserError(
                f"--option {option}: {scheme if dot else ', '.join(hints)} has no "
                f"option {name!r}; {suggestion(name, known)}"
            )
        if len(owners) > 1:
            raise UserError(
                f"--option {option}: {' and '.join(owners)} have it. Write "
                f"{owners[0]}.{option}."
            )
        if name in found[owners[0]]:
            raise UserError(f"--option {option}: {name!r} comes twice: give it once.")
        found[owners[0]][name] = typed.parsed(text, hints[owners[0]][name])
    return found


def _step(name: str, options: dict[str, Any], sampler: str | None) -> Step:
    """Returns a step with checked options."""
    where = f"scheme {name!r}"
    if name == PARAPHRASE:
        # A list would stand for each of its values in turn; a tuple is one value.
        options = {
            k: tuple(v) if isinstance(v, list) else v for k, v in options.items()
        }
        asked = is_endpoint(options.get("model"))
        names = (*(_OF_ENDPOINT if asked else _OF_SETTING), "model")
        own = {key: options.pop(key) for key in names if key in options}
        own = {"prompt": "plain"} | own if asked else own | {"sampler": sampler}
        step = Step(name, {**own, "options": options})
    else:
        step = Step(name, options)
    if step.method is not None:
        typed.check(options, step.method, where)
        # Find values out of range now instead of after half of a file.
        step.method("A text of five words.", np.random.default_rng(0), **options)
    elif name != PARAPHRASE:
        typed.check(options, registry.candidates_of(name), where)
    return step


def key_of(chain: Sequence[Step], num: int, seed: int) -> Json:
    """Returns JSON of the schemes, options, and code of a chain.

    Only steps with a model include `num` and `seed`. A cache key of the outputs also
    needs `num`, `seed`, and the texts.
    """
    return [
        [step.name, step.job(seed, num).key]
        if step.method is None
        else [
            step.name,
            dict(step.options),
            code_digest("jaxaug.augment"),
            extensions.code_of(step.method),
        ]
        for step in chain
    ]


def apply(
    chain: Sequence[Step], texts: Sequence[str], num: int, seed: int, shards: Shards
) -> Outputs:
    """Returns `num` outputs of each text by all steps, in order.

    A blank text is its own only output. If a model has no output for a text, the text
    stays.

    Draws of a method on sentences depend on the seed, the row, and the number. Draws of
    a model depend on the seed, the text, and the number. The first step makes the `num`
    outputs. A scheme with a model gives fewer if it has no more distinct ones.

    Args:
        num: outputs of each text.
    """
    found: Outputs = [[text] for text in texts]
    for place, step in enumerate(chain):
        several = num if place == 0 else 1
        if step.method is not None:
            found = [
                _by_method(step, own, several, (seed, place, row))
                for row, own in enumerate(found)
            ]
        elif place == 0:
            outputs = _by_model(step, texts, num, seed, shards)
            found = [outputs.get(text) or [text] for text in texts]
        else:
            _one_by_one(step, found, place, seed, shards)
    return found


def _by_method(
    step: Step, own: Sequence[str], several: int, seed: tuple[int, int, int]
) -> list[str]:
    method = step.method
    assert method is not None
    if not own[0].strip():
        return list(own)
    inputs = [own[0]] * several if several > 1 else own
    return [
        method(text, np.random.default_rng([*seed, number]), **step.options)
        for number, text in enumerate(inputs)
    ]


def _one_by_one(
    step: Step, found: Outputs, place: int, seed: int, shards: Shards
) -> None:
    """Replaces each output by a model's output; equal texts get other draws."""
    for number in range(max(map(len, found), default=0)):
        rows = [own for own in found if number < len(own)]
        draws = zlib.crc32(f"{seed} {place} {number}".encode())
        outputs = _by_model(step, [own[number] for own in rows], 1, draws, shards)
        for own in rows:
            own[number : number + 1] = outputs.get(own[number], [])[:1] or [own[number]]


def _by_model(
    step: Step, texts: Sequence[str], num: int, seed: int, shards: Shards
) -> dict[str, list[str]]:
    """Returns up to `num` outputs of each text that is not blank, without empty
    outputs.

    An output that differs from its text only in white space becomes the text itself.
    """
    job = step.job(seed, num)
    distinct = [text for text in dict.fromkeys(texts) if text.strip()]
    stage = Stage("candidates", job.key, job.run, step.name)
    outputs = shards.run(stage, distinct)
    return {
        text: [text if spaced(one) == spaced(text) else one for one in own if one][:num]
        for text, own in zip(distinct, outputs, strict=True)
    }


def run(given: Text) -> int:
    """Runs the verb; see `jaxaug augment text --help`."""
    names = [name.strip() for name in given.scheme.split(",")]
    print(augment_text(given, steps(names, given.option, given.model, given.sampler)))
    return 0


def augment_text(given: Text, chain: Sequence[Step]) -> str:
    """Writes other wordings of the texts in a file; returns a summary.

    Outputs of models are kept in shards, so an interrupted run resumes. See `tables`
    for the formats, and `apply` for the random draws. The output file must not
    exist, unless an identical call has written it.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    num, seed = given.num, given.seed
    jobs = [step.job(seed, num) for step in chain if step.method is None]
    shards = Shards(cache_folder.cache_dir() / "augment")
    found = rewritten(
        given,
        ",".join(step.name for step in chain),
        lambda: key_of(chain, num, seed),
        lambda texts: apply(chain, texts, num, seed, shards),
    )
    if isinstance(found, str):
        return found
    flat = [(text, o) for text, own in zip(*found, strict=True) for o in own]
    changed = sum(text != output for text, output in flat)
    said = f"{changed:,} of {len(flat):,} outputs differ from their text; "
    said += f"wrote {given.out}"
    return "\n".join([said, *(job.endpoint.spent() for job in jobs if job.endpoint)])


def rewritten(
    given: Text | Paraphrase,
    scheme: str,
    key: Callable[[], Json],
    make: Callable[[list[str]], Outputs],
) -> tuple[list[str], Outputs] | str:
    """Writes outputs for the texts of a file in the format of the file.

    Args:
        given: files, number, and seed; without `out`, standard output is written.
        scheme: name of the scheme, for the column `scheme`.
        key: returns everything that determines the outputs in addition to the texts.
        make: texts -> outputs of each. A line without an output becomes a blank line.

    Returns:
        The texts and their outputs, or a message if `out` is complete.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    path, out, num, seed = given.input, given.out, given.num or 1, given.seed
    table = tables.read(path, given.column)
    tables.check(table, path, out or tables.STDIN, num)
    texts = [row.text for row in table.rows]
    work = [
        *[table.kind, table.column, table.header, table.delimiter],
        *[table.newline, table.mark, table.rows, key(), num, seed],
    ]
    note = cache_folder.cache_dir() / "augment_text" / digest_of(work)
    target = None if out is None else epath.Path(out).expanduser()
    if target is not None and target.exists():
        if note.exists() and note.read_text() == file_digest(target):
            return f"{out} is complete: nothing to do"
        raise UserError(
            f"--out {out}: exists, and is not the output of this call. Choose another "
            "file, or remove it."
        )
    outputs = make(texts)
    # Lines stay aligned with their texts.
    is_aligned = table.kind == tables.LINES and num == 1
    shown = [own or [""] if is_aligned else own for own in outputs]
    content = tables.written(table, shown, scheme, num)
    if target is None:
        sys.stdout.write(content)
    else:
        write_text(target, content)
        write_text(note, file_digest(target))
    return texts, outputs
