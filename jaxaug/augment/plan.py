"""A resolved run of `jaxaug augment`, and its stages.

`resolve` gives the texts, jobs, outputs, and digest of a run. The stages are
candidates, filters and metrics, and nearness. Each is a function of the plan and a
shard of its distinct items. Finished shards are kept (see `jaxaug.core.shards`), so
runs share their work.
"""

import dataclasses
import functools
import zlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from absl import logging
from etils import epath
from jaxaug_base.files import is_same

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions, selection
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decided, Decisions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import filters, measures
from jaxaug.augment.judge.features import ORDER, SLOT
from jaxaug.augment.output import records, report
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job
from jaxaug.augment.selection import Judged, Result
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.parts import Part
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema
from jaxaug.metrics import diversity
from jaxaug.paraphrase import candidates
from jaxaug.paraphrase.candidates import Candidate

_BLEU = ("bleu", "self_bleu")
CANDIDATES, JUDGED, APART = "candidates", "judged", "apart"
"""Stages; shards are in folders with these names."""
EMPTY, NO_COMMAND = "empty", "no_command"
ANOTHER = "nearer_to_another"
"""Reasons of the stages themselves; see `selection` for further ones."""

Outputs = dict[str, list[tuple[str, list[str]]]]
"""Text -> (label of a job, its outputs)."""


@dataclass(frozen=True)
class Plan:
    """Everything that the stages of a run need.

    Attributes:
        config: config of the run.
        data_dir: data folder with the original schemas.
        out: variants folder to write.
        schemas: split -> its schema.
        texts: split -> the texts of its schema.
        rounds: for each round, the jobs that draw candidates.
        decisions: decisions of people, read from `out`.
        given: split -> texts of v1, v2, ... by id; empty unless the scheme is `given`.
        beside: other rows of the report -> a variants folder, or the plan of a run.
    """

    config: Config
    data_dir: epath.Path
    out: epath.Path
    schemas: Mapping[str, Schema]
    texts: Mapping[str, Sequence[Description]]
    rounds: Sequence[Sequence[Job]]
    decisions: Decisions
    given: Mapping[str, Sequence[Mapping[str, str]]]
    beside: "Mapping[str, epath.Path | Plan]"

    @property
    def every(self) -> list[Description]:
        """The texts of all splits."""
        return [one for found in self.texts.values() for one in found]

    @functools.cached_property
    def decided(self) -> dict[str, Decided]:
        """Id -> the decisions of people about this description."""
        return self.decisions.of(self.every)

    def items(self, job: Job, texts: Sequence[str]) -> list[Json]:
        """Returns the texts as a job takes them, with contexts if it needs them."""
        return job.items(texts, [*self.schemas.values()], self.every)

    @functools.cached_property
    def metrics(self) -> dict[str, measures.Metric]:
        """The metrics of candidates; loads their models."""
        return measures.made(self.config.metrics)

    @functools.cached_property
    def keys(self) -> dict[str, Json]:
        """Stage that judges -> JSON of everything that determines its results.

        Raises:
            UserError: a model, spaCy, or a metric is not on this machine.
        """
        config = self.config
        code = code_digest("jaxaug.augment.judge", "jaxaug.augment.language")
        rules = [config.filters, config.slot_filters, config.checks, config.commands]
        found: dict[str, Json] = {
            JUDGED: {
                "filters": None if config.is_given else rules,
                "sensitive": config.sensitive,
                "metrics": measures.key(config.metrics),
                "measure_dropped": config.measure_dropped,
                "code": code,
                "language": config.language,
            }
        }
        if config.apart_by:
            metric = {config.apart_by: config.metrics[config.apart_by]}
            found[APART] = {"metric": measures.key(metric), "code": code}
        return found

    @functools.cached_property
    def work(self) -> str:
        """Digest of everything that determines the computation, except decisions."""
        sources = [folders.schema_path(self.data_dir, split) for split in self.texts]
        for split, variants in self.given.items():
            numbers = range(1, len(variants) + 1)
            sources += [
                given_path(self.config, self.data_dir, split, n) for n in numbers
            ]
        beside = {
            name: other.digest
            if isinstance(other, Plan)
            else [
                file_digest(folders.variant_schema_path(other, variant, split))
                for variant in folders.variant_names(other)
                for split in folders.variant_splits(other, variant)
            ]
            for name, other in self.beside.items()
        }
        different = [self.rounds[0], *self.rounds[self.config.rounds :]]
        return digest_of(
            [
                self.config.key(),
                # Repeated rounds differ only in their seeds.
                [job.key for jobs in different for job in jobs],
                self.keys,
                measures.key(self.config.report),
                [file_digest(path) for path in sources],
                beside,
                code_digest("jaxaug.augment", "jaxaug.paraphrase"),
            ]
        )

    @property
    def digest(self) -> str:
        """Digest of everything that determines the output."""
        made = self.decisions
        return digest_of([self.work, made.key()]) if made.decisions else self.work

    @property
    def outputs(self) -> list[str]:
        """Paths below `out` of all files that the run writes, without its manifest."""
        numbers = range(1, self.config.variants + 1)
        names = [f"v{n}/{split}/schema.json" for n in numbers for split in self.texts]
        tables = report.files() if self.config.report else ()
        return [*names, records.CANDIDATES, *tables]

    def check_target(self) -> None:
        """Raises `UserError` if `out` holds inputs of the run or foreign files."""
        read = [self.data_dir, folders.sgdx_folder(self.data_dir)]
        read += [one for one in self.beside.values() if not isinstance(one, Plan)]
        if self.config.is_given:
            read.append(given_folder(self.data_dir, self.config.options["folder"]))
        out = self.out.expanduser().resolve()
        if any(folder.expanduser().resolve() == out for folder in read):
            raise UserError(
                f"--out {self.out}: is a folder of the data that the run reads. Choose "
                f"another one, such as {self.data_dir / 'variants' / 'mine'}."
            )
        if is_same(self.out.parent, self.data_dir / "variants"):
            folders.check_variants_name(self.out)
        records.check_target(self.out)


