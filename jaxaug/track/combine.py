"""Combines the answers about a frame, one for each wording of the schema, into one.

Wording 0 is the given one. States are parsed, so their slots are combined by name,
independent of the indices of D3ST and the value strings of T5DST.
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
        wording: index of the wording; 0 is the given one.
        description: description of the slot under that wording.
        values: values of the slot; empty if the answer does not fill it.
    """

    wording: int
    description: str
    values: Values


class Agreement(NamedTuple):
    """The agreement between the wordings of a schema about one slot.

    Attributes:
        share: share of the wordings that gave the combined value, 0 to 1. An unfilled
          slot counts as a value.
        others: the answers that disagree.
    """

    share: float
    others: tuple[Other, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the agreement as JSON."""
        others = [{**one._asdict(), "values": list(one.values)} for one in self.others]
        return {"share": round(self.share, 4), "others": others}


def folded(values: Values) -> Values:
    """Returns values in a form that ignores letter case, white space, and order."""
    return tuple(sorted({clean(value, True) for value in values}))


def vote(answers: Sequence[Parsed]) -> Parsed:
    """Returns the most frequent value of each slot, intent, and request.

    An unfilled slot votes for no value. In a tie the value of the earliest wording
    wins. The counts of malformed pieces are added up.

    Args:
        answers: the answer under each wording, the given wording first; at least one.
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
    # `max` returns the first of several maxima.
    return found[max(range(len(keys)), key=lambda place: keys.count(keys[place]))]


def candidates(answers: Sequence[Parsed]) -> list[Parsed]:
    """Returns the distinct states among the vote and the answers, the vote first."""
    found: dict[Any, Parsed] = {}
    for one in (vote(answers), *answers):
        found.setdefault(key(one), one)
    return list(found.values())


def key(state: Parsed) -> Any:
    """Returns a key that is equal for states with the same answer."""
    filled = {(s, folded(v)) for s, v in state.slot_values.items() if v}
    return frozenset(filled), state.active_intent, frozenset(state.requested_slots)


def agreement(
    state: Parsed, answers: Sequence[Parsed], services: Sequence[Service]
) -> dict[str, Agreement]:
    """Returns slot -> share of the answers that have its value in a combined state.

    It has all slots that the combined state or any answer fills. Each entry also lists
    the answers that disagree.

    Args:
        answers: the answer under each wording that was used; at least one.
        services: the service under each wording; slot names are the same in all.
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
        slot: the slot whose value is compared.
        answer: the answer that may fill the slot with a wrong value.
        consensus: the state with the expected value of every slot.
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
    """Returns whether all answers are the same state."""
    return len({key(one) for one in answers}) == 1


def without(state: Parsed, slots: Sequence[str]) -> Parsed:
    """Returns a state without some slots."""
    kept = {s: v for s, v in state.slot_values.items() if s not in slots}
    return replace(state, slot_values=kept)


def unsaid(state: Parsed, service: Service, texts: Sequence[str]) -> list[str]:
    """Returns the non-categorical slots whose value occurs in no text.

    A slot is returned if no spelling of its value occurs. Letter case, white space, and
    punctuation between words are ignored. `dontcare` counts as said.

    Args:
        service: the service, whose schema says which slots are categorical.
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
    """Returns the words of letters and digits, with single spaces around each."""
    spaced = "".join(c if c.isalnum() else " " for c in text.casefold())
    return f" {' '.join(spaced.split())} "
