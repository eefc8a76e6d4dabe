"""Decisions of people about the variants of a run: `decisions.jsonl` in its folder.

A line is a JSON object: `id` and `source` of a description, `decision`, and the text or
variant of the decision. The page of `jaxaug augment review` writes the file; it can
also be written by hand:

    {"id": "train/0/slot/2", "source": "Cost of it", "decision": "accepted",
     "variant": 2, "candidate": "Price of it"}

`accepted` keeps the text `candidate` as v2. `rejected` never takes it again for this
description; `variant` is optional. `typed` makes `text` v2. It replaces `candidate` if
given, which is never taken again either. A decision also holds for the same service,
name, and text in another split.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etils import epath

from jaxaug.augment import descriptions as schema_texts
from jaxaug.augment.descriptions import Description
from jaxaug.core import typed
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, parse_json, read_text, shown
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import is_single_spaced
from jaxaug.data import folders

FILE = "decisions.jsonl"
ACCEPTED, REJECTED, TYPED = "accepted", "rejected", "typed"
DECISIONS = (ACCEPTED, REJECTED, TYPED)
# Required fields of each decision, in addition to `id`, `source`, and `decision`.
_NEEDED = {
    ACCEPTED: ("variant", "candidate"),
    REJECTED: ("candidate",),
    TYPED: ("variant", "text"),
}
_FIX = (
    "Write a JSON object a line, as `jaxaug augment review` does, or remove the line."
)


@dataclass(frozen=True, slots=True)
class Decision:
    """One line.

    Attributes:
        id: id of a description.
        source: text of the description.
        decision: one of `DECISIONS`.
        variant: 1 for v1; None if irrelevant.
        candidate: text that is kept, dropped, or replaced; None without such a text.
        text: text that a person typed.
    """

    id: str
    source: str
    decision: str
    variant: int | None = None
    candidate: str | None = None
    text: str | None = None

    def key(self) -> dict[str, Any]:
        """Returns JSON; fields without a value are left out."""
        found = dataclasses.asdict(self)
        return {name: value for name, value in found.items() if value is not None}

    @property
    def pinned(self) -> str | None:
        """The text that becomes a variant, or None."""
        return {ACCEPTED: self.candidate, TYPED: self.text}.get(self.decision)

    @property
    def refused(self) -> str | None:
        """The candidate that may not be taken again, or None."""
        return None if self.decision == ACCEPTED else self.candidate


@dataclass(frozen=True)
class Decided:
    """All decisions about one description.

    Attributes:
        pinned: variant, from 1 -> its text.
        refused: candidates that are not taken.
    """

    pinned: Mapping[int, str] = dataclasses.field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    def key(self) -> dict[str, Any]:
        """Returns `{"pinned": ..., "refused": ...}` as JSON; candidates are sorted."""
        return {"pinned": dict(self.pinned), "refused": sorted(self.refused)}

    def texts(self, ranked: Sequence[str]) -> tuple[str, ...]:
        """Returns the texts of all variants: pinned ones in their place, others between
        them.

        Args:
            ranked: texts for the other places, in the order of variants.
        """
        left = iter(ranked)
        count = len(ranked) + len(self.pinned)
        return tuple(self.pinned.get(n) or next(left) for n in range(1, count + 1))


NOTHING = Decided()


@dataclass(frozen=True)
class Decisions:
    """The decisions of a file that concern the splits of a run.

    Attributes:
        decisions: decisions in the order of the file.
        elsewhere: decisions about other splits.
    """

    decisions: tuple[Decision, ...] = ()
    elsewhere: tuple[Decision, ...] = ()

    def key(self) -> list[dict[str, Any]]:
        """Returns JSON, sorted so that the order of the lines does not matter."""
        return sorted((one.key() for one in self.decisions), key=json.dumps)

    def of(self, descriptions: Iterable[Description]) -> dict[str, Decided]:
        """Returns id -> decisions, for the descriptions that have any."""
        named = list(descriptions)
        by_id = {one.id: one for one in named}
        found: dict[tuple[str, ...], list[Decision]] = {}
        for decision in self.decisions:
            found.setdefault(same(by_id[decision.id]), []).append(decision)
        return {
            one.id: _decided(found[same(one)]) for one in named if same(one) in found
        }

    def __str__(self) -> str:
        """Returns the line for the end of a run."""
        made = [one.decision for one in self.decisions]
        return f"{FILE}: " + ", ".join(
            f"{made.count(name)} {name}" for name in DECISIONS
        )


def read(
    folder: PathLike, descriptions: Sequence[Description], variants: int
) -> Decisions:
    """Returns the decisions in the folder of a run, if any.

    Args:
        descriptions: descriptions of all splits of the run.
        variants: K.

    Raises:
        UserError: a line is damaged, concerns another schema, or contradicts another
            line; names the line.
    """
    path = epath.Path(folder) / FILE
    if not path.exists():
        return Decisions()
    return parse(path, descriptions, variants)


def parse(
    path: PathLike, descriptions: Sequence[Description], variants: int
) -> Decisions:
    """Returns the decisions in a file; see `read`.

    A line about a split without descriptions is only checked for its form.
    """
    by_id = {one.id: one for one in descriptions}
    splits = {key.partition("/")[0] for key in by_id}
    found: list[Decision] = []
    elsewhere: list[Decision] = []
    places: dict[tuple[Any, ...], int] = {}
    # `splitlines` would also split at characters inside a text.
    for number, line in enumerate(read_text(path, _FIX).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        decision = _decision(line, where, variants)
        split = decision.id.partition("/")[0]
        if split in folders.SPLITS and split not in splits:
            elsewhere.append(decision)
            continue
        _check_schema(decision, by_id, where)
        for key in _claims(decision, by_id[decision.id]):
            other = places.setdefault(key, number)
            if other != number:
                raise UserError(
                    f"{where}: {decision.id}: line {other} decides the same "
                    f"{'variant' if isinstance(key[-1], int) else 'candidate'}: "
                    f"{shown(key[-1])}. Keep one of the two lines."
                )
        found.append(decision)
    return Decisions(tuple(found), tuple(elsewhere))


def of_json(found: Mapping[str, Any]) -> Decided:
    """Inverts `Decided.key`."""
    pinned = {int(number): text for number, text in found["pinned"].items()}
    return Decided(pinned, frozenset(found["refused"]))


def _decision(line: str, where: str, variants: int) -> Decision:
    """Returns the decision of a line, checked without the schema."""
    record = parse_json(line, where, _FIX)
    known = {field.name for field in dataclasses.fields(Decision)}
    if not isinstance(record, dict):
        raise UserError(f"{where}: {shown(record)} is not a JSON object. {_FIX}")
    for name in record:
        if name not in known:
            raise UserError(
                f"{where}: no field {shown(name)}; {suggestion(name, known)} {_FIX}"
            )
    typed.check(record, Decision, where)
    kind = record.get("decision")
    if kind is not None and kind not in DECISIONS:
        raise UserError(f"{where}: decision: {suggestion(kind, DECISIONS)}")
    for name in ("id", "source", "decision", *(_NEEDED[kind] if kind else ())):
        if record.get(name) is None:
            raise UserError(f"{where}: the field {name!r} is missing. {_FIX}")
    made = Decision(**record)
    if made.variant is not None and not 1 <= made.variant <= variants:
        raise UserError(
            f"{where}: variant={made.variant}: the run has variants 1 to {variants}. "
            "Correct the number."
        )
    if made.refused == made.source and made.decision == REJECTED:
        raise UserError(
            f"{where}: {made.id}: rejects the original text, which is used if no "
            "candidate is left. Type another text, or remove the line."
        )
    text = made.pinned
    is_single = is_single_spaced(text or "") or not is_single_spaced(made.source)
    if text is not None and not (text.strip() and is_single):
        raise UserError(
            f"{where}: {made.id}: the text is {shown(text)}: expected words with "
            "single spaces. Correct the text."
        )
    return made


def _check_schema(
    decision: Decision, by_id: Mapping[str, Description], where: str
) -> None:
    """Raises `UserError` if a decision concerns another schema."""
    if decision.id not in by_id:
        raise UserError(
            f"{where}: {decision.id!r} is not a text of the schema; "
            f"{suggestion(decision.id, by_id)} Decisions hold for one schema: take the "
            f"{FILE} of this one, or remove the line."
        )
    one = by_id[decision.id]
    if one.text != decision.source:
        raise UserError(
            f"{where}: {decision.id} is {shown(decision.source)} here and "
            f"{shown(one.text)} in the schema. Decisions hold for one schema: take the "
            f"{FILE} of this one, or remove the lines of texts that have changed."
        )
    if decision.pinned and one.kind.endswith("_name"):
        try:
            schema_texts.name_of(decision.pinned, one.name)
        except UserError as error:
            raise UserError(f"{where}: {error} Type another text.") from None


def _claims(decision: Decision, one: Description) -> list[tuple[Any, ...]]:
    """Returns the keys that no other line may decide too: a place, a candidate."""
    places = [decision.variant] if decision.pinned else []
    texts = [decision.candidate] if decision.candidate not in (None, one.text) else []
    return [(same(one), claim) for claim in (*places, *texts)]


def same(one: Description) -> tuple[str, ...]:
    """Returns a key that is equal for a service in several splits."""
    return one.service, one.kind, one.name, one.text


def _decided(decisions: Sequence[Decision]) -> Decided:
    return Decided(
        {one.variant: one.pinned for one in decisions if one.variant and one.pinned},
        frozenset(one.refused for one in decisions if one.refused is not None),
    )