def resolve(config: Config, data_dir: PathLike, out: PathLike) -> Plan:
    """Resolves a config; loads no model.

    Args:
        data_dir: data folder with `<split>/schema.json`.
        out: variants folder to write; decisions of people are read from it.

    Raises:
        UserError: a file or the config is wrong, or there are decisions about variants
            that are given.
    """
    config = _measurable(config)
    folder = epath.Path(out)
    schemas = {s: read_schema(folders.schema_path(data_dir, s)) for s in config.splits}
    texts = {
        split: descriptions.descriptions(schema, split, config.names)
        for split, schema in schemas.items()
    }
    every = [one for found in texts.values() for one in found]
    made = decisions.read(folder, every, config.variants)
    if made.decisions and config.is_given:
        raise UserError(
            f"{folder / decisions.FILE}: a config that takes given variants makes no "
            "choice to decide about. Edit the variants themselves, or remove the file."
        )
    rounds = [
        registry.made(draw.scheme, seed_of_round(config.seed, number), draw.options)
        for number, draw in enumerate(config.draws)
    ]
    given = {
        split: _given_texts(config, data_dir, schema, split)
        for split, schema in schemas.items()
        if config.is_given
    }
    beside = {
        name: given_folder(data_dir, value)
        if isinstance(value, str)
        else resolve(
            _beside(config, name, value), data_dir, folder / records.BESIDE / name
        )
        for name, value in config.beside.items()
    }
    return Plan(
        config,
        epath.Path(data_dir),
        folder,
        schemas,
        texts,
        rounds,
        made,
        given,
        beside,
    )


def _measurable(config: Config) -> Config:
    """Drops BLEU unless it ranks, if sacrebleu is not installed."""
    note = diversity.without_bleu()
    if not note:
        return config
    ranking = {*config.spec.metrics, config.apart_by}
    metrics, report = (
        {k: v for k, v in found.items() if k not in _BLEU or k in ranking}
        for found in (config.metrics, config.report)
    )
    if (metrics, report) != (config.metrics, config.report):
        logging.warning(note)
    return dataclasses.replace(config, metrics=metrics, report=report)


def seed_of_round(seed: int, number: int) -> int:
    """Returns the seed of a round's outputs; round 0 has the seed of the run."""
    return zlib.crc32(f"round {number} of seed {seed}".encode()) if number else seed


