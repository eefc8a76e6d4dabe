"""The config of a run of `jaxaug augment`: a file with `get_config()`, checked."""

import contextlib
import dataclasses
import json
import math
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_collections

from jaxaug.augment.judge.filters import CHECKS, FILTERS
from jaxaug.augment.language import nlp
from jaxaug.core import config_file, typed
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders

SELECTIONS = ("tree", "order")
GIVEN = "given"
_OF_ROUND = ("scheme", "options")
_TEXTS = ("splits", "filters", "slot_filters", "checks", "sensitive")


Decision = Callable[[Sequence[float]], float]

DECISIONS: Mapping[str, Decision] = {"max": max, "min": min}
"""They choose which value of a level comes first; a user may give another function."""

ROUNDS, SPREAD = "rounds", "spread"
WALKS = (ROUNDS, SPREAD)
"""Methods to take candidates from the tree; see `Spec.walk`."""

BY_DECISIONS = "decisions"
"""The decisions lead to the syntactic paraphrase; see `Spec.syntactic`."""

SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
# Ranges of the metrics of jaxaug; the range of BLEURT covers all its checkpoints.
_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("jaccard", "string_similarity", "bleu", "self_bleu", "entailment"), (0, 1)
    ),
    **dict.fromkeys(("mutual_implication", "faithful"), (0, 1)),
    "similarity": (-1, 1),
    "bleurt": (-2, 1.1),
}
_CONSTRAINT = re.compile(r"\s*([\w.:]+?)\s*(<=|>=|<|>)\s*(\S+)\s*")


def parsed(constraint: str) -> tuple[str, str, float]:
    """Returns the metric, the sign, and the number of a constraint.

    Raises:
        UserError: the constraint has another form, or all or no candidates meet it.
    """
    match = _CONSTRAINT.fullmatch(constraint)
    bound = math.nan
    if match:
        with contextlib.suppress(ValueError):
            bound = float(match[3])
    if match and math.isfinite(bound):
        _check_bound(constraint, match[1], bound)
        return match[1], match[2], bound
    raise UserError(
        f"constraint {constraint!r}: write a metric, one of {', '.join(SIGNS)} and a "
        "number, such as 'jaccard <= 0.75'."
    )


def _check_bound(constraint: str, metric: str, bound: float) -> None:
    least, most = _RANGES.get(metric, (-math.inf, math.inf))
    if not least <= bound <= most:
        raise UserError(
            f"constraint {constraint!r}: {metric} is from {least} to {most}, so all "
            "candidates would pass, or none. Give a number in between."
        )


