"""Further wordings of a schema: by the rewording grammar, or from a variants folder.

    of_schema(schema, 4)  # four schemas with the same names and other descriptions
    familiar(schema, frequent_words(texts))  # one, in the words of some texts

Each service is reworded separately. The result is kept under the digest of the service.
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import descriptions
from jaxaug.augment import plan as plans
from jaxaug.augment.decisions import Decisions
from jaxaug.augment.grammar import engine, rules, vocabulary
from jaxaug.augment.plan import Plan
from jaxaug.augment.schemes import registry
from jaxaug.core import cache_folder, shards
from jaxaug.core.digests import code_digest, digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.data import folders
from jaxaug.data.rename import mismatches
from jaxaug.data.schema import Schema, Service, read_schema, service_object

CONFIG = "configs/augment/grammar.py"
_SPLIT = "schema"  # in the ids of descriptions
_POOL = 8  # A request for few wordings takes the first of many.
_MOST = 1024  # services that are remembered
_CANDIDATES = 300  # rewordings of a description
_FREQUENT = 2  # minimum occurrences of a familiar word
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def of_schema(schema: Schema, num: int, keep: bool = True) -> list[Schema]:
    """Rewords a schema by the grammar, deterministically.

    Args:
        schema: schema of any services.
        num: number of wordings, the most similar to the schema first.
        keep: whether results are read from and written to the cache folder; otherwise
            they are kept only in memory.

    Returns:
        Schemas with the same names. If the grammar has too few rewordings of a
        description, they occur several times. A description stays unchanged if it has
        no rewording or would equal another description of its service.

    Raises:
        UserError: spaCy, which measures how different texts are, is not installed.
    """
    found = [_of_service(service, num, keep) for service in schema.services]
    return [Schema(tuple(services)) for services in zip(*found, strict=True)]


def frequent_words(texts: Iterable[str]) -> frozenset[str]:
    """Returns the words that occur at least twice in the texts, in the singular."""
    counts = Counter(word for text in texts for word in _words(text))
    return frozenset(word for word, count in counts.items() if count >= _FREQUENT)


def familiar(schema: Schema, known: AbstractSet[str]) -> Schema:
    """Words a schema in known words, as far as the grammar has faithful ones.

    A description takes its rewording with the fewest unknown words, if this has fewer
    than the description itself. Of several, it takes the first one of the grammar.

    Args:
        schema: schema of any services.
        known: words in the singular, such as `frequent_words` of the schemas that a
            tracker was trained on.

    Returns:
        A schema with the same names. No description becomes equal to another one of its
        service.
    """
    found = [_familiar(service, frozenset(known)) for service in schema.services]
    return Schema(tuple(found))


@functools.lru_cache(1024)
def _familiar(service: Service, known: frozenset[str]) -> Service:
    one = Schema((service,))
    contexts = rules.contexts(one)
    items = descriptions.descriptions(one, _SPLIT)
    taken = {item.text.casefold() for item in items}
    changed: dict[str, str] = {}
    for item in items:
        words = engine.reword(item.text, contexts[item.text][0], _CANDIDATES)
        texts = [item.text, *(found.text for found in words)]
        for text in sorted(texts, key=lambda text: unknown_words(text, known)):
            if text == item.text:
                break  # Nothing else has fewer.
            if text.casefold() not in taken:
                taken.add(text.casefold())
                changed[item.id] = text
                break
    return descriptions.with_texts(one, _SPLIT, changed).services[0]


def unknown_words(text: str, known: AbstractSet[str]) -> int:
    """Returns the number of words of a text that are not known."""
    return sum(word not in known for word in _words(text))


def _words(text: str) -> list[str]:
    return [vocabulary.singular(word) for word in _WORD.findall(text.lower())]


_remembered: dict[tuple[Service, int], tuple[Service, ...]] = {}


def _of_service(service: Service, num: int, keep: bool) -> tuple[Service, ...]:
    key = service, max(num, _POOL)
    if key not in _remembered:
        one = Schema((service,))
        texts = _kept_texts(*key) if keep else _texts(one, key[1])
        if len(_remembered) >= _MOST:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[key] = tuple(
            descriptions.with_texts(one, _SPLIT, changed).services[0]
            for changed in texts
        )
    return _remembered[key][:num]


def _kept_texts(service: Service, num: int) -> list[dict[str, str]]:
    """Calls `_texts`, with a file in the cache folder."""
    code = code_digest("jaxaug.augment", "jaxaug.paraphrase")
    digest = digest_of([service_object(service), num, _config(num).key(), code])
    path = epath.Path(cache_folder.cache_dir()) / "wordings" / f"{digest}.json"
    found = shards.kept(path, num)
    if found is None:
        found = _texts(Schema((service,)), num)
        shards.keep(path, found)
    return found


def _texts(schema: Schema, num: int) -> list[dict[str, str]]:
    """Returns the changed texts of each wording, by the id of their description."""
    config = _config(num)
    items = descriptions.descriptions(schema, _SPLIT)
    here = epath.Path()
    jobs = registry.made(config.scheme, config.seed, config.options)
    plan = Plan(
        config,
        here,
        here,
        {_SPLIT: schema},
        {_SPLIT: items},
        [jobs],
        Decisions(),
        {},
        {},
    )
    results = plans.results(plan, _SPLIT, _InMemory(here))
    found: list[dict[str, str]] = []
    for number in range(num):
        # Two equal descriptions in one prompt would be two names for one thing.
        taken = {result.description.text.casefold() for result in results}
        texts: dict[str, str] = {}
        for result in results:
            own = [one for one in result.selected if one != result.description.text]
            # With too few candidates, the same ones are repeated.
            text = own[number % len(own)] if own else result.description.text
            if text.casefold() not in taken:
                taken.add(text.casefold())
                texts[result.description.id] = text
        found.append(texts)
    return found


@functools.cache
def _config(num: int) -> configs.Config:
    config = configs.load(CONFIG)
    # The figures of docs/sensitivity.md and docs/robustness.md come from this walk.
    tree = {**config.tree, "walk": configs.ROUNDS}
    return dataclasses.replace(config, variants=num, tree=tree)


class _InMemory(Shards):
    """Stages that neither read nor write files."""

    def run(self, stage: Stage, items: Sequence[Json], chosen: object = None) -> list:
        """See `Shards`."""
        del chosen
        return list(stage.compute(items)) if items else []


def of_folder(schema: Schema, folder: PathLike, num: int) -> list[Schema]:
    """Returns the wordings of a variants folder, under the names of a schema.

    Args:
        schema: schema of any services. Variant K of service S is called S followed by
            K, as in SGD-X, or S with K instead of its last digit.
        folder: folder with `v1/<split>/schema.json`, `v2/...`.
        num: number of wordings: v1 to v<num>.

    Raises:
        UserError: there are fewer variants, a file cannot be read, or a service is
            missing or has other slots.
    """
    names = folders.variant_names(folder)
    if len(names) < num:
        raise UserError(
            f"{folder}: has {len(names)} variants ({', '.join(names) or 'none'}), but "
            f"{num} wordings are asked for. Ask for fewer, or add variants."
        )
    return [_of_variant(schema, folder, names[number]) for number in range(num)]


def _of_variant(schema: Schema, folder: PathLike, variant: str) -> Schema:
    known: dict[str, Service] = {}
    for split in folders.variant_splits(folder, variant):
        path = folders.variant_schema_path(folder, variant, split)
        for service in read_schema(path).services:
            known.setdefault(service.name, service)
    digit = variant.removeprefix("v")
    found = []
    for service in schema.services:
        wanted = (f"{service.name}{digit}", f"{service.name[:-1]}{digit}")
        fitting = [
            known[name]
            for name in wanted
            if name in known
            and not mismatches(Schema((service,)), Schema((known[name],)))
        ]
        if not fitting:
            raise UserError(
                f"{folder}: {variant} has no service {' or '.join(wanted)} with the "
                f"slots and intents of {service.name}. Use the grammar, or make "
                "variants of this schema with `jaxaug augment`."
            )
        found.append(_worded(service, fitting[0]))
    return Schema(tuple(found))


def _worded(service: Service, other: Service) -> Service:
    """Returns a service with the descriptions of another one, matched by position."""
    return dataclasses.replace(
        service,
        description=other.description,
        slots=tuple(
            dataclasses.replace(one, description=new.description)
            for one, new in zip(service.slots, other.slots, strict=True)
        ),
        intents=tuple(
            dataclasses.replace(one, description=new.description)
            for one, new in zip(service.intents, other.intents, strict=True)
        ),
    )
