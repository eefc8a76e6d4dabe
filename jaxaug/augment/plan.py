"""A resolved run of `jaxaug augment`: texts, jobs, outputs, and digest.

The preview of `--dry_run` loads no model.
"""

import dataclasses
import functools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging
from etils import epath
from jaxaug_base.files import absolute, is_same

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decided, Decisions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.grammar.rules import contexts
from jaxaug.augment.judge import measures
from jaxaug.augment.language import nlp
from jaxaug.augment.output import records, report
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job
from jaxaug.augment.tree import SPREAD
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.shards import Json
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema
from jaxaug.metrics import diversity
from jaxaug.models.named import catalogue, packages

_BLEU = ("bleu", "self_bleu")
JUDGED, APART = "judged", "apart"
"""Stages that judge candidates; shards are in folders with these names."""


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

    @functools.cached_property
    def contexts(self) -> dict[str, list[Json]]:
        """Text -> the contexts of its occurrences in all schemas, as JSON."""
        found: dict[str, list[Json]] = {}
        for schema in self.schemas.values():
            for text, places in contexts(schema).items():
                known = found.setdefault(text, [])
                known += [one for p in places if (one := p.to_json()) not in known]
        return found

    def items(self, job: Job, texts: Sequence[str]) -> list[Json]:
        """Returns the texts as a job takes them, with contexts if it needs them."""
        if job.endpoint or job.in_schema:
            return descriptions.with_contexts(texts, self.every)
        if not job.needs_context:
            return list(texts)
        return [[text, self.contexts.get(text, [])] for text in texts]

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
                "language": nlp.identity() if config.needs_nlp else "",
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
        split: _given(config, data_dir, schema, split)
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


