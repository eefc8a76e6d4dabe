"""Ranking by a tree: few paraphrases that are both diverse and faithful.

The source is Coca et al. (2023), "More Robust Schema-Guided Dialogue State Tracking via
Tree-Based Paraphrase Ranking", algorithms 1 (the tree) and 3 (the traversal).

Each level of the tree splits the candidates of a node by the rounded value of one
metric. A candidate with the words of the source (distance 0) is taken first: a
syntactic paraphrase. Then the traversal visits the nodes of the diversity level in
rounds. In each node, the decision functions of the levels below lead to a leaf. The
most common candidate of the leaf is selected and pruned.
"""

import contextlib
import functools
import hashlib
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxaug.augment.grammar import vocabulary
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

_WORD = re.compile(r"[^\W\d_]+")
# Share of the frame in the distance; the content words have the rest.
_FRAME = 0.25
# Points of distance that a point of fidelity is worth.
_FIDELITY = 0.6
# Choices within this many points of the best one are nearly equal.
_NEAR = 0.05
_USER = frozenset(["user", "you", "your", "want", "wants", "people"])
_CLOSED = (
    vocabulary.PREPOSITIONS
    | vocabulary.QUESTIONS
    | vocabulary.AUXILIARIES
    | vocabulary.OTHERS
    | vocabulary.DETERMINERS
    | _USER
)
_ARTICLES = frozenset(["a", "an", "the"])


class Choice(NamedTuple):
    """A candidate.

    Attributes:
        text: text of the candidate.
        distance: distance from the source, 0 to 1.
        fidelity: greater is better, such as a similarity of meaning.
        preference: greater is better; decides among choices that are nearly equal.
    """

    text: str
    distance: float
    fidelity: float
    preference: float = 0.0


def taken(choices: Sequence[Choice], k: int) -> list[int]:
    """Returns the indices of up to k choices that differ most in their words.

    The selection is greedy max-min. Each step takes the candidate with the greatest
    least distance to the source and to all earlier candidates, plus a share of its
    fidelity.

    Args:
        choices: choices with distinct texts; of equal choices the first is taken.
    """
    least = [choice.distance for choice in choices]
    left, order = list(range(len(choices))), list[int]()
    while left and len(order) < k:
        score = {at: least[at] + _FIDELITY * choices[at].fidelity for at in left}
        near = max(score.values()) - _NEAR
        best = max(
            (at for at in left if score[at] >= near),
            key=lambda at: (choices[at].preference, score[at]),
        )
        left.remove(best)
        order.append(best)
        for at in left:
            apart = distance(choices[best].text, choices[at].text)
            least[at] = min(least[at], apart)
    return order


def distance(first: str, second: str) -> float:
    """Returns the difference of two texts in words and frame, 0 to 1.

    The frame is the closed-class words without articles, and the kind of the first
    word. Both parts are Jaccard distances.
    """
    one, other = _parts(first), _parts(second)
    words, frames = (_jaccard(a, b) for a, b in zip(one, other, strict=True))
    return (1 - _FRAME) * words + _FRAME * frames


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return 1 - len(first & second) / len(union) if union else 0.0


