"""Finds better descriptions: chosen on half of the cases, tested on the other half.

Candidates are the rewordings under which a model was asked, and texts that a chat model
proposes after it has seen failing cases.
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jaxaug.data.schema import Schema
from jaxaug.metrics.bootstrap import Figure, paired
from jaxaug.models.endpoint import asking
from jaxaug.models.endpoint.replies import instruction, paraphrases
from jaxaug.models.endpoint.server import Server
from jaxaug.tools import cases as tools
from jaxaug.tools import measure
from jaxaug.tools.cases import CONTROL, ORIGINAL, Case, Source, Text, Wordings
from jaxaug.tools.match import ABSENT
from jaxaug.tools.measure import Answers, Replies
from jaxaug.tools.models import Reply, conversation, told

PROPOSALS = 3
"""Number of texts that a writer proposes for a description."""
TARGETS = 5
"""Maximum number of descriptions that a writer rewrites."""
LEAK, LONG, KNOWN = "has a value of the cases", "too long", "not new"
"""Why a proposal is refused."""
_FAILURES = 8  # Failing cases that a writer sees.
_ROOM = 2048  # Tokens of a reply of a writer; some think before they answer.
_WORDS = 60  # A longer proposal is refused, unless the given text is long.
_MARKS = re.compile(r"[\W_]+")

Ask = Callable[[Sequence[Case], str], Sequence[Sequence[Reply]]]
"""Function from cases and the name of their wording to the replies of each repeat."""


class Failure(NamedTuple):
    """A case that fails under the given description, and a wrong reply to it."""

    case: Case
    reply: Reply


class Target(NamedTuple):
    """A description to rewrite.

    Attributes:
        key: the description.
        text: the given text.
        failures: cases in which the argument or the tool is wrong.
    """

    key: Text
    text: str
    failures: Sequence[Failure]

    @property
    def tool(self) -> dict[str, Any]:
        """The tool with the description."""
        offered = self.failures[0].case.tools
        return next(o for o in offered if o["function"]["name"] == self.key[0])


Write = Callable[[Target], Sequence[str]]
"""Function from a description to proposed texts, which are checked later."""


@dataclass(frozen=True, slots=True)
class Better:
    """Better descriptions, and their effect on cases that were not used to choose them.

    Attributes:
        texts: maps a description to its better text.
        schema: schema of the tools with these texts.
        cases: number of cases that the test uses.
        given: accuracy of the original descriptions on these cases, as a fraction.
        advised: accuracy of the better descriptions on them, as a fraction.
        difference: `advised` - `given`, with its 95% interval.
        proposed: number of proposals of a writer; None without a writer.
        refused: maps a reason to the number of proposals that were refused.
    """

    texts: dict[Text, str]
    schema: Schema
    cases: int
    given: float
    advised: float
    difference: Figure
    proposed: int | None = None
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_gain(self) -> bool:
        """True if the interval of the difference is above 0."""
        return bool(self.texts) and (self.difference.low or 0) > 0


def halves(cases: Sequence[Case]) -> tuple[list[int], list[int]]:
    """Returns the places of the cases that choose texts, and those that test them.

    Groups of cases alternate: the first, third, ... choose.
    """
    chooses = {*[*dict.fromkeys(case.group for case in cases)][::2]}
    places = range(len(cases))
    first = [n for n in places if cases[n].group in chooses]
    return first, [n for n in places if cases[n].group not in chooses]


def most_requests(cases: Sequence[Case], repeats: int) -> int:
    """Returns the maximum number of requests of `find_better` with a writer.

    Args:
        cases: the cases.
        repeats: number of requests about each case.
    """
    first, rest = halves(cases)
    return (PROPOSALS * len(first) + len(rest)) * repeats + TARGETS


def find_better(
    source: Source,
    asked: Wordings,
    replies: Replies,
    ask: Ask,
    write: Write | None = None,
) -> Better:
    """Returns better descriptions and their effect.

    On half of the cases, a description gets its best text if the 95% interval of the
    gain is above 0. The model is asked about the other half under all these texts.

    Args:
        source: the tools and their cases.
        asked: the cases under each wording.
        replies: the replies to them.
        ask: asks the model about cases.
        write: proposes texts; None compares only the wordings that were asked.
    """
    chosen, rest = halves(source.cases)
    fuzzy = all(case.is_state for case in source.cases)
    first = {name: [cases[n] for n in chosen] for name, cases in asked.items()}
    given = {name: [[r[n] for n in chosen] for r in replies[name]] for name in asked}
    refused = Counter[str]()
    proposed: list[dict[Text, str]] = []
    if write:
        proposed, refused = _proposals(first, given, fuzzy, write)
    for number, texts in enumerate(proposed, 1):
        name = f"proposal {number}"
        reworded = tools.with_tools(source, tools.advised(source, texts))
        first[name] = [reworded[n] for n in chosen]
        given[name] = [[*row] for row in ask(first[name], name)]
    found = measure.answers_of(first, measure.outcomes(first, given, fuzzy))
    texts = {(one.tool, one.argument): t for one in found if (t := _best(one))}
    schema = tools.advised(source, texts)
    told = sum(map(len, proposed)) + refused.total() if write else None, refused
    if not rest:
        nothing = Figure(None, None, None)
        return Better(texts, schema, 0, np.nan, np.nan, nothing, *told)

    def accuracy(
        cases: Sequence[Case], answers: Sequence[Sequence[Reply]]
    ) -> np.ndarray:
        every = measure.outcomes({"": cases}, {"": answers}, fuzzy)[""]
        return np.array([[one.score for one in row] for row in every]).mean(axis=0)

    known = [*replies[ORIGINAL], *replies[CONTROL]]
    reworded = tools.with_tools(source, schema)
    cases = [reworded[n] for n in rest]
    before = after = accuracy(
        [source.cases[n] for n in rest], [[row[n] for n in rest] for row in known]
    )
    if texts:
        after = accuracy(cases, ask(cases, "advised"))
    clusters = np.unique([case.group for case in cases], return_inverse=True)[1]
    change = paired(after, before, clusters)
    means = float(before.mean()), float(after.mean())
    return Better(texts, schema, len(rest), *means, change, *told)


def _best(one: Answers) -> str | None:
    """Returns the best text if its gain is shown, else None."""
    shares = one.shares
    best = int(shares.mean(axis=1).argmax())
    if not best:
        return None
    gain = paired(shares[best], shares[0], one.clusters)
    return one.texts[best] if (gain.low or 0) > 0 else None


def _proposals(
    first: Wordings, given: Replies, fuzzy: bool, write: Write
) -> tuple[list[dict[Text, str]], Counter[str]]:
    """Returns texts for each of `PROPOSALS` wordings, and why others were refused."""
    found = measure.outcomes(first, given, fuzzy)
    failing = {
        (one.tool, one.argument): (one.texts[0], lost)
        for one in measure.answers_of(first, found)
        if (lost := [p for p, s in zip(one.cases, one.shares[0], strict=True) if s < 1])
    }
    rows = [*zip(found[ORIGINAL], given[ORIGINAL], strict=True)]
    rows += zip(found[CONTROL], given[CONTROL], strict=True)
    made: list[dict[Text, str]] = [{} for _ in range(PROPOSALS)]
    refused = Counter[str]()
    targets = sorted(failing, key=lambda key: -len(failing[key][1]))[:TARGETS]
    for key in targets:
        text, places = failing[key]
        failures = []
        for place in places:
            wrong = (
                row[place]
                for outcomes, row in rows
                if outcomes[place].parts.get(key, 1.0) < 1
            )
            failures += [Failure(first[ORIGINAL][place], one) for one in [*wrong][:1]]
        target = Target(key, text, failures)
        good = []
        for one in write(target)[:PROPOSALS]:
            if reason := fault(one, target):
                refused[reason] += 1
            elif one in good:
                refused[KNOWN] += 1
            else:
                good.append(one)
        for texts, one in zip(made, good, strict=False):
            texts[key] = one
    return [texts for texts in made if texts], refused


def fault(text: str, target: Target) -> str:
    """Returns why a proposal is refused, or an empty text.

    A proposal must not have a value of the failing cases, unless the tool has it: texts
    with such a value are right about these cases alone.
    """
    others = map(str.casefold, tools.texts_of(target.failures[0].case).values())
    if not text.strip() or text.casefold() in others:
        return KNOWN
    most = max(_WORDS, 2 * len(target.text.split()))
    if len(text.split()) > most or len(text) > 10 * most:
        return LONG
    known = _plain(json.dumps(target.tool, ensure_ascii=False))
    values = {one for case in target.failures for one in _values(case)}
    for value in values:
        # A name or number in a value is a value, too.
        names = [w for w in value.split() if w.lower() != w or re.search(r"\d", w)]
        for part in map(_plain, (value, *names)):
            is_word = len(part) > 2 or not part.isascii() or not part.isalpha()
            if part and is_word and _has(_plain(text), part) and not _has(known, part):
                return LEAK
    return ""


def _values(failure: Failure) -> Iterator[str]:
    """Yields the texts and numbers of the expected and the given calls."""
    left: list[Any] = [dict(one.accepted) for one in failure.case.expected]
    left += [dict(one.arguments) for one in failure.reply.calls]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        elif one is not ABSENT and one is not None and not isinstance(one, bool):
            yield str(one)


def _plain(text: str) -> str:
    return _MARKS.sub(" ", text).casefold().strip()


def _has(text: str, part: str) -> bool:
    """Returns whether a text has a part that no Latin letter or digit continues."""
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(part)}(?![a-z0-9])", text))


_PROMPT = """\
A model calls tools. It misreads a description. This is the tool:

