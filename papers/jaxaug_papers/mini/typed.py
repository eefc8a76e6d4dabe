"""Slots whose description states the kind of value, such as "date of the shilpoul".

A model without pretraining does not know that Monday is a date and 9 am a time. In
these slots some words of the description keep their usual meaning, unlike in
`invented`. `KINDS` uses words of MiniSGD's original train schemas; `MORE_KINDS` has
further English words.
"""

import dataclasses
from collections.abc import Sequence

from jaxaug_papers.minisgd.world import VALUES


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value, with the texts about its slots.

    In the texts, {n} is the noun of a slot, and {q} is another word of its description.
    {s} is the noun of the service, {w} the words that name the slot, and {v} the value.

    Attributes:
        values: list of values, or a key of `VALUES`.
        tell: user phrases with a value only, for slots that the value identifies.
        beside: kind of another slot that `tell` distinguishes from this one, such as
            "from" for "to".
        nouns: nouns for "any time is fine" in slots with the noun of the service; empty
            if the kind has no such slots.
    """

    values: str | tuple[str, ...]
    descriptions: tuple[str, ...]
    tell: tuple[str, ...]
    tell_of: tuple[str, ...]
    ask: tuple[str, ...]
    beside: str = ""
    is_categorical: bool = False
    nouns: tuple[str, ...] = ()

    @property
    def known_values(self) -> Sequence[str]:
        return VALUES[self.values] if isinstance(self.values, str) else self.values


KINDS = {
    "date": Kind(
        "dates",
        (
            "date of the {n}", "{n} date", "date to {q} the {n}", "date the {n} {q}",
            "{q} date", "date of the {q} {n}",
        ),
        ("on {v}", "for {v}", "the date is {v}", "i can do {v}", "on {v} please"),
        ("{w} on {v}", "on {v} for the {w}", "the {w} is on {v}", "{w} {v}"),
        ("what date", "which date", "on what date"),
    ),
    "time": Kind(
        "times",
        (
            "time of the {n}", "{n} time", "time to {q} the {n}", "time the {n} {q}",
            "{q} time of the {n}",
        ),
        ("at {v}", "for {v}", "the time is {v}", "i can do {v}", "from {v}"),
        ("{w} at {v}", "at {v} for the {w}", "the {w} is at {v}", "{w} {v}"),
        ("what time", "which time", "at what time"),
    ),
    "city": Kind(
        "cities",
        (
            "city of the {n}", "city where the {n} is", "city to {q} in",
            "city to {q} the {n}", "city the {n} {q} from",
        ),
        ("in {v}", "located in {v}", "the city is {v}"),
        ("{w} in {v}", "{w} {v}", "{v} for the {w}", "the {w} is in {v}"),
        ("which city", "in which city"),
    ),
    "place": Kind(
        "places",
        (
            "place of the {n}", "place to {q} the {n}", "place where the {n} {q}",
            "place to {q} at", "{n} place",
        ),
        ("at the {v}", "it is at the {v}", "we are at the {v}", "from the {v}"),
        ("{w} at the {v}", "the {v} for the {w}", "{w} from the {v}"),
        ("which place", "at which place"),
    ),
    "person": Kind(
        "names",
        (
            "name of the {n}", "person who {q} the {n}", "person to {q}",
            "person who {q}", "{n} of the {s}",
        ),
        ("with {v}", "by {v}", "for {v}", "the person is {v}", "i want {v}"),
        ("{w} {v}", "{v} is the {w}", "the {w} is {v}"),
        ("which person", "what name"),
    ),
    "title": Kind(
        "titles",
        ("title of the {n}", "name of the {n}", "{n} title", "title to {q}"),
        ("called {v}", "the title is {v}", "{v}", "the name is {v}"),
        ("{w} {v}", "the {w} {v}", "{v} as {w}"),
        ("which title", "what name"),
    ),
    "amount": Kind(
        "amounts",
        ("amount of {n}", "amount of the {n}", "price of the {n}", "value of the {n}"),
        ("of {v}", "the amount is {v}", "{v}", "with {v}"),
        ("{w} of {v}", "{v} for the {w}", "the {w} is {v}"),
        ("what amount", "which amount"),
    ),
    "number": Kind(
        ("1", "2", "3", "4", "5"),
        (
            "number of {n}", "number of {n} to {q}", "number of {n} in the {s}",
            "number of {q} {n}",
        ),
        ("{v} {n}", "for {v} {n}", "with {v} {n}", "we need {v} {n}"),
        ("{v} {n}", "for {v} {n}", "with {v} {n}"),
        ("which number of {n}", "what number of {n}"),
        is_categorical=True,
    ),
    "origin": Kind(
        "places",
        (
            "place the {n} leaves from", "place where the {n} starts",
            "place to pick up the {n}", "place to collect the {n}",
        ),
        ("from the {v}", "it starts at the {v}", "leaving from the {v}"),
        ("{w} from the {v}", "from the {v} for the {w}"),
        ("from which place", "which place from"),
        beside="destination",
    ),
    "destination": Kind(
        "places",
        (
            "place the {n} goes to", "place where the {n} ends",
            "place to drop off the {n}", "place to deliver the {n}",
        ),
        ("to the {v}", "it ends at the {v}", "going to the {v}"),
        ("{w} to the {v}", "to the {v} for the {w}"),
        ("to which place", "which place to"),
        beside="origin",
    ),
    "origin_city": Kind(
        "cities",
        (
            "city the {n} leaves from", "city where the {n} starts",
            "city to pick up the {n}",
        ),
        ("from {v}", "it starts in {v}", "leaving from {v}"),
        ("{w} from {v}", "from {v} for the {w}"),
        ("from which city", "which city from"),
        beside="destination_city",
    ),
    "destination_city": Kind(
        "cities",
        (
            "city the {n} goes to", "city where the {n} ends",
            "city to drop off the {n}",
        ),
        ("to {v}", "it ends in {v}", "going to {v}"),
        ("{w} to {v}", "to {v} for the {w}"),
        ("to which city", "which city to"),
        beside="origin_city",
    ),
    "start_date": Kind(
        "dates",
        (
            "date the {n} starts", "date the {n} leaves", "start date of the {n}",
            "check in date of the {n}", "pick up date of the {n}",
        ),
        ("from {v}", "the start is on {v}", "leaving on {v}", "it starts on {v}"),
        ("{w} from {v}", "from {v} for the {w}"),
        ("from which date", "what start date"),
        beside="end_date",
    ),
    "end_date": Kind(
        "dates",
        (
            "date the {n} ends", "date to bring back the {n}", "end date of the {n}",
            "check out date of the {n}", "drop off date of the {n}",
        ),
        ("to {v}", "until {v}", "back on {v}", "it ends on {v}"),
        ("{w} until {v}", "until {v} for the {w}"),
        ("until which date", "what end date"),
        beside="start_date",
    ),
}  # fmt: skip
"""Name -> kind."""


def _more(
    name: str,
    nouns: tuple[str, ...],
    *,
    descriptions: tuple[str, ...] = (),
    tell: tuple[str, ...],
    ask: tuple[str, ...],
) -> Kind:
    """Returns a kind with further texts."""
    kind = KINDS[name]
    return dataclasses.replace(
        kind,
        nouns=nouns,
        descriptions=kind.descriptions + descriptions,
        tell=kind.tell + tell,
        ask=kind.ask + ask,
    )


MORE_KINDS = {
    **KINDS,
    "date": _more(
        "date",
        ("day", "date"),
        descriptions=("date of the {n}", "date to {q} to the {n}", "date the {n} {q}"),
        tell=("it is on {v}", "the day is {v}", "{v} would be best", "{v} is fine"),
        ask=("which day", "on which day", "when is the {n}"),
    ),
    "time": _more(
        "time",
        ("time",),
        descriptions=("time of the {n}", "time the {n} {q}"),
        tell=("it is at {v}", "{v} would be best", "{v} is fine", "about {v}"),
        ask=("at which time", "when is the {n}"),
    ),
    "city": _more(
        "city",
        ("city",),
        tell=("we are in {v}", "i am in {v}", "the {n} in {v}", "near {v}"),
        ask=("where is it", "where is the {n}"),
    ),
    "place": _more(
        "place",
        ("place",),
        descriptions=("place of the {n}",),
        tell=("near the {v}", "by the {v}", "close to the {v}", "at the {v}"),
        ask=("where is it", "where is the {n}"),
    ),
    "person": _more(
        "person",
        ("person", "name"),
        descriptions=(
            "name of the {q}", "person who {q} the {n}", "person who {q} in the {n}",
            "{q} of the {n}",
        ),
        tell=("to see {v}", "it is {v}", "{v} is the one", "it is from {v}"),
        ask=("which person is it", "who is it"),
    ),
    "title": _more(
        "title",
        ("title", "name"),
        descriptions=("name of the {n}", "title of the {n}"),
        tell=("for {v}", "to see {v}", "with the title {v}", "the {n} {v}"),
        ask=("what is the title", "which {n} do you want"),
    ),
    "amount": _more(
        "amount",
        ("amount",),
        tell=("{v} in all", "i pay {v}", "it is {v}"),
        ask=("what is the amount",),
    ),
    "whole": Kind(
        "titles",
        ("{q} the {n} is from", "{q} that the {n} is in", "{q} with the {n}"),
        ("from the {q} {v}", "on the {q} {v}", "the {q} is {v}", "from {v}"),
        ("{n} from {v}", "the {q} {v}"),
        ("from which {q}", "which {q} is it"),
    ),
    "people": Kind(
        ("1", "2", "3", "4", "5"),
        ("number of people", "number of people to {q}", "number of people at the {n}"),
        (
            "for {v} (person|people)", "we are {v} (person|people)",
            "there are {v} of us", "{v} of us",
        ),
        ("for {v} (person|people)", "{v} (person|people)"),
        ("what number of people", "for what number of people"),
        is_categorical=True,
        nouns=("number of people",),
    ),
}  # fmt: skip
"""`KINDS` with further texts, and two more kinds."""

PLAIN = frozenset(text for kind in MORE_KINDS.values() for text in kind.tell)
"""Phrases that state only a value."""