@functools.lru_cache(20_000)
def _parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns (bases of the content words, frame)."""
    words = _WORD.findall(text.lower())
    frame = {word for word in words if word in _CLOSED - _ARTICLES}
    frame.add("first " + (words[0] if words and words[0] in _CLOSED else "open"))
    return frozenset(_base(w) for w in words if w not in _CLOSED), frozenset(frame)


def _base(word: str) -> str:
    forms = vocabulary.verb_forms(word)
    return forms[-1].base if forms else vocabulary.singular(word)


Decision = Callable[[Sequence[float]], float]

DECISIONS: Mapping[str, Decision] = {"max": max, "min": min}
"""They choose which value of a level comes first; a user may give another function."""

ROUNDS, SPREAD = "rounds", "spread"
WALKS = (ROUNDS, SPREAD)
"""Methods to take candidates from the tree; see `Spec.walk`."""

BY_DECISIONS = "decisions"
"""The decisions lead to the syntactic paraphrase; see `Spec.syntactic`."""

_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
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


def _parsed(constraint: str) -> tuple[str, str, float]:
    match = _CONSTRAINT.fullmatch(constraint)
    bound = math.nan
    if match:
        with contextlib.suppress(ValueError):
            bound = float(match[3])
    if match and math.isfinite(bound):
        _check_bound(constraint, match[1], bound)
        return match[1], match[2], bound
    raise UserError(
        f"constraint {constraint!r}: write a metric, one of {', '.join(_SIGNS)} and a "
        "number, such as 'jaccard <= 0.75'."
    )


def _check_bound(constraint: str, metric: str, bound: float) -> None:
    least, most = _RANGES.get(metric, (-math.inf, math.inf))
    if not least <= bound <= most:
        raise UserError(
            f"constraint {constraint!r}: {metric} is from {least} to {most}, so all "
            "candidates would pass, or none. Give a number in between."
        )


@dataclass(frozen=True, slots=True)
class Item:
    """A candidate: its text, its count among the outputs, and its metrics by name."""

    text: str
    count: int
    values: Mapping[str, float]


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
            differ most from the source and from each other (see `taken`); their
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
            _parsed(constraint)

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that a ranking needs."""
        needed = [*self.levels, *(_parsed(c)[0] for c in self.constraints)]
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

    def rounded(self, item: Item, metric: str) -> float:
        """Returns the value of a candidate, rounded to the decimals of its level."""
        decimals = self.decimals_of(metric)
        value = float(item.values[metric])
        # Adding 0 turns -0.0 into 0.0.
        return value if decimals is None else round(value, decimals) + 0.0


