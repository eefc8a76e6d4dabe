"""Selection of the candidates that become the variants of descriptions.

A ranking by a tree selects few paraphrases that are both diverse and faithful. The
source is Coca et al. (2023), "More Robust Schema-Guided Dialogue State Tracking via
Tree-Based Paraphrase Ranking", algorithms 1 (the tree) and 3 (the traversal).

Each level of the tree splits the candidates of a node by the rounded value of one
metric. A candidate with the words of the source (distance 0) is taken first: a
syntactic paraphrase. Then the traversal visits the nodes of the diversity level in
rounds. In each node, the decision functions of the levels below lead to a leaf. The
most common candidate of the leaf is selected and pruned.
"""

import dataclasses
import functools
import hashlib
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions
from jaxaug.augment.config import Config, Decision, Spec
from jaxaug.augment.decisions import Decided
from jaxaug.augment.descriptions import Description
from jaxaug.augment.grammar import vocabulary
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.paraphrase.candidates import Candidate

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


@dataclass(frozen=True, slots=True)
class Item:
    """A candidate: its text, its count among the outputs, and its metrics by name."""

    text: str
    count: int
    values: Mapping[str, float]


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
        for metric, sign, bound in [configs.parsed(constraint)]
        if not configs.SIGNS[sign](item.values[metric], bound)
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
    if spec.walk == configs.SPREAD:
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
        groups.setdefault(spec.rounded(item.values, level), []).append(item)
    children = tuple(
        _node(level, key, groups[key], spec, depth + 1, seed)
        for key in _ordered(list(groups), spec.decisions[depth])
    )
    return Node(metric, value, children)


def _ordered(values: list[float], decision: str | Decision) -> list[float]:
    """Returns values in the order in which a decision function takes them."""
    decide = configs.DECISIONS[decision] if isinstance(decision, str) else decision
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
    if metric == configs.BY_DECISIONS:
        return found[0]
    # Of equal values, `min` takes the first: the preferred leaf's most common
    # candidate.
    return min(found, key=lambda pair: spec.rounded(pair[1].values, metric))


def _preference(item: Item, spec: Spec) -> float:
    return float(item.values[spec.prefer]) if spec.prefer else 0.0


def _tie(text: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}\n{text}".encode(), digest_size=16).digest()


@dataclass(frozen=True)
class Judged:
    """A candidate with its metrics and reasons.

    Attributes:
        candidate: text, count, settings.
        values: metric -> value; empty if not measured.
        dropped: reasons; empty if the candidate may be selected.
    """

    candidate: Candidate
    values: Mapping[str, float]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """The result for one description.

    Attributes:
        description: the description in the schema.
        judged: its candidates, the most common first.
        selected: texts of its variants, v1 first. With too few candidates, the first
            ones are the original text.
        kept: number of variants that keep the original because there are too few
            candidates.
        ranking: ranking by a tree.
    """

    description: Description
    judged: tuple[Judged, ...]
    selected: tuple[str, ...]
    kept: int
    ranking: Ranking | None = None


SELDOM, CONSTRAINT = "seldom", "constraint"
"""Reasons of the selection, with `decisions.REJECTED`; constraints follow a colon."""
REASONS = (SELDOM, CONSTRAINT, decisions.REJECTED)


def results(
    config: Config,
    items: Sequence[Description],
    judged: Mapping[str, Sequence[Judged]],
    decided: Mapping[str, Decided],
) -> list[Result]:
    """Selects the variants of all descriptions of a schema.

    Args:
        judged: id -> candidates.
        decided: id -> decisions of people, for the descriptions that have any.

    Raises:
        UserError: people chose a name that another slot or intent has.
    """
    found = [
        select(config, one, judged[one.id], decided.get(one.id, decisions.NOTHING))
        for one in items
    ]
    _separate_names(found)
    for result in found:
        key = result.description.id
        for number, text in decided.get(key, decisions.NOTHING).pinned.items():
            if result.selected[number - 1] != text:
                raise UserError(
                    f"{decisions.FILE}: {key}: v{number} is decided to be {text!r}, "
                    "which another slot or intent of the service is called too. Decide "
                    "for another name."
                )
    return found


def select(
    config: Config,
    description: Description,
    judged: Sequence[Judged],
    decided: Decided = decisions.NOTHING,
) -> Result:
    """Returns the texts of the variants of one description, the most similar first.

    Texts that people accepted or typed have a fixed place. The ranking fills the other
    places, without the texts that people refused.
    """
    judged = [
        dataclasses.replace(
            one, dropped=(*one.dropped, *_reasons(config, one, decided))
        )
        for one in judged
    ]
    pinned = set(decided.pinned.values())
    free = config.variants - len(decided.pinned)
    if config.select == "tree":
        ranking, judged = _ranked(config, description, judged)
        items = [item for item in ranking.selected if item.text not in pinned]
        ordered = most_similar_first(items[:free], config.spec)
        chosen = [item.text for item in ordered]
    else:
        ranking = None
        chosen = [j.candidate.text for j in judged if not j.dropped]
        chosen = [text for text in chosen if text not in pinned][:free]
        if "jaccard" in config.metrics:
            values = {j.candidate.text: j.values for j in judged}
            chosen.sort(key=lambda text: values[text]["jaccard"])
    kept = free - len(chosen)
    # The original is the most similar to itself, so the order of variants holds.
    selected = decided.texts([*[description.text] * kept, *chosen])
    return Result(description, tuple(judged), selected, kept, ranking)


def _reasons(config: Config, one: Judged, decided: Decided) -> list[str]:
    found = [SELDOM] if one.candidate.count < config.min_count else []
    refused = one.candidate.text in decided.refused
    return [*found, decisions.REJECTED] if refused else found


def _ranked(
    config: Config, description: Description, judged: Sequence[Judged]
) -> tuple[Ranking, list[Judged]]:
    items = [
        Item(j.candidate.text, j.candidate.count, j.values)
        for j in judged
        if not j.dropped
    ]
    # Descriptions of equal texts need not get equal variants.
    seed = zlib.crc32(f"{config.seed} {description.id}".encode())
    ranking = rank(items, config.spec, config.variants, seed)
    broken = {item.text: names for item, names in ranking.dropped}
    return ranking, [
        dataclasses.replace(
            one,
            dropped=(
                *one.dropped,
                *(f"{CONSTRAINT}: {c}" for c in broken.get(one.candidate.text, ())),
            ),
        )
        for one in judged
    ]


def _separate_names(results: list[Result]) -> None:
    """Gives names back until no two slots or intents of a service have one name."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, result in enumerate(results):
        one = result.description
        if one.kind in ("slot_name", "intent_name"):
            groups.setdefault((one.id.rpartition("/")[0], one.kind), []).append(place)
    for places in groups.values():
        for number in range(len(results[places[0]].selected)):
            while _give_back(results, places, number):
                pass


def _give_back(results: list[Result], places: Sequence[int], number: int) -> bool:
    """Gives one name of a variant back if two are equal; the original names differ."""
    taken: dict[str, int] = {}
    for place in places:
        one, text = results[place].description, results[place].selected[number]
        changed = text != one.text
        name = descriptions.name_of(text, one.name) if changed else one.name
        other = taken.setdefault(name, place)
        if other != place:
            loser = place if changed else other
            own = list(results[loser].selected)
            own[number] = results[loser].description.text
            kept = results[loser].kept + 1
            results[loser] = dataclasses.replace(
                results[loser], selected=tuple(own), kept=kept
            )
            return True
    return False