def _given(
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


def preview(plan: Plan) -> str:
    """Returns the preview of a run: texts, settings, metrics, models, and files.

    Raises:
        UserError: a metric or a model is unknown, options of a metric are wrong, or the
            run could not write into its folder.
    """
    plan.check_target()
    config = plan.config
    distinct = len({one.text for one in plan.every})
    kinds = Counter(one.kind for one in plan.every)
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    splits = ", ".join(f"{name} {len(found)}" for name, found in plan.texts.items())
    others = [other for other in plan.beside.values() if isinstance(other, Plan)]
    before = "a folder that is there" if plan.out.exists() else "a new folder"
    lines = [
        f"{config.name}: a dry run; nothing was computed or written",
        f"texts: {len(plan.every)} ({distinct} distinct) of {splits}; {counts}",
        *([] if config.is_given else _generation(plan)),
        *_endpoints(plan),
        *_language(config),
        f"metrics: {_metrics(config.metrics)}",
        f"metrics of the report: {_metrics(config.report)}",
        f"variants: v1..v{config.variants} by {_selection(config)}",
        *(f"reads {name}: {what}" for name, what in _reads(plan)),
        *_models(models([plan, *others])),
        *([str(plan.decisions)] if plan.decisions.decisions else []),
        f"would write to {plan.out}, {before}:",
        *(f"  {name}" for name in (*plan.outputs, records.MANIFEST)),
    ]
    return "\n".join(lines)


def _endpoints(plan: Plan) -> Iterator[str]:
    """Yields the expected requests to models behind endpoints, without repetitions."""
    texts = list(dict.fromkeys(one.text for one in plan.every))
    for other in (plan, *plan.beside.values()):
        for place, jobs in enumerate(_rounds(other) if isinstance(other, Plan) else ()):
            for job in jobs:
                if job.endpoint:
                    yield from job.endpoint.plan(other.items(job, texts))
                    if place:
                        yield "  fewer, if not all texts lack variants in that round"


def _reads(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yields (name, description) of variants that the run reads or its report shows."""
    for name, other in plan.beside.items():
        if isinstance(other, Plan):
            yield name, f"a separate run, {_outputs(other)}"
        else:
            yield name, f"{other}{'' if other.exists() else ' (not there)'}"
    if plan.config.is_given:
        found = given_folder(plan.data_dir, plan.config.options["folder"])
        yield "variants", str(found)


def _outputs(plan: Plan) -> str:
    jobs = plan.rounds[0]
    most = sum(job.most for job in jobs)
    return f"{most} outputs of each text at most, from {len(jobs)} settings"


def models(plans: Iterable[Plan]) -> list[str]:
    """Returns the names of all models of some runs.

    The models of the schemes come first, then the models of the metrics.

    Raises:
        UserError: a metric is unknown, or its options are wrong.
    """
    runs = list(plans)
    jobs = [job for plan in runs for jobs in _rounds(plan) for job in jobs]
    found = [name for job in jobs for name in job.models]
    found += [name for plan in runs for name in _of_metrics(_checked(plan.config))]
    return found


def _rounds(plan: Plan) -> list[Sequence[Job]]:
    """Returns the jobs of the first round and of the rounds with another scheme."""
    return [plan.rounds[0], *plan.rounds[plan.config.rounds :]]


def _generation(plan: Plan) -> list[str]:
    config = plan.config
    few = f"fewer than {config.variants} candidates left"
    further = []
    for number, draw in enumerate(config.draws[config.rounds :], config.rounds):
        further.append(
            f"round {number + 1}, for texts with {few}: scheme {draw.scheme}"
        )
        further += [f"  {job.most:4}  {job.label}" for job in plan.rounds[number]]
    few = f"rounds: at most {config.rounds}, after the first for texts with {few}"
    return [
        f"scheme {config.scheme}: {_outputs(plan)}",
        *([few] if config.rounds > 1 else []),
        *(f"  {job.most:4}  {job.label}" for job in plan.rounds[0]),
        *further,
        f"filters: {_listed(config.filters)}",
        f"filters of slots alone: {_listed(config.slot_filters)}",
        f"checks: {_listed(config.checks)}",
    ]


def _checked(config: Config) -> dict[str, Mapping[str, object]]:
    """Returns all metrics of a run after a check that they exist."""
    found = {**config.metrics, **config.report}
    for name, options in found.items():
        own = {key: value for key, value in options.items() if key != "path"}
        measures.check(options.get("path", name), own)
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _language(config: Config) -> list[str]:
    """Returns a line about the spaCy model, if it is needed."""
    if not config.needs_nlp:
        return []
    try:
        return [f"spaCy: {nlp.identity()}"]
    except UserError as error:
        return [f"spaCy: not here: {error}"]


def _metrics(metrics: Mapping[str, Mapping[str, object]]) -> str:
    parts = []
    for name, options in metrics.items():
        used = _of_metrics({name: options})
        parts.append(f"{name} ({used[0]})" if used else name)
    return _listed(parts)


def _of_metrics(metrics: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Returns the models of metrics; a user's metric has the option `model`."""
    found: list[str] = []
    for name, options in metrics.items():
        path = str(options.get("path", name))
        named = [str(options["model"])] if "model" in options else []
        found += named if ":" in path else measures.models(path, options)
    return found


def _selection(config: Config) -> str:
    if config.is_given:
        return "the folder that gives them"
    if config.select != "tree":
        return "how often a candidate came up"
    spec = config.spec
    levels = ", ".join(
        f"{decision if isinstance(decision, str) else 'a function of'} {level}"
        for decision, level in zip(spec.decisions, spec.levels, strict=True)
    )
    prefer = f", of nearly equal ones the greatest {spec.prefer}" if spec.prefer else ""
    apart = ", as different from each other as can be" * (spec.walk == SPREAD)
    return f"a tree over {levels}{apart}{prefer}; {_listed(spec.constraints)}"


def _models(names: Iterable[str]) -> list[str]:
    """Returns a line for each model: whether it is here, and how to fetch it if not."""
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return ["models: none"]
    width = max(map(len, distinct))
    return ["models:", *(f"  {name:{width}}  {_state(name)}" for name in distinct)]


def _state(name: str) -> str:
    # Imported here, as models import JAX.
    from jaxaug.models.text.registry import MODELS

    if absolute(name).exists():
        return "here, a folder"
    if "+" in name:
        return "; ".join(_state(part) for part in name.split("+", 1))
    if name in catalogue.CATALOGUE:
        named = catalogue.CATALOGUE[name]
        if named.on_disk:
            return "here"
        if named.package:
            return f"not here: {packages.PACKAGES[name].size / 1e6:.0f} MB to fetch"
        return f"not here: `jaxaug models fetch {name}`"
    if name in MODELS:
        return "one of ours, made or found when it is used"
    raise UserError(
        f"model {name!r} is neither a name of a model nor a folder; "
        f"{suggestion(name, [*MODELS, *catalogue.CATALOGUE])}"
    )