{tool}

This is the description of {subject}:

{text}

{wrong}

Write {number} better descriptions. Each says what {subject} means, in at most {words} \
words, and is right for every use of the tool. Do not use values of these conversations: \
others test the descriptions. {form}"""


class Writer:
    """A chat model that proposes descriptions; see `Write`."""

    def __init__(self, server: Server, seed: int = 0):
        """Takes the server of the model, and the seed of its sampling."""
        self.server, self._seed = server, seed

    def __call__(self, target: Target) -> list[str]:
        """Returns proposed texts.

        Raises:
            UserError: the server cannot be asked.
        """
        asked = asking.Request(
            self._prompt(target, as_json=True),
            self._prompt(target, as_json=False),
            PROPOSALS,
            self._seed,
            {"max_tokens": _ROOM},
        )
        return paraphrases(asking.reply(self.server, asked))

    def _prompt(self, target: Target, as_json: bool) -> str:
        tool, argument = target.key
        subject = f'the argument "{argument}"' if argument else f'the tool "{tool}"'
        wrong = [
            f"Wrong call {number}:\n{conversation(one.case)}\n"
            f"RIGHT: {told(one.case)}\nGIVEN: {_given(one.reply)}"
            for number, one in enumerate(target.failures[:_FAILURES], 1)
        ]
        return _PROMPT.format(
            tool=json.dumps(target.tool["function"], ensure_ascii=False, indent=1),
            text=target.text,
            wrong="\n\n".join(wrong),
            number=PROPOSALS,
            subject=subject,
            words=_WORDS,
            form=instruction(PROPOSALS, as_json),
        )


def _given(reply: Reply) -> str:
    calls = [{"name": c.name, "arguments": dict(c.arguments)} for c in reply.calls]
    return json.dumps(calls, ensure_ascii=False)


def diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Returns the unified diff of two texts.

    Args:
        before, after: the texts.
        names: their files.
    """
    texts = before.splitlines(), after.splitlines()
    return "\n".join(difflib.unified_diff(*texts, *names, lineterm=""))
