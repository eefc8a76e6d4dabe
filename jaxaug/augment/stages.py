"""The stages of a run: candidates, filters and metrics, and nearness.

Each stage is a function of the plan and a shard of its distinct items. Finished shards
are kept (see `jaxaug.core.shards`), so runs share their work.
"""

import dataclasses
import functools
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from jaxaug.augment import selection
from jaxaug.augment.descriptions import Description, beside
from jaxaug.augment.judge import filters, measures, small_models
from jaxaug.augment.judge.features import ORDER, SLOT
from jaxaug.augment.plan import APART, JUDGED, Plan
from jaxaug.augment.selection import Judged, Result
from jaxaug.core.parts import Part
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.paraphrase import candidates
from jaxaug.paraphrase.candidates import Candidate

CANDIDATES = "candidates"
EMPTY, NO_COMMAND = "empty", "no_command"
ANOTHER = "nearer_to_another"
"""Reasons of the stages themselves; see `selection` for further ones."""

Outputs = dict[str, list[tuple[str, list[str]]]]
"""Text -> (label of a job, its outputs)."""


class Source(NamedTuple):
    """The criteria for candidates; descriptions of equal sources share the work.

    Attributes:
        text: text to paraphrase.
        protected: parts that must survive.
        is_slot: whether the filters for slots apply.
    """

    text: str
    protected: tuple[str, ...]
    is_slot: bool

    @classmethod
    def of(cls, one: Description) -> "Source":
        """Returns the source of a description."""
        return cls(one.text, one.protected, one.kind == "slot")


def lengths(
    plan: Plan, items: Sequence[Description], number: int = 0
) -> list[tuple[str, int]]:
    """Returns (name, number of items) of the stages of one round."""
    sources = set(map(Source.of, items))
    texts = {source.text for source in sources}
    found = [(CANDIDATES, len(texts))] * len(plan.rounds[number])
    found.append((JUDGED, len(sources)))
    return found + ([(APART, len(items))] if APART in plan.keys else [])


def run(plan: Plan, split: str, shards: Shards) -> list[Result]:
    """Selects the texts of all variants of a split.

    Raises:
        UserError: a scheme cannot work, a metric is not finite, or people chose a name
            that another slot or intent has.
        OSError: a shard cannot be written.
    """
    descriptions = plan.texts[split]
    if plan.config.is_given:
        return _given(plan, split, shards)
    outputs: Outputs = {}
    judged: dict[str, tuple[Judged, ...]] = {}
    waiting = list(descriptions)
    for number in range(len(plan.rounds)):
        if number:  # The first round is planned for all splits together.
            shards.plan(lengths(plan, waiting, number))
        # Texts that services share are paraphrased once.
        texts = list(dict.fromkeys(one.text for one in waiting))
        _draw(plan, texts, outputs, shards, number)
        found = _judged(plan, split, waiting, outputs, shards)
        judged.update(zip([one.id for one in waiting], found, strict=True))
        # A refusal by people starts no further round, so a run after a review is quick.
        waiting = [
            one
            for one in waiting
            if selection.select(plan.config, one, judged[one.id]).kept
        ]
        if not waiting:
            break
    return selection.results(plan.config, descriptions, judged, plan.decided)


