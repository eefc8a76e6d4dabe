"""Several answers about one frame, one for each wording of the schema, as one answer.

Wording 0 is the given one. States are combined slot by slot, by names, so the indices of
D3ST and the values of T5DST need no care here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jaxaug.core.text import clean
from jaxaug.data.schema import Service
from jaxaug.formats.records import Parsed

Values = tuple[str, ...]
ANY_VALUE = "dontcare"


class Other(NamedTuple):
    """The answer of a wording that disagrees about a slot.

    Attributes:
        wording: its number; 0 is the given one.
        description: of the slot under that wording.
        values: empty for none.
    """

    wording: int
    description: str
    values: Values


class Agreement(NamedTuple):
    """How the wordings of a schema answered about one slot.

    Attributes:
        share: part of the wordings that gave the combined value, 0 to 1; no value counts
          as a value.
        others: the answers that disagree.
    """

    share: float
    others: tuple[Other, ...]

    def as_json(self) -> dict[str, Any]:
        """The agreement as JSON."""
        others = [{**one._asdict(), "values": list(one.values)} for one in self.others]
        return {"share": round(self.share, 4), "others": others}


def folded(values: Values) -> Values:
    """Values as they are compared: letter case, spaces and order do not count."""
    return tuple(sorted({clean(value, True) for value in values}))


def vote(answers: Sequence[Parsed]) -> Parsed:
    """The most frequent value of each slot, intent, and request.

    No value is a value like others. Of equally frequent ones the one that the earliest
    wording gave is taken. The malformed pieces of all answers are added.

    Args:
        answers: of each wording, that of the given one first; at least one.
    """
    slots = dict.fromkeys(slot for one in answers for slot in one.slot_values)
    values = {
        s: _most([a.slot_values.get(s, ()) for a in answers], folded) for s in slots
    }
    names = dict.fromkeys(name for one in answers for name in one.requested_slots)
    requested = [
        name
        for name in names
        if _most([name in one.requested_slots for one in answers], bool)
    ]
    return Parsed(
        {slot: found for slot, found in values.items() if found},
        _most([one.active_intent for one in answers], str),
        tuple(requested),
        sum(one.malformed for one in answers),
    )


def _most(found: Sequence[Any], key: Callable[[Any], Any]) -> Any:
    keys = [key(one) for one in found]
    # `max` takes the first of equals.
    return found[max(range(len(keys)), key=lambda place: keys.count(keys[place]))]


def candidates(answers: Sequence[Parsed]) -> list[Parsed]:
    """The distinct states among the answers and their vote, the vote first.

    Their likelihoods under all wordings are compared.
    """
    found: dict[Any, Parsed] = {}
    for one in (vote(answers), *answers):
        found.setdefault(key(one), one)
    return list(found.values())


def key(state: Parsed) -> Any:
    """What two states have in common if they are the same answer."""
    filled = {(s, folded(v)) for s, v in state.slot_values.items() if v}
    return frozenset(filled), state.active_intent, frozenset(state.requested_slots)


def agreement(
    state: Parsed, answers: Sequence[Parsed], services: Sequence[Service]
) -> dict[str, Agreement]:
    """How the answers agree with a combined state, for each slot that any of them fills.

    Args:
        state: that the answers were combined to.
        answers: of each wording that was asked.
        services: the service under each wording, with the same names.
    """
    slots = dict.fromkeys(slot for one in (state, *answers) for slot in one.slot_values)
    found = {}
    for slot in slots:
        chosen = folded(state.slot_values.get(slot, ()))
        given = [one.slot_values.get(slot, ()) for one in answers]
        others = tuple(
            Other(number, service.slot(slot).description, values)
            for number, (service, values) in enumerate(
                zip(services, given, strict=False)
            )
            if folded(values) != chosen
        )
        found[slot] = Agreement(1 - len(others) / len(answers), others)
    return found


def owners(slot: str, answer: Parsed, consensus: Parsed) -> list[str]:
    """Returns the slots whose value an answer gives to another slot.

    Args:
      slot: that is looked at.
      answer: may give it a wrong value.
      consensus: tells the values of all slots.
    """
    given = folded(answer.slot_values.get(slot, ()))
    if not given or given == folded(consensus.slot_values.get(slot, ())):
        return []
    return [
        other
        for other, values in consensus.slot_values.items()
        if other != slot and folded(values) == given
    ]


def agree(answers: Sequence[Parsed]) -> bool:
    """Whether all answers are the same state."""
    return len({key(one) for one in answers}) == 1


def without(state: Parsed, slots: Sequence[str]) -> Parsed:
    """A state without some slots."""
    kept = {s: v for s, v in state.slot_values.items() if s not in slots}
    return replace(state, slot_values=kept)


def unsaid(state: Parsed, service: Service, texts: Sequence[str]) -> list[str]:
    """Free slots with a value that was said in none of the texts.

    A slot counts if none of its values occurs. Letter case, spaces, and marks between
    words do not count; `dontcare` counts as said.

    Args:
        state: of the service.
        service: tells which slots are free.
        texts: utterances of both speakers, up to the turn of the state.
    """
    said = _words(" . ".join(texts))
    return [
        slot
        for slot, values in state.slot_values.items()
        if not service.slot(slot).is_categorical
        and not any(
            clean(value, True) == ANY_VALUE or _words(value) in said for value in values
        )
    ]


def _words(text: str) -> str:
    """The letters and digits, words with single spaces around them."""
    spaced = "".join(c if c.isalnum() else " " for c in text.casefold())
    return f" {' '.join(spaced.split())} "