def given_folder(data_dir: PathLike, name: str) -> epath.Path:
    """Returns the folder of variants that a config names: a path, or `sgdx`."""
    if name == "sgdx":
        return folders.sgdx_folder(data_dir)
    return epath.Path(name).expanduser()


def given_path(
    config: Config, data_dir: PathLike, split: str, number: int
) -> epath.Path:
    """Returns `v1/<split>/schema.json`, or `v1/schema.json` for a single split."""
    found = given_folder(data_dir, config.options["folder"])
    flat = found / f"v{number}" / "schema.json"
    if len(config.splits) == 1 and flat.exists():
        return flat
    return folders.variant_schema_path(found, f"v{number}", split)


def _given_texts(
    config: Config, data_dir: PathLike, schema: Schema, split: str
) -> list[Mapping[str, str]]:
    """Returns the texts of given variants by id, matched by position."""
    found: list[Mapping[str, str]] = []
    for number in range(1, config.variants + 1):
        file = given_path(config, data_dir, split, number)
        variant = read_schema(file)
        renaming(schema, variant, str(file))
        items = descriptions.descriptions(variant, split, config.names)
        found.append({item.id: item.text for item in items})
    return found


def _beside(config: Config, name: str, fields: Mapping[str, Any]) -> Config:
    """Returns the config of another run for the report."""
    own = {k: getattr(config, k) for k in ("splits", "variants", "seed")}
    return configs.of(own | dict(fields), f"beside {name!r}")


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


def results(plan: Plan, split: str, shards: Shards) -> list[Result]:
    """Selects the texts of all variants of a split.

    Raises:
        UserError: a scheme cannot work, a metric is not finite, or people chose a name
            that another slot or intent has.
        OSError: a shard cannot be written.
    """
    if plan.config.is_given:
        return _measured(plan, split, shards)
    outputs: Outputs = {}
    judged: dict[str, tuple[Judged, ...]] = {}
    waiting = list(plan.texts[split])
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
    return selection.results(plan.config, plan.texts[split], judged, plan.decided)


def compute_part(plan: Plan, split: str, shards: Shards, part: Part) -> None:
    """Computes a part of the shards of `results`, for a run that reads them all.

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


def _measured(plan: Plan, split: str, shards: Shards) -> list[Result]:
    """Measures the given variants and returns them as results."""
    items_of, variants = plan.texts[split], plan.given[split]
    items = []
    for one in items_of:
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
        for one, judged in zip(items_of, measured, strict=True)
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
        found = shards.run(stage, plan.items(job, texts), chosen)
        for text, given in zip(texts, found, strict=True):
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
        others = descriptions.beside(plan.texts[split])
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
    compute = functools.partial(_judge, plan)
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
    waiting: Sequence[Description],
    judged: Sequence[tuple[Judged, ...]],
    others: Mapping[str, Sequence[str]],
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """Drops candidates that are nearer to another slot or intent of their service."""
    kept = [[one for one in part if not one.dropped] for part in judged]
    items = [
        [list(others[one.id]), [j.candidate.text for j in part]]
        for one, part in zip(waiting, kept, strict=True)
    ]
    # The metric is loaded only if a shard is computed.
    compute = functools.partial(_nearness, plan)
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


def _judge(plan: Plan, shard: Sequence[Json]) -> list[Json]:
    """Returns the reasons and metrics of each candidate, per (source, candidates)."""
    codes: list[list[tuple[str, ...]]] = []
    places: list[tuple[int, int]] = []
    for number, (source, written) in enumerate(shard):
        codes.append(_reasons(plan, Source(*source), written))
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


def _nearness(plan: Plan, shard: Sequence[Json]) -> list[Json]:
    """Returns the nearness of each candidate to others, per (others, candidates)."""
    return measures.nearness(plan.metrics[plan.config.apart_by], shard)


def _reasons(
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
        kept = filters.keeps_command(source.text, rest)
        found = [
            codes if keeps else (NO_COMMAND, *codes)
            for codes, keeps in zip(found, kept, strict=True)
        ]
    codes = iter(found)
    return [next(codes) if text else (EMPTY,) for text in written]
