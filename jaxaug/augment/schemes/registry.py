"""Sources of candidates: each scheme gives jobs that compute outputs of texts."""

import functools
import importlib
import inspect
import pathlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from jaxaug.augment import descriptions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.grammar import engine, rules
from jaxaug.augment.language import nlp
from jaxaug.augment.schemes import sentences
from jaxaug.core import extensions, typed
from jaxaug.core.digests import code_digest, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Json
from jaxaug.core.suggestion import suggestion
from jaxaug.data.schema import Schema
from jaxaug.paraphrase import endpoint_grid, literals
from jaxaug.paraphrase.endpoint import Writer


@dataclass(frozen=True)
class Job:
    """A part of the candidates.

    Attributes:
        label: provenance of its outputs.
        make_key: see `key`; raises `UserError` if a model is not on this machine.
        run: texts -> outputs of each.
        most: maximum outputs of a text.
        models: names of the models that it uses.
        needs_context: whether `run` takes pairs of a text and its contexts (see
            `grammar.rules.Context`, as JSON) instead of texts.
        in_schema: whether `run` takes texts with their context in the schema; see
            `jaxaug.augment.descriptions.with_contexts`.
        endpoint: the writer of a model behind an endpoint, which takes such items too.
    """

    label: str
    make_key: Callable[[], Json]
    run: Callable[[Sequence[Any]], list[list[str]]]
    most: int
    models: tuple[str, ...] = ()
    needs_context: bool = False
    in_schema: bool = False
    endpoint: Writer | None = None

    def items(
        self,
        texts: Sequence[str],
        schemas: Sequence[Schema],
        known: Sequence[Description],
    ) -> list[Json]:
        """Returns the texts as `run` takes them, with contexts if it needs them.

        Args:
            texts: texts of the schemas.
            known: all descriptions of the schemas.
        """
        if self.endpoint or self.in_schema:
            return descriptions.with_contexts(texts, known)
        if not self.needs_context:
            return list(texts)
        found = rules.contexts(
            Schema(tuple(s for one in schemas for s in one.services))
        )
        return [[text, [c.to_json() for c in found.get(text, ())]] for text in texts]

    @functools.cached_property
    def key(self) -> Json:
        """JSON of everything that determines the outputs of a text."""
        return self.make_key()


def paraphrase(
    seed: int, *, grid: Sequence[Mapping[str, Any]], batch_size: int = 64
) -> list[Job]:
    """Returns the jobs of models with a grid of settings.

    Args:
        seed: seed of all random draws.
        grid: blocks for models of the registry, see
            `jaxaug.paraphrase.generation.grid`, and for models behind an endpoint, see
            `jaxaug.paraphrase.endpoint_grid.Block`.
        batch_size: outputs that are decoded together.
    """
    local, settings = endpoint_grid.divided(grid)
    asked = [_asked(seed, setting) for setting in settings]
    if asked and not local:
        return asked
    # Imported here, as models import JAX.
    from jaxaug.paraphrase import generation

    paraphraser = generation.Paraphraser(seed, batch_size)

    def key(setting: generation.Setting) -> Json:
        return {"paraphrase": setting.key(), "seed": seed}

    return [
        Job(
            setting.label,
            functools.partial(key, setting),
            literals.keeping(functools.partial(paraphraser, setting)),
            setting.num,
            (setting.model,),
        )
        for setting in generation.grid(local)
    ] + asked


def _asked(seed: int, setting: endpoint_grid.Setting) -> Job:
    """Returns the job of a model behind an endpoint."""
    writer = Writer(setting, seed)
    key = {"endpoint": setting.key(), "seed": seed}
    return Job(setting.label, lambda: key, writer, setting.num, endpoint=writer)


def sentence(seed: int, *, method: str, num: int, **options: Any) -> list[Job]:
    """Returns the job of a method on sentences, such as EDA, repeated on each text.

    Args:
        method: a name of `sentences.METHODS`.
        num: outputs of each text.
        **options: options of the method.
    """
    if method not in sentences.METHODS:
        raise UserError(
            f"method {method!r} is not a method on sentences; "
            f"{suggestion(method, sentences.METHODS)}"
        )
    if num < 1:
        raise UserError(f"method {method!r}: num={num}: give at least 1.")
    chosen = sentences.METHODS[method]
    typed.check(options, chosen, f"method {method!r}")
    inspect.signature(chosen).bind("", None, **options)

    def run(texts: Sequence[str]) -> list[list[str]]:
        return [
            [
                chosen(
                    text,
                    np.random.default_rng([seed, zlib.crc32(text.encode()), i]),
                    **options,
                )
                for i in range(num)
            ]
            for text in texts
        ]

    key = {"sentence": method, "num": num, "options": options, "seed": seed}
    # The method is quick, so changed code may discard earlier results.
    key["code"] = code_digest("jaxaug.augment", "jaxaug.paraphrase")
    key |= {"outside": code} if (code := extensions.code_of(chosen)) else {}
    return [Job(method, lambda: key, run, num)]


