"""The stages of a run: candidates, filters, metrics, selection, variants, records.

Each stage works on the distinct texts of all schemas, in shards (see
`jaxaug.core.shards`), so that what is done is never done again.
"""

import contextlib
import dataclasses
import functools
import inspect
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from jaxaug.augment import decisions, drawing, meaning, naming, selection
from jaxaug.augment import descriptions as schema_texts
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import NOTHING, Decided
from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import filters, measures, siblings, small_models
from jaxaug.augment.language import nlp
from jaxaug.augment.result import Judged, Result
from jaxaug.augment.schemes import registry
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.paraphrase.candidates import Candidate

EMPTY, NO_COMMAND = "empty", "no_command"
ANOTHER = "nearer_to_another"
"""Reasons of the pipeline itself; see `selection` for further ones."""


class Source(NamedTuple):
    """What candidates are judged by; descriptions of equal sources share the work.

    Attributes:
      text: to be paraphrased.
      protected: what must survive.
      is_slot: whether the filters for slots apply.
    """

    text: str
    protected: tuple[str, ...]
    is_slot: bool

    @classmethod
    def of(cls, one: Description) -> "Source":
        """The source of a description."""
        return cls(one.text, one.protected, one.kind == "slot")


def stages(
    config: Config, descriptions: Sequence[Description]
) -> list[tuple[str, int]]:
    """(name, number of items) of the stages of one round of `run`."""
    sources = set(map(Source.of, descriptions))
    texts = {source.text for source in sources}
    found = [("candidates", len(texts))] * len(registry.jobs(config))
    found.append(("judged", len(sources)))
    found += [("apart", len(descriptions))] if config.apart_by else []
    return found + ([("meaning", len(sources))] if config.judge else [])


def run(
    config: Config,
    descriptions: Sequence[Description],
    shards: Shards,
    decided: Mapping[str, Decided] | None = None,
) -> list[Result]:
    """Selects the texts of all variants of all descriptions.

    Args:
      config: of the run.
      descriptions: of a schema.
      shards: of all runs.
      decided: id of a description -> what people decided about it.

    Raises:
      UserError: the scheme cannot work, a metric gives no finite value, or a name that
        people decided for is that of another slot or intent.
      OSError: a shard cannot be written.
    """
    known = decided or {}
    outputs: dict[str, list[drawing.Output]] = {}
    judged: dict[str, tuple[Judged, ...]] = {}
    waiting = list(descriptions)
    for number in range(config.rounds):
        if number:  # The first round is planned for all splits together.
            shards.plan(stages(config, waiting))
        # Texts that services share are paraphrased once.
        texts = list(dict.fromkeys(one.text for one in waiting))
        drawn = dataclasses.replace(
            config, seed=drawing.seed_of_round(config.seed, number)
        )
        found_by_text = drawing.draw(
            drawn, texts, shards, number=number, descriptions=descriptions
        )
        for text, given in found_by_text.items():
            outputs.setdefault(text, []).extend(given)
        found = _judged(config, descriptions, waiting, outputs, shards)
        judged.update(zip([one.id for one in waiting], found, strict=True))
        # What people refuse draws nothing: after a review a run is quick.
        waiting = [
            one for one in waiting if selection.select(config, one, judged[one.id]).kept
        ]
        if not waiting:
            break
    results = naming.distinct_names(
        [
            selection.select(config, one, judged[one.id], known.get(one.id, NOTHING))
            for one in descriptions
        ]
    )
    for result in results:
        key = result.description.id
        for number, text in known.get(key, NOTHING).pinned.items():
            if result.selected[number - 1] != text:
                raise UserError(
                    f"{decisions.FILE}: {key}: v{number} is decided to be {text!r}, which "
                    "another slot or intent of the service is called too. Decide for "
                    "another name."
                )
    return results


