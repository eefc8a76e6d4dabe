"""Computes how far answers depend on descriptions, and which descriptions matter."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.metrics import excess
from jaxaug.metrics.bootstrap import Figure, holm, paired
from jaxaug.metrics.sensitivity import schema_sensitivity
from jaxaug.tools.cases import (
    CONTROL,
    ORIGINAL,
    Case,
    Tool,
    Wordings,
    arguments_of,
    texts_of,
)
from jaxaug.tools.match import Outcome, score, score_state
from jaxaug.tools.models import Reply
from jaxaug.tools.views import without

KINDS = ("exact", "fuzzy")
POINTS = 0.05
"""The loss that a measurement should be able to show, as a fraction."""
SENSITIVE, NOT_SHOWN = "sensitive", "not shown"
TOO_FEW, NOT_REWORDED = "too few cases", "no verdict"
LENGTHS = {"1 to 5 words": 5, "6 to 20 words": 20, "over 20 words": 10**9}
Replies = Mapping[str, Sequence[Sequence[Reply]]]
"""Maps the name of a wording to the replies to its cases, for each repeat."""
Scores = Float[np.ndarray, "wordings repeats cases"]
_LEVEL = 0.05  # Probability of naming any description that costs nothing.
_MOST_PERMUTATIONS = 20_000
# Values of JSON Schema that are data, and those that map names to schemas.
_DATA = ("default", "enum", "const", "example", "examples")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Described:
    """Results of one description under each of its texts.

    Attributes:
        tool: name of the tool.
        argument: name of the argument; "" if the description belongs to the tool.
        cases: number of cases in which an answer scores the argument or the tool.
        options: pairs (text, share), the given text first. The share is the fraction of
            the answers to these cases in which the argument or the tool was right.
        p: p-value of the hypothesis that the text does not matter, corrected for the
            number of descriptions (Holm); None if the description has one text.
    """

    tool: str
    argument: str
    cases: int
    options: tuple[tuple[str, float], ...]
    p: float | None

    @property
    def given(self) -> float:
        """The share of right cases under the given text."""
        return self.options[0][1]

    @property
    def worst(self) -> tuple[str, float]:
        """The text with the smallest share, and the share."""
        return min(self.options, key=lambda one: one[1])

    @property
    def best(self) -> tuple[str, float]:
        """The text with the greatest share, and the share; the given text wins ties."""
        return max(self.options, key=lambda one: one[1])

    @property
    def is_shown(self) -> bool:
        """True if the text matters."""
        return self.p is not None and self.p <= _LEVEL


@dataclass(frozen=True, slots=True)
class Coverage:
    """Texts of the tools that have another text under some wording.

    Attributes:
        reworded: maps a kind or a length to the number of such texts.
        texts: maps it to the number of all texts. The key "all" counts every text.
    """

    reworded: Mapping[str, int]
    texts: Mapping[str, int]

    @property
    def is_enough(self) -> bool:
        """True if at least half of the texts are reworded."""
        return 2 * self.reworded.get("all", 0) >= self.texts.get("all", 0) > 0


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to the question whether a model is sensitive to wordings.

    Attributes:
        verdict: `SENSITIVE`, `NOT_SHOWN`, `TOO_FEW`, or `NOT_REWORDED`.
        p: p-value of the hypothesis that no answer depends on the wording.
        between: disagreement of answers under different wordings.
        within: disagreement of answers under one wording, the noise of the server.
        excess: `between` - `within`.
        wording: the wording whose accuracy differs most from the other accuracies.
        loss: the accuracy that it loses; negative for a gain.
        p_loss: p-value of this loss, corrected for the number of wordings.
        cases: number of cases.
        needed: number of cases that would show a loss of `POINTS` under one wording.
    """

    verdict: str
    p: float
    between: float
    within: float
    excess: Figure
    wording: str
    loss: float
    p_loss: float
    cases: int
    needed: int