def grammar(seed: int, *, num: int = 100) -> list[Job]:
    """Returns the job of the rewording grammar: rules and synonyms, deterministic.

    Args:
        seed: ignored.
        num: maximum outputs of each text.

    Raises:
        UserError: `num` is below 1.
    """
    del seed
    if num < 1:
        raise UserError(f"scheme 'grammar': num={num}: give at least 1.")

    def run(items: Sequence[Any]) -> list[list[str]]:
        return [engine.under_all(text, found, num) for text, found in items]

    folder = pathlib.Path(engine.__file__).parent
    tables = [file_digest(path) for path in sorted(folder.glob("*.txt"))]
    code = code_digest("jaxaug.augment.grammar", "jaxaug.augment.language")
    key = {"grammar": num, "code": code, "tables": tables, "tagger": nlp.installed()}
    return [Job("grammar", lambda: key, run, num, needs_context=True)]


def from_module(module: str, seed: int, **options: Any) -> list[Job]:
    """Returns the job of a module with `candidates(texts, *, seed, ...)`.

    The module also has `models(options)`, the names of the models that `candidates`
    uses, and `NAMES`, the options that do not change the outputs. `most(options)` is
    the maximum number of outputs of a text. `version(options)` is the version of an
    outside program, if it uses one. A module with `IN_SCHEMA` takes texts with their
    context (`Job.in_schema`).

    Args:
        module: name of a module of `jaxaug.augment.schemes`.
        **options: options of `candidates`.
    """
    # Imported here, as models import JAX.
    from jaxaug.paraphrase import generation
    from jaxaug.paraphrase.version import of_outputs

    found = _module_of(module)
    typed.check(options, found.candidates, f"scheme {module!r}")
    given = inspect.signature(found.candidates).bind((), seed=seed, **options)
    given.apply_defaults()
    models = tuple(found.models(given.arguments))
    version = getattr(found, "version", None)

    def key() -> Json:
        own = {k: v for k, v in options.items() if k not in found.NAMES}
        return {
            module: own,
            "seed": seed,
            "models": [generation.identity(name) for name in models],
            "code": [of_outputs(), code_digest(*_modules_of(found))],
            **({"program": version(given.arguments)} if version else {}),
        }

    run = functools.partial(found.candidates, seed=seed, **options)
    in_schema = getattr(found, "IN_SCHEMA", False)
    most = found.most(given.arguments)
    return [Job(module, key, run, most, models, in_schema=in_schema)]


def pool(seed: int, *, schemes: Mapping[str, Mapping[str, Any]]) -> list[Job]:
    """Returns the jobs of several schemes, whose outputs are candidates together.

    Args:
        schemes: name of each scheme -> its options.
    """
    jobs = (made(name, seed, options) for name, options in schemes.items())
    return [job for own in jobs for job in own]


def candidates_of(scheme: str) -> Callable[..., list[list[str]]]:
    """Returns the function behind a scheme that has a separate module."""
    return _module_of(scheme).candidates


def _module_of(scheme: str) -> Any:
    return importlib.import_module(f"jaxaug.augment.schemes.{scheme}")


def _modules_of(module: ModuleType) -> list[ModuleType]:
    """Returns a module, and the modules of augmentation that it uses."""
    package = "jaxaug.augment."
    found = {module.__name__: module}
    for value in vars(module).values():
        other = inspect.getmodule(value)
        if other is not None and other.__name__.startswith(package):
            found[other.__name__] = other
    return [found[name] for name in sorted(found)]


def given(seed: int, *, folder: str) -> list[Job]:
    """Returns no jobs: the run itself reads the variants of a folder.

    Args:
        seed: ignored.
        folder: folder with `v1..vK/<split>/schema.json`, or `sgdx`.
    """
    del seed, folder
    return []


SCHEMES: Mapping[str, Callable[..., list[Job]]] = {
    "paraphrase": paraphrase,
    "sentence": sentence,
    "grammar": grammar,
    **{
        name: functools.partial(from_module, name)
        for name in ("backtranslate", "apertium", "qcpg", "contextual", "reworder")
    },
    "pool": pool,
    "given": given,
}
"""Name -> (seed, options by keyword) -> jobs."""


def made(scheme: str, seed: int, options: Mapping[str, Any]) -> list[Job]:
    """Returns the jobs of a scheme.

    Raises:
        UserError: the scheme is unknown, or its options are wrong.
    """
    if scheme not in SCHEMES:
        raise UserError(f"{scheme!r} is not a scheme; {suggestion(scheme, SCHEMES)}")
    make = SCHEMES[scheme]
    if not isinstance(make, functools.partial):
        typed.check(options, make, f"scheme {scheme!r}")
    try:
        return make(seed, **options)
    except TypeError as error:
        raise UserError(
            f"scheme {scheme!r} cannot be made with {dict(options)}: {error}. Correct "
            "the options."
        ) from error