def run_part(plan: Plan, split: str, shards: Shards, part: Part) -> None:
    """Computes a part of the shards of `run`, for a `run` that reads them all.

    A shard of judged texts needs their candidates. If two parts need the same shard of
    candidates, both compute it. Further rounds and comparisons with siblings need the
    results of all parts, so the run that reads the parts computes them.
    """
    sources = list(dict.fromkeys(map(Source.of, plan.texts[split])))
    texts = list(dict.fromkeys(source.text for source in sources))
    size = shards.size
    mine = {i // size for i in range(len(sources)) if part.owns(i // size)}
    place = {text: number for number, text in enumerate(texts)}
    needed = {
        place[source.text] // size
        for number, source in enumerate(sources)
        if number // size in mine
    }
    outputs: Outputs = {}
    _draw(plan, texts, outputs, shards, chosen=needed)
    items = [(s, _merged(plan, s.text, outputs)) for s in sources]
    _filtered(plan, items, shards, mine)


def _given(plan: Plan, split: str, shards: Shards) -> list[Result]:
    """Measures the given variants and returns them as results."""
    descriptions, variants = plan.texts[split], plan.given[split]
    items = []
    for one in descriptions:
        labels: dict[str, list[str]] = {}
        for number, given in enumerate(variants, 1):
            if one.id in given:
                labels.setdefault(given[one.id], []).append(f"v{number}")
        found = [Candidate(text, len(v), tuple(v)) for text, v in labels.items()]
        items.append((Source.of(one), found))
    measured = _filtered(plan, items, shards)
    return [
        Result(
            one,
            judged,
            tuple(given.get(one.id, one.text) for given in variants),
            sum(one.id not in given for given in variants),
        )
        for one, judged in zip(descriptions, measured, strict=True)
    ]


def _draw(
    plan: Plan,
    texts: Sequence[str],
    outputs: Outputs,
    shards: Shards,
    number: int = 0,
    chosen: Container[int] | None = None,
) -> None:
    """Adds to `outputs` the outputs of each job of a round for each text."""
    jobs = plan.rounds[number]
    again = f" again, {number + 1}/{len(plan.rounds)}" if number else ""
    for place, job in enumerate(jobs, 1):
        label = f"candidates{again} {place}/{len(jobs)}"
        stage = Stage(CANDIDATES, job.key, job.run, label)
        results = shards.run(stage, plan.items(job, texts), chosen)
        for text, given in zip(texts, results, strict=True):
            if given is not None:
                outputs.setdefault(text, []).append((job.label, given))


def _merged(plan: Plan, text: str, outputs: Outputs) -> list[Candidate]:
    """Returns the distinct candidates of a text, the most common first."""
    return candidates.merged(text, outputs.get(text, ()), plan.config.tidy)


def _judged(
    plan: Plan,
    split: str,
    waiting: Sequence[Description],
    outputs: Outputs,
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """Returns the candidates of the waiting descriptions, with all reasons."""
    sources = list(dict.fromkeys(map(Source.of, waiting)))
    items = [(source, _merged(plan, source.text, outputs)) for source in sources]
    of_source = dict(zip(sources, _filtered(plan, items, shards), strict=True))
    judged = [of_source[Source.of(one)] for one in waiting]
    if APART in plan.keys:
        others = beside(plan.texts[split])
        judged = _apart(plan, waiting, judged, others, shards)
    return judged


def _filtered(
    plan: Plan,
    sources: Sequence[tuple[Source, Sequence[Candidate]]],
    shards: Shards,
    chosen: Container[int] | None = None,
) -> list[tuple[Judged, ...]]:
    """Returns reasons and metrics of each source's candidates, in the chosen shards."""
    items = [[list(source), [c.text for c in found]] for source, found in sources]
    compute = functools.partial(judge, plan)
    stage = Stage(JUDGED, plan.keys[JUDGED], compute, "filters and metrics")
    results = shards.run(stage, items, chosen)
    return [
        tuple(
            Judged(candidate, values, tuple(codes))
            for candidate, (codes, values) in zip(found, result, strict=True)
        )
        for (_, found), result in zip(sources, results, strict=True)
        if result is not None
    ]


def _apart(
    plan: Plan,
    descriptions: Sequence[Description],
    judged: Sequence[tuple[Judged, ...]],
    others: Mapping[str, Sequence[str]],
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """Drops candidates that are nearer to another slot or intent of their service."""
    kept = [[one for one in part if not one.dropped] for part in judged]
    items = [
        [list(others[one.id]), [j.candidate.text for j in part]]
        for one, part in zip(descriptions, kept, strict=True)
    ]
    # The metric is loaded only if a shard is computed.
    compute = functools.partial(nearness, plan)
    stage = Stage(APART, plan.keys[APART], compute, "nearness to others")
    values = shards.run(stage, items)
    lost = [
        {
            j.candidate.text
            for j, value in zip(part, found, strict=True)
            if value is not None and value > j.values[plan.config.apart_by]
        }
        for part, found in zip(kept, values, strict=True)
    ]
    return [
        tuple(
            dataclasses.replace(one, dropped=(ANOTHER,))
            if one.candidate.text in texts
            else one
            for one in part
        )
        for part, texts in zip(judged, lost, strict=True)
    ]


def judge(plan: Plan, shard: Sequence[Json]) -> list[Json]:
    """Returns the reasons and metrics of each candidate, per (source, candidates)."""
    codes: list[list[tuple[str, ...]]] = []
    places: list[tuple[int, int]] = []
    for number, (source, written) in enumerate(shard):
        codes.append(reasons(plan, Source(*source), written))
        places += [
            (number, place)
            for place, text in enumerate(written)
            if text and (plan.config.measure_dropped or not codes[number][place])
        ]
    values = measures.compute(
        plan.metrics,
        [shard[number][0][0] for number, _ in places],
        [shard[number][1][place] for number, place in places],
        [SLOT if Source(*shard[number][0]).is_slot else ORDER for number, _ in places],
    )
    results: list[Json] = [[[list(code), {}] for code in part] for part in codes]
    for row, (number, place) in enumerate(places):
        results[number][place][1] = {
            # Seven digits are the precision of float32; further digits are noise.
            name: float(f"{column[row]:.7g}")
            for name, column in values.items()
        }
    return results


def nearness(plan: Plan, shard: Sequence[Json]) -> list[Json]:
    """Returns the nearness of each candidate to others, per (others, candidates)."""
    return measures.nearness(plan.metrics[plan.config.apart_by], shard)


def reasons(
    plan: Plan, source: Source, written: Sequence[str]
) -> list[tuple[str, ...]]:
    """Returns why each candidate is dropped: empty, no command, filters, and checks."""
    config = plan.config
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