class Compared(NamedTuple):
    """An axis compared with the original alone.

    Attributes:
        difference: accuracy under the axis minus the accuracy of the original and its
            control.
        excess: disagreement of answers under the axis with the others, minus
            disagreement within either.
        p: p-value of the hypothesis that no answer depends on the axis, corrected for
            the number of axes (Holm).
    """

    difference: Figure
    excess: Figure
    p: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of a model.

    Attributes:
        wordings: names of the wordings, then of the axes.
        axes: maps a change of the tools to its effect. In addition, only `scores`,
            `flips`, and `forms` include it.
        scores: maps a kind of `KINDS` to the scores.
        flips: for each wording, the disagreement of its answers with those under the
            original; None for the original itself.
        ss: maps a kind to the schema sensitivity of SGD-X; None if undefined.
        result: the result of the test.
        coverage: which texts were reworded.
        forms: maps the form of a reply to the number of such replies.
        descriptions: descriptions that a case scores: first those that are shown to
            matter, then by the number of cases that the best text gets right and the
            worst gets wrong.
        is_state: whether calls were scored as dialogue states. If so, fuzzy scores are
            the joint goal accuracy of SGD.
    """

    wordings: tuple[str, ...]
    axes: Mapping[str, Compared]
    scores: Mapping[str, Scores]
    flips: tuple[float | None, ...]
    ss: Mapping[str, float | None]
    result: Result
    coverage: Coverage
    forms: Mapping[str, int]
    descriptions: tuple[Described, ...]
    is_state: bool


def outcome(case: Case, reply: Reply, fuzzy: bool) -> Outcome:
    """Scores a reply; see `jaxaug.tools.match`."""
    if not case.is_state:
        return score(case.expected, case.original(reply.calls), fuzzy)
    return score_state(
        case.expected[0], reply.calls, arguments_of(case.tools[0]), fuzzy
    )


def outcomes(
    wordings: Wordings, replies: Replies, fuzzy: bool
) -> dict[str, list[list[Outcome]]]:
    """Returns the outcome of each case: wording -> repeat -> case."""
    return {
        name: [
            [outcome(*pair, fuzzy) for pair in zip(cases, row, strict=True)]
            for row in replies[name]
        ]
        for name, cases in wordings.items()
    }


def measure(
    wordings: Wordings, replies: Replies, axes: Wordings | None = None
) -> Measured:
    """Measures the replies of a model.

    Args:
        wordings: the cases under each wording, with the original and the control.
        replies: the replies to them, and to the cases of the axes.
        axes: the cases under further changes of their tools.
    """
    every = {**wordings, **(axes or {})}
    names, cases = tuple(every), wordings[ORIGINAL]
    is_state = all(case.is_state for case in cases)
    found = {k: outcomes(every, replies, k == "fuzzy") for k in KINDS}
    scores = {
        kind: np.array([[[c.score for c in r] for r in one] for one in each.values()])
        for kind, each in found.items()
    }
    main = "fuzzy" if is_state else "exact"
    others = [place for place, n in enumerate(wordings) if n not in (ORIGINAL, CONTROL)]
    means = {kind: each.mean(axis=1) for kind, each in scores.items()}
    ss = {
        kind: schema_sensitivity(each[others]) if len(others) > 1 else None
        for kind, each in means.items()
    }
    clusters = np.unique([case.group for case in cases], return_inverse=True)[1]
    covered = coverage(wordings)
    return Measured(
        names,
        _compared(tuple(axes or ()), scores[main], clusters, covered),
        scores,
        tuple(_flips(scores[main], place) for place in range(len(names))),
        ss,
        result([*wordings], scores[main][: len(wordings)], clusters, covered),
        covered,
        Counter(reply.form for each in replies.values() for r in each for reply in r),
        described(wordings, {name: found[main][name] for name in wordings}),
        is_state,
    )


def _flips(scores: Scores, place: int) -> float | None:
    """Returns the mean squared difference of answers to the original's answers."""
    pairs = scores[0][:, None] - scores[place][None]
    return float((pairs**2).mean()) if place else None