@dataclass(frozen=True)
class Node:
    """A node of the tree.

    Attributes:
        metric: the metric by which the parent splits; None for the root.
        value: rounded value of all candidates below; None for the root.
        children: child nodes in the order of the decision function; empty in a leaf.
        items: the candidates of a leaf, the most common one first.
    """

    metric: str | None
    value: float | None
    children: tuple["Node", ...] = ()
    items: tuple[Item, ...] = ()

    def leaves(self) -> Iterator["Node"]:
        """Yields the leaves in the order of a depth-first walk along the decisions."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def at(self, depth: int) -> Iterator["Node"]:
        """Yields the nodes `depth` levels below, in the order of the decisions."""
        if not depth:
            yield self
            return
        for child in self.children:
            yield from child.at(depth - 1)


@dataclass(frozen=True)
class Ranking:
    """The result of `rank`.

    Attributes:
        selected: candidates in the order of selection; see `most_similar_first`.
        tree: tree of all candidates that meet the constraints.
        dropped: the other candidates, each with the constraints that it breaks.
    """

    selected: tuple[Item, ...]
    tree: Node
    dropped: tuple[tuple[Item, tuple[str, ...]], ...] = ()


def broken(item: Item, spec: Spec) -> tuple[str, ...]:
    """Returns the constraints that a candidate does not meet.

    Raises:
        UserError: a metric of the constraints or levels is missing or not finite.
    """
    for metric in spec.metrics:
        if metric not in item.values:
            raise UserError(
                f"candidate {item.text!r} has no metric {metric!r}; "
                f"{suggestion(metric, item.values)} Add it to the metrics of the run."
            )
        if not math.isfinite(item.values[metric]):
            raise UserError(
                f"metric {metric!r} of candidate {item.text!r} is "
                f"{item.values[metric]}; values must be finite. Correct the metric, or "
                "take another one for the tree."
            )
    return tuple(
        constraint
        for constraint in spec.constraints
        for metric, sign, bound in [_parsed(constraint)]
        if not _SIGNS[sign](item.values[metric], bound)
    )


def build(items: Sequence[Item], spec: Spec, seed: int = 0) -> Node:
    """Returns the tree of the candidates that meet the constraints (algorithm 1).

    Raises:
        UserError: see `broken`; or a decision function returns none of its arguments.
    """
    kept = [item for item in items if not broken(item, spec)]
    return _node(None, None, kept, spec, 0, seed)


def rank(items: Sequence[Item], spec: Spec, k: int, seed: int = 0) -> Ranking:
    """Selects up to k candidates by the traversal (algorithm 3).

    The result does not depend on the order of the items.

    Args:
        items: candidates with distinct texts.
        k: maximum number of candidates; the constraints may leave fewer.
        seed: determines the order of equally common candidates of a leaf.

    Raises:
        UserError: k < 1, or see `build`.
    """
    if k < 1:
        raise UserError(f"k={k} paraphrases: ask for at least 1.")
    dropped = [(item, broken(item, spec)) for item in items]
    tree = build(items, spec, seed)
    pairs = tuple(pair for pair in dropped if pair[1])
    if spec.walk == SPREAD:
        return Ranking(tuple(_spread(tree, spec, k)), tree, pairs)
    nodes = list(tree.at(spec.levels.index(spec.diversity) + 1))
    waiting = [
        [item for leaf in node.leaves() for item in leaf.items] for node in nodes
    ]
    selected: list[Item] = []
    first = _syntactic(nodes, spec)
    if first:
        place, item = first
        waiting[place].remove(item)
        selected.append(item)
    # The traversal walks to the preferred leaf, takes its most common candidate, and
    # prunes it. Repeated walks give the order of the leaves, so each visit takes the
    # next candidate.
    while len(selected) < k and any(waiting):
        for queue in waiting:
            if queue and len(selected) < k:
                selected.append(queue.pop(0))
    return Ranking(tuple(selected), tree, pairs)


def _spread(tree: Node, spec: Spec, k: int) -> list[Item]:
    """Returns up to k candidates of a tree that differ most; see `taken`."""
    items = [item for leaf in tree.leaves() for item in leaf.items]
    below = spec.levels.index(spec.diversity) + 1
    fidelity = spec.levels[below] if below < len(spec.levels) else None
    choices = [
        Choice(
            item.text,
            float(item.values[spec.diversity]),
            float(item.values[fidelity]) if fidelity else 0.0,
            _preference(item, spec),
        )
        for item in items
    ]
    return [items[place] for place in taken(choices, k)]


def most_similar_first(selected: Sequence[Item], spec: Spec) -> list[Item]:
    """Returns the selected candidates in the order of variants: v1 is nearest to the
    source.

    The order is by diversity metric, falling string similarity if measured, and text.
    """
    return sorted(
        selected,
        key=lambda item: (
            item.values[spec.diversity],
            -item.values.get("string_similarity", 0.0),
            item.text,
        ),
    )


def _node(
    metric: str | None,
    value: float | None,
    items: Sequence[Item],
    spec: Spec,
    depth: int,
    seed: int,
) -> Node:
    if depth == len(spec.levels) or not items:
        order = sorted(
            items, key=lambda i: (-i.count, -_preference(i, spec), _tie(i.text, seed))
        )
        return Node(metric, value, items=tuple(order))
    level = spec.levels[depth]
    groups: dict[float, list[Item]] = {}
    for item in items:
        groups.setdefault(spec.rounded(item, level), []).append(item)
    children = tuple(
        _node(level, key, groups[key], spec, depth + 1, seed)
        for key in _ordered(list(groups), spec.decisions[depth])
    )
    return Node(metric, value, children)


def _ordered(values: list[float], decision: str | Decision) -> list[float]:
    """Returns values in the order in which a decision function takes them."""
    decide = DECISIONS[decision] if isinstance(decision, str) else decision
    left, order = sorted(values), []
    while left:
        chosen = decide(tuple(left))
        if chosen not in left:
            raise UserError(
                f"decision function {decide!r} chose {chosen!r} out of {left}: it must "
                "return one of the values that it is given."
            )
        left.remove(chosen)
        order.append(chosen)
    return order


def _syntactic(nodes: Sequence[Node], spec: Spec) -> tuple[int, Item] | None:
    """Returns a candidate with the words of the source, and the index of its node."""
    metric = spec.syntactic
    found = [
        (place, item)
        for place, node in enumerate(nodes)
        if node.value == 0
        for leaf in node.leaves()
        for item in leaf.items
    ]
    if metric is None or not found:
        return None
    if metric == BY_DECISIONS:
        return found[0]
    # Of equal values, `min` takes the first: the preferred leaf's most common
    # candidate.
    return min(found, key=lambda pair: spec.rounded(pair[1], metric))


def _preference(item: Item, spec: Spec) -> float:
    return float(item.values[spec.prefer]) if spec.prefer else 0.0


def _tie(text: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}\n{text}".encode(), digest_size=16).digest()