def _judged(
    config: Config,
    descriptions: Sequence[Description],
    waiting: Sequence[Description],
    outputs: Mapping[str, Sequence[drawing.Output]],
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """The candidates of those that wait, with all reasons; see `run`."""
    sources = list(dict.fromkeys(map(Source.of, waiting)))
    found = {s.text: drawing.merged(config, s.text, outputs[s.text]) for s in sources}
    items = [(source, found[source.text]) for source in sources]
    of_source = dict(zip(sources, judge(config, items, shards), strict=True))
    judged = [of_source[Source.of(one)] for one in waiting]
    if config.apart_by:
        others = siblings.beside(descriptions)
        judged = apart(config, waiting, judged, others, shards)
    if config.judge:
        judged = meaning.judge(config.judge, waiting, judged, shards)
    return judged


def run_part(
    config: Config, descriptions: Sequence[Description], shards: Shards, part: Part
) -> None:
    """Computes a part of the shards of `run`, for a `run` that reads them all.

    A shard of judged texts needs their candidates, of which two parts may need the same
    shard: both compute it. What is told apart is left to the run that reads, and so are
    further rounds: which texts need them is known when all parts are done.
    """
    sources = list(dict.fromkeys(map(Source.of, descriptions)))
    texts = list(dict.fromkeys(s.text for s in sources))
    mine = {
        i // shards.size for i in range(len(sources)) if part.owns(i // shards.size)
    }
    shard_of = {text: place // shards.size for place, text in enumerate(texts)}
    needed = {
        shard_of[source.text]
        for place, source in enumerate(sources)
        if place // shards.size in mine
    }
    found = drawing.draw(config, texts, shards, needed, descriptions=descriptions)
    items = [(s, drawing.merged(config, s.text, found[s.text])) for s in sources]
    judge(config, items, shards, mine)


def run_given(
    config: Config,
    descriptions: Sequence[Description],
    variants: Sequence[Mapping[str, str]],
    shards: Shards,
) -> list[Result]:
    """Takes given variants, and measures them.

    Args:
      config: of the run.
      descriptions: of the original schema.
      variants: of v1, v2, ...: id of a description -> text.
      shards: of all runs.
    """
    items = []
    for one in descriptions:
        labels: dict[str, list[str]] = {}
        for number, given in enumerate(variants, 1):
            if one.id in given:
                labels.setdefault(given[one.id], []).append(f"v{number}")
        found = [Candidate(text, len(v), tuple(v)) for text, v in labels.items()]
        items.append((Source.of(one), found))
    return [
        Result(
            one,
            judged,
            tuple(given.get(one.id, one.text) for given in variants),
            sum(one.id not in given for given in variants),
        )
        for one, judged in zip(descriptions, judge(config, items, shards), strict=True)
    ]


def judge(
    config: Config,
    sources: Sequence[tuple[Source, Sequence[Candidate]]],
    shards: Shards,
    chosen: Container[int] | None = None,
) -> list[tuple[Judged, ...]]:
    """Reasons and metrics of the candidates of each source, in the chosen shards."""
    made = found_metrics(config.metrics)
    stage = Stage(
        "judged",
        {
            "filters": [
                list(config.filters),
                list(config.slot_filters),
                list(config.checks),
                config.commands,
            ],
            "sensitive": list(config.sensitive),
            "metrics": measures.unnamed(config.metrics),
            "measure_dropped": config.measure_dropped,
            "code": _code(
                [filters, nlp, schema_texts, small_models, measures], made.values()
            ),
            "models": measures.identities(config.metrics),
            "language": nlp.identity() if config.needs_nlp else "",
        },
        lambda items: _judge(config, made, items),
        "filters and metrics",
    )
    items = [[list(source), [c.text for c in found]] for source, found in sources]
    results = shards.run(stage, items, chosen)
    return [
        tuple(
            Judged(candidate, values, tuple(codes))
            for candidate, (codes, values) in zip(found, result, strict=True)
        )
        for (_, found), result in zip(sources, results, strict=True)
        if result is not None
    ]


def _judge(
    config: Config, made: Mapping[str, measures.Metric], items: Sequence[Json]
) -> list[Json]:
    """For each item, for each candidate: reasons and metrics."""
    codes: list[list[tuple[str, ...]]] = []
    places: list[tuple[int, int]] = []
    for number, (source, written) in enumerate(items):
        codes.append(reasons(config, Source(*source), written))
        places += [
            (number, place)
            for place, text in enumerate(written)
            if text and (config.measure_dropped or not codes[number][place])
        ]
    values = measures.compute(
        made,
        [items[number][0][0] for number, _ in places],
        [items[number][1][place] for number, place in places],
    )
    results: list[Json] = [[[list(code), {}] for code in part] for part in codes]
    for row, (number, place) in enumerate(places):
        results[number][place][1] = {
            # Seven digits: what float32 holds, and no noise behind it.
            name: float(f"{column[row]:.7g}")
            for name, column in values.items()
        }
    return results


def apart(
    config: Config,
    descriptions: Sequence[Description],
    judged: Sequence[tuple[Judged, ...]],
    others: Mapping[str, Sequence[str]],
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """The same, and what is nearer to another slot or intent of its service dropped.

    Args:
      config: of the run.
      descriptions: of a schema.
      judged: candidates of each.
      others: id of a description -> texts beside it.
      shards: of all runs.
    """
    name = config.apart_by
    made = found_metrics({name: config.metrics[name]})
    stage = Stage(
        "apart",
        {
            "metric": measures.unnamed({name: config.metrics[name]})[name],
            "models": measures.identities({name: config.metrics[name]}),
            "code": _code([siblings, small_models, measures], made.values()),
        },
        lambda items: siblings.nearest(made[name], items),
        "nearness to others",
    )
    kept = [[one for one in part if not one.dropped] for part in judged]
    items = [
        [list(others[one.id]), [j.candidate.text for j in part]]
        for one, part in zip(descriptions, kept, strict=True)
    ]
    lost = {
        (one.id, j.candidate.text)
        for one, part, values in zip(
            descriptions, kept, shards.run(stage, items), strict=True
        )
        for j, value in zip(part, values, strict=True)
        if value is not None and value > j.values[name]
    }
    return [
        tuple(
            dataclasses.replace(j, dropped=(*j.dropped, ANOTHER))
            if (one.id, j.candidate.text) in lost
            else j
            for j in part
        )
        for one, part in zip(descriptions, judged, strict=True)
    ]


def reasons(
    config: Config, source: Source, written: Sequence[str]
) -> list[tuple[str, ...]]:
    """Why each candidate is dropped: empty, no command, codes of filters and checks."""
    if config.is_given:
        return [()] * len(written)
    names = (*config.filters, *(config.slot_filters if source.is_slot else ()))
    rest = [text for text in written if text]
    found = filters.reasons(
        source.text, rest, names=names, checks=config.checks,
        sensitive=config.sensitive, protected=source.protected,
    )  # fmt: skip
    if config.commands and not source.is_slot:
        kept = small_models.keeps_command(source.text, rest)
        found = [
            codes if keeps else (NO_COMMAND, *codes)
            for codes, keeps in zip(found, kept, strict=True)
        ]
    codes = iter(found)
    return [next(codes) if text else (EMPTY,) for text in written]


def found_metrics(
    metrics: Mapping[str, Mapping[str, Any]],
) -> dict[str, measures.Metric]:
    """The metrics of a config; see `Config.metrics`."""
    identities = measures.identities(metrics)
    return {
        name: _metric(
            options.get("path", name),
            json.dumps(_without(options, "path")),
            json.dumps(identities[name]),
        )
        for name, options in metrics.items()
    }


@functools.cache
def _metric(name: str, options: str, models: str) -> measures.Metric:
    # Loaded once: the filters, the report and what stands beside it share a model.
    # Another model in the same folder is loaded again.
    del models
    return measures.find(name, **json.loads(options))


def _code(modules: Iterable[ModuleType], made: Iterable[measures.Metric]) -> list[str]:
    """Hashes of the code that decides: what it gave before is no longer good."""
    files = [module.__file__ for module in modules]
    for metric in made:
        with contextlib.suppress(TypeError):
            files.append(inspect.getfile(inspect.unwrap(metric)))
    return sorted({file_digest(file) for file in files if file})


def _without(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != name}