@dataclass(frozen=True)
class Spec:
    """Settings of a ranking. The defaults are for Pegasus + BART.

    Attributes:
        levels: names of metrics, from the root down.
        decisions: for each level, which of its values comes first; a key of
            `DECISIONS`, or a function that returns one of its arguments.
        constraints: `metric <= number` (or `>=`, `<`, `>`), on values before rounding.
        decimals: to which the values of each level are rounded; one for all levels, or
            one per level. Two decimals match figure 1 (J = 66 of 100, E = .77, S = 77
            of 100).
        diversity: the level whose nodes are visited in rounds; a distance, 0 for the
            words of the source.
        syntactic: how the syntactic paraphrase is chosen from the node of distance 0.
            "decisions" walks depth-first along the decisions, as algorithm 3 does
            everywhere: the greatest entailment, then the least similar string. The name
            of a metric takes the candidate with its least value regardless of the
            decisions, another reading of section 4.1. None takes no syntactic
            paraphrase.
        walk: "rounds" is the traversal of the paper. "spread" takes the candidates that
            differ most from the source and from each other (see
            `jaxaug.augment.selection.taken`); their
            fidelity is the level below the diversity level, or 0 without one.
        prefer: the metric, such as "faithful", whose greatest value decides between
            equally common candidates of a leaf, or nearly equal candidates of `spread`.
    """

    levels: tuple[str, ...] = ("jaccard", "entailment", "string_similarity")
    decisions: tuple[str | Decision, ...] = ("max", "max", "min")
    constraints: tuple[str, ...] = ("jaccard <= 0.75",)
    decimals: int | tuple[int, ...] = 2
    diversity: str = "jaccard"
    syntactic: str | None = BY_DECISIONS
    walk: str = ROUNDS
    prefer: str | None = None

    def __post_init__(self) -> None:
        """Raises `UserError` if the fields are inconsistent."""
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise UserError(
                f"levels {self.levels}: name one metric or more, each of them once."
            )
        if len(self.decisions) != len(self.levels):
            raise UserError(
                f"{len(self.decisions)} decisions for {len(self.levels)} levels: give "
                "one decision for each level."
            )
        if not isinstance(self.decimals, int) and len(self.decimals) != len(
            self.levels
        ):
            raise UserError(
                f"decimals {self.decimals} for {len(self.levels)} levels: give one "
                "number, or one for each level."
            )
        if self.diversity not in self.levels:
            raise UserError(
                f"the diversity metric {self.diversity!r} is not a level; "
                f"{suggestion(self.diversity, self.levels)}"
            )
        for decision in self.decisions:
            if not callable(decision) and decision not in DECISIONS:
                raise UserError(
                    f"{decision!r} is not a decision; {suggestion(decision, DECISIONS)}"
                )
        if self.walk not in WALKS:
            raise UserError(
                f"{self.walk!r} is not a walk; {suggestion(self.walk, WALKS)}"
            )
        for constraint in self.constraints:
            parsed(constraint)

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that a ranking needs."""
        needed = [*self.levels, *(parsed(c)[0] for c in self.constraints)]
        needed += [self.syntactic] if self.syntactic not in (None, BY_DECISIONS) else []
        needed += [self.prefer] if self.prefer else []
        return tuple(dict.fromkeys(needed))

    def decimals_of(self, metric: str) -> int | None:
        """Returns the decimals of a level, or None for a metric that is not a level."""
        if metric not in self.levels:
            return None
        if isinstance(self.decimals, int):
            return self.decimals
        return self.decimals[self.levels.index(metric)]

    def rounded(self, values: Mapping[str, float], metric: str) -> float:
        """Returns a metric of a candidate, rounded to the decimals of its level."""
        decimals = self.decimals_of(metric)
        value = float(values[metric])
        # Adding 0 turns -0.0 into 0.0.
        return value if decimals is None else round(value, decimals) + 0.0


class Round(NamedTuple):
    """The source of a round's candidates.

    Attributes:
        scheme: a name of `jaxaug.augment.schemes.registry.SCHEMES`.
        options: options of the scheme.
    """

    scheme: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Config:
    """One experiment; every field is a field of the ConfigDict of its file.

    Attributes:
        scheme: a name of `jaxaug.augment.schemes.registry.SCHEMES`.
        options: options of the scheme.
        select: `tree` ranks candidates (see `tree`); `order` takes the most common ones
            that pass the filters, in order for equal counts. Scheme `given` takes all.
        variants: K.
        splits: splits whose schemas are augmented.
        names: whether the names of services, slots, and intents are paraphrased too.
        seed: seed of all random draws.
        rounds: maximum number of draws. Each round after the first uses another seed
            and only the texts with fewer candidates left than variants.
        further: schemes that draw after these rounds, for texts that still lack
            variants, as fields of `Round`. `scheme` is required.
        filters: codes of `jaxaug.augment.judge.filters.FILTERS`.
        slot_filters: further filters only for slots; the description of a service or an
            intent may name an action of somebody.
        checks: checks that the paper does not have, of
            `jaxaug.augment.judge.filters.CHECKS`.
        tidy: whether outputs take the first letter's case and the final mark of their
            description, which the paper's do not.
        commands: whether a paraphrase of a service or intent must be a command if its
            source is one; see `jaxaug.augment.judge.filters.keeps_command`.
        apart_by: a metric of `metrics`, greater is nearer. It drops paraphrases of a
            slot that are nearer to another slot of the same service, and of intents
            likewise; see `jaxaug.augment.judge.measures.nearness`. Empty drops none.
        sensitive: words that no candidate may hold.
        min_count: minimum count of a candidate among the outputs.
        metrics: name -> options, see `jaxaug.augment.judge.measures.find`; a user's
            metric has its import path as option `path`.
        measure_dropped: whether dropped candidates get their metrics too.
        tree: fields of `Spec`; needs `select='tree'`.
        report: metrics of the table; see `jaxaug.augment.output.report`.
        beside: other rows of the report: name -> "sgdx", a variants folder, or the
            fields of another run, which is carried out too.
        name: name of this run in the report.
        shard_size: texts of a shard, which an interruption may lose.
    """

    scheme: str
    options: Mapping[str, Any] = field(default_factory=dict)
    select: str = "order"
    variants: int = 5
    splits: tuple[str, ...] = ("train",)
    names: bool = False
    seed: int = 0
    rounds: int = 1
    further: tuple[Mapping[str, Any], ...] = ()
    filters: tuple[str, ...] = ()
    slot_filters: tuple[str, ...] = ()
    checks: tuple[str, ...] = CHECKS
    tidy: bool = True
    commands: bool = False
    apart_by: str = ""
    sensitive: tuple[str, ...] = ()
    min_count: int = 1
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measure_dropped: bool = True
    tree: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    beside: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    name: str = "ours"
    shard_size: int = 16

    def __post_init__(self) -> None:
        """Raises `UserError` if a field is wrong."""
        if self.select not in SELECTIONS:
            raise UserError(
                f"select={self.select!r}: {suggestion(self.select, SELECTIONS)}"
            )
        for name in ("variants", "shard_size", "min_count", "rounds"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: give at least 1.")
        typed.check_seed(self.seed, "seed")
        for name, given, known in (
            ("splits", self.splits, folders.SPLITS),
            ("filters", (*self.filters, *self.slot_filters), FILTERS),
            ("checks", self.checks, CHECKS),
        ):
            for one in given:
                if one not in known:
                    raise UserError(f"{name}: {suggestion(one, known)}")
        if not self.splits or len(set(self.splits)) != len(self.splits):
            raise UserError(f"splits={self.splits}: name one or more, each once.")
        for name, options in {**self.metrics, **self.report}.items():
            for option in ("path", "model"):
                if not isinstance(options.get(option, ""), str):
                    raise UserError(
                        f"metric {name!r}: {option}={options[option]!r}: give a text."
                    )
        if self.apart_by and self.apart_by not in self.metrics:
            raise UserError(
                f"apart_by={self.apart_by!r}: "
                f"{suggestion(self.apart_by, self.metrics)} Add it to metrics."
            )
        for fields in self.further:
            for name in fields:
                if name not in _OF_ROUND:
                    raise UserError(f"further: {suggestion(name, _OF_ROUND)}")
            if fields.get("scheme", GIVEN) == GIVEN:
                raise UserError(
                    f"further: {shown(dict(fields))} draws nothing: name a scheme, "
                    "such as 'paraphrase'."
                )
            typed.check(fields, Round, "further")
        if self.further and self.is_given:
            raise UserError(
                "further is set, and scheme='given' takes all variants: leave further "
                "out."
            )
        if self.tree and self.select != "tree":
            raise UserError(
                f"tree is set, and select={self.select!r}: set select='tree', or "
                "leave tree out."
            )
        if self.select == "tree":
            for metric in self.spec.metrics:
                if metric not in self.metrics:
                    raise UserError(
                        f"the tree needs metric {metric!r}; "
                        f"{suggestion(metric, self.metrics)} Add it to metrics."
                    )

    @property
    def draws(self) -> list[Round]:
        """All rounds, in order."""
        first = Round(self.scheme, self.options)
        further = [Round(one["scheme"], one.get("options", {})) for one in self.further]
        return [first] * self.rounds + further

    @property
    def is_given(self) -> bool:
        """True if the variants come from a folder."""
        return self.scheme == GIVEN

    @property
    def spec(self) -> Spec:
        """The tree of this run.

        Raises:
            UserError: fields are unknown or inconsistent.
        """
        return spec_of(self.tree)

    @property
    def needs_nlp(self) -> bool:
        """True if a run analyzes texts with spaCy."""
        filtered = self.filters or self.slot_filters or self.commands
        if "jaccard" in {**self.metrics, **self.report} and nlp.installed():
            return True
        return bool(filtered)

    @property
    def language(self) -> str:
        """Name and version of the spaCy model; empty if a run does not need it.

        Raises:
            UserError: it is needed, and is not installed.
        """
        return nlp.identity() if self.needs_nlp else ""

    def key(self) -> dict[str, Any]:
        """Returns all fields as JSON."""
        return json.loads(json.dumps(dataclasses.asdict(self), default=_shown))


def spec_of(fields: Mapping[str, Any]) -> Spec:
    """Returns the `Spec` with these fields; lists may replace tuples."""
    known = {item.name for item in dataclasses.fields(Spec)}
    for name in fields:
        if name not in known:
            raise UserError(f"tree: no field {name!r}; {suggestion(name, known)}")
    return typed.made(Spec, fields, "tree")


def load(path: PathLike) -> Config:
    """Returns the config of a file.

    Args:
        path: `file.py`, or `file.py:TEXT`; the text is the argument of `get_config`.

    Raises:
        UserError: the file or its `get_config` does not exist, `get_config` takes no
            argument or needs one, or a field is unknown or wrong.
    """
    path = os.fspath(path)
    fields, file = config_file.read(path, "configs/augment")
    return of(fields, file)


def of(config: ml_collections.ConfigDict | Mapping[str, Any], where: str) -> Config:
    """Returns the checked form of a ConfigDict.

    Raises:
        UserError: a field is unknown or wrong.
    """
    fields = config_file.fields_of(config)
    known = {item.name for item in dataclasses.fields(Config)}
    for name in fields:
        if name not in known:
            raise UserError(f"{where}: no field {name!r}; {suggestion(name, known)}")
    if "scheme" not in fields:
        raise UserError(f"{where}: the field 'scheme' is missing. Name a scheme.")
    for name in _TEXTS:
        if isinstance(fields.get(name, ()), str):
            raise UserError(f"{where}: {name} is a text; write a tuple of texts.")
    typed.check(fields, Config, where)
    for name in (*_TEXTS, "further"):
        if name in fields:
            fields[name] = tuple(fields[name])
    try:
        return Config(**fields)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _shown(value: Any) -> str:
    """Returns the name of a tree's decision function, for a key."""
    return f"{value.__module__}:{value.__qualname__}"