def _compared(
    axes: Sequence[str], scores: Scores, clusters: excess.Clusters, covered: Coverage
) -> dict[str, Compared]:
    """Compares the axes, whose scores are the last, with the original and control."""
    if not axes:
        return {}
    original, made = scores[:2], scores[-len(axes) :]
    given = original.mean(axis=(0, 1))
    found = [
        result((ORIGINAL, CONTROL, name), np.stack([*original, one]), clusters, covered)
        for name, one in zip(axes, made, strict=True)
    ]
    changes = [paired(one.mean(axis=0), given, clusters) for one in made]
    p = holm(np.array([one.p for one in found]))
    return {
        name: Compared(change, one.excess, float(q))
        for name, change, one, q in zip(axes, changes, found, p, strict=True)
    }


def result(
    names: Sequence[str],
    scores: Scores,
    clusters: excess.Clusters,
    covered: Coverage,
) -> Result:
    """Tests whether the scores depend on the wording.

    Args:
        names: names of the wordings; the original and the control have the same texts.
        scores: score of each answer.
        clusters: group of each case, numbered from 0.
        covered: which texts were reworded.
    """
    cases = scores.shape[-1]
    distinct = [name for name in names if name != CONTROL]
    numbers = [distinct.index(ORIGINAL if n == CONTROL else n) for n in names]
    labels = np.repeat(numbers, scores.shape[1])
    answers = scores.reshape(-1, cases).T
    p, deviation, p_loss = excess.permutation_test(answers, labels, clusters)
    between, within = excess.disagreement(answers, labels)
    lost = excess.losses(answers, labels).mean(axis=0)
    place = int(np.abs(lost).argmax())
    needed = excess.cases_needed(answers, labels, clusters, POINTS)
    if not covered.is_enough:
        verdict = NOT_REWORDED
    elif p <= excess.ALPHA:
        verdict = SENSITIVE
    else:
        verdict = NOT_SHOWN if cases >= needed else TOO_FEW
    return Result(
        verdict,
        p,
        float(between.mean()),
        float(within.mean()),
        _widened(paired(between, within, clusters), deviation),
        distinct[place],
        float(lost[place]),
        p_loss,
        cases,
        needed,
    )


def _widened(figure: Figure, deviation: float) -> Figure:
    """Returns an excess with an interval of at least two deviations to both sides.

    If answers are rarely wrong, a sample often lacks the rare cases with a great excess
    that balance many small negative ones. Its own interval is then too narrow.
    """
    if figure.value is None or figure.low is None or figure.high is None:
        return figure
    half = 2 * deviation
    low, high = figure.value - half, figure.value + half
    return Figure(figure.value, min(figure.low, low), max(figure.high, high))


class Answers(NamedTuple):
    """Answers to the cases that score one description, under each of its texts.

    Attributes:
        tool, argument: see `Described`.
        texts: the distinct texts, the given one first.
        cases: places of the cases.
        right: score of each answer, [cases, answers].
        labels: place in `texts` of the text of each answer.
        clusters: group of each case, numbered from 0.
    """

    tool: str
    argument: str
    texts: tuple[str, ...]
    cases: tuple[int, ...]
    right: np.ndarray
    labels: np.ndarray
    clusters: np.ndarray

    @property
    def shares(self) -> Float[np.ndarray, "texts cases"]:
        """The share of right answers to each case under each text."""
        under = (self.labels == number for number in range(len(self.texts)))
        return np.array([self.right[:, one].mean(axis=1) for one in under])


def described(
    wordings: Wordings, found: Mapping[str, Sequence[Sequence[Outcome]]]
) -> tuple[Described, ...]:
    """Returns the results of each description; see `Measured.descriptions`.

    Args:
        wordings: the cases under each wording.
        found: the outcomes; see `outcomes`.
    """
    each = answers_of(wordings, found)
    number = min(_MOST_PERMUTATIONS, max(excess.PERMUTATIONS, 40 * len(each)))
    p = holm(np.array([_tested(one, number) for one in each]))
    made = [
        Described(
            *one[:2],
            len(one.cases),
            tuple(zip(one.texts, one.shares.mean(axis=1).tolist(), strict=True)),
            None if np.isnan(q) else float(q),
        )
        for one, q in zip(each, p, strict=True)
    ]

    def cost(one: Described) -> tuple[bool, float]:
        return not one.is_shown, one.cases * (one.worst[1] - one.best[1])

    return tuple(sorted(made, key=cost))


