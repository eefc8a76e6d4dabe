"""The preview of `jaxaug augment --dry_run`, which loads no model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jaxaug_base.files import absolute

from jaxaug.augment.config import SPREAD, Config
from jaxaug.augment.judge import measures
from jaxaug.augment.output import records
from jaxaug.augment.plan import Plan, given_folder
from jaxaug.augment.schemes.registry import Job
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.models.named import catalogue, packages


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
    try:
        return [f"spaCy: {config.language}"] if config.needs_nlp else []
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