def answers_of(
    wordings: Wordings, found: Mapping[str, Sequence[Sequence[Outcome]]]
) -> list[Answers]:
    """Returns the answers that score each description.

    Descriptions of one name with other texts, in other lists of tools, are others.

    Args:
        wordings: the cases under each wording.
        found: the outcomes; see `outcomes`.
    """
    rows: dict[tuple[Any, ...], list[tuple[int, list[float]]]] = defaultdict(list)
    for place in range(len(wordings[ORIGINAL])):
        parts: dict[tuple[str, str], list[float | None]] = {}
        texts = {name: texts_of(cases[place]) for name, cases in wordings.items()}
        columns = [(name, row[place]) for name, each in found.items() for row in each]
        for column, (name, one) in enumerate(columns):
            names = wordings[name][place].names
            for (tool, argument), value in one.parts.items():
                own = names.get(tool, tool), names.get((tool, argument), argument)
                known = parts.setdefault(own, [None] * len(columns))
                known[column] = value
        for key, values in parts.items():
            # Tools and arguments that a model invents have no description.
            if all(each.get(key) for each in texts.values()):
                every = tuple(each[key] for each in texts.values())
                # An answer that names neither the tool nor the argument is right if
                # none is expected.
                right = [1.0 if value is None else value for value in values]
                rows[*key, every].append((place, right))
    made = []
    for (tool, argument, every), answers in rows.items():
        distinct = tuple(dict.fromkeys(every))
        labels = [
            distinct.index(text)
            for text, name in zip(every, wordings, strict=True)
            for _ in found[name]
        ]
        places = tuple(place for place, _ in answers)
        groups = [wordings[ORIGINAL][place].group for place in places]
        clusters = np.unique(groups, return_inverse=True)[1]
        arrays = np.array([row for _, row in answers]), np.array(labels), clusters
        made.append(Answers(tool, argument, distinct, places, *arrays))
    return made


def _tested(one: Answers, number: int) -> float:
    """Returns the p-value of a description; NaN if no permutation changes anything."""
    if len(one.texts) == 1 or (one.right == one.right[:, :1]).all():
        return np.nan
    return excess.permutation_test(one.right, one.labels, one.clusters, number).p


def coverage(wordings: Wordings) -> Coverage:
    """Counts the texts of the tools that any wording rewords, by kind and length."""
    changed: dict[tuple[str, str, str, int], bool] = {}
    seen: set[int] = set()
    for cases in zip(*wordings.values(), strict=True):
        for tools in zip(*(case.tools for case in cases), strict=True):
            if id(tools[0]) in seen:
                continue
            seen.add(id(tools[0]))
            name = tools[0]["function"]["name"]
            for place, texts in enumerate(zip(*map(_texts, tools), strict=False)):
                kind, text = texts[0]
                if text:
                    key = name, kind, text, place
                    others = any(other != text for _, other in texts)
                    changed[key] = changed.get(key, False) or others
    reworded, total = Counter[str](), Counter[str]()
    for (_, kind, text, _), others in changed.items():
        words = len(text.split())
        length = next(name for name, most in LENGTHS.items() if words <= most)
        for name in ("all", kind, length):
            total[name] += 1
            reworded[name] += others
    return Coverage(reworded, total)


def _texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Yields kind and text of each description of a tool, at any depth."""
    yield "tools", str(tool["function"].get("description") or "")
    for schema in arguments_of(tool).values():
        for number, text in enumerate(_descriptions(schema)):
            yield "inside arguments" if number else "arguments", text


def _descriptions(node: Any) -> Iterator[str]:
    """Yields the description of a schema, "" if it has none, and those inside."""
    node = node if isinstance(node, dict) else {}
    text = node.get("description")
    yield text if isinstance(text, str) else ""
    for key, value in without(node, *_DATA).items():
        if key in _MAPS and isinstance(value, dict):
            value = [*value.values()]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from _descriptions(one)
