"""Leave one domain out: the zero-shot protocol of MultiWOZ, for any data folder.

Train on all domains but one, test on that one. The rules are from the programs of Lin et
al. (2021, T5DST and TransferQA), which follow Wu et al. (2019):

- training and dev leave out the dialogues that are about the domain alone. Of the
  others they keep the whole text, but nothing is asked about the domain, nor about
  domains that the dialogue is not about;
- the test is on all turns of the dialogues that are about the domain, and only asks
  about it.

`strict` leaves out of training every dialogue that is about the domain, so that no
text of it is met.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of, suggestion
from jaxaug.data.dialogue import Dialogue, Turn
from jaxaug.data.schema import Schema

KEPT = ("others", "strict", "alone")


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a split that is kept.

    Attributes:
        domain: a service, or what stands before the underscore in names of services.
        kept: `others` or `strict`: what is trained on without the domain; `alone`: what
            it is tested on.
    """

    domain: str
    kept: str

    def __post_init__(self) -> None:
        if self.kept not in KEPT:
            raise UserError(f"kept={self.kept!r}: {one_of(self.kept, KEPT)}")


def is_of(service: str, domain: str) -> bool:
    """Returns whether a service is the domain, or belongs to it."""
    return domain in (service, service.partition("_")[0])


def check(domain: str, schemas: Sequence[Schema], where: str) -> None:
    """Raises `UserError` for a domain that no schema has; `where` names its place."""
    names = {service.name for schema in schemas for service in schema.services}
    if not any(is_of(name, domain) for name in names):
        known = sorted(names | {name.partition("_")[0] for name in names})
        raise UserError(
            f"{where}: {domain!r} is no service and no domain of the data; "
            f"{suggestion(domain, known)}"
        )


def select(dialogues: Iterable[Dialogue], selection: Selection) -> list[Dialogue]:
    """Returns the dialogues that are kept; what is not to be asked in them has no state."""
    kept = []
    for dialogue in dialogues:
        about = _about(dialogue)
        of = {name for name in about if is_of(name, selection.domain)}
        if selection.kept == "alone":
            asked = {f.service for t in dialogue.turns for f in t.frames}
            asked = {name for name in asked if is_of(name, selection.domain)}
            is_kept = bool(of)
        else:
            asked = about - of
            is_kept = not of if selection.kept == "strict" else bool(asked)
        if is_kept:
            kept.append(_asking(dialogue, asked))
    return kept


def _about(dialogue: Dialogue) -> set[str]:
    """Returns the services of which the user wants something in some turn.

    Not the field `services`, which MultiWOZ sometimes leaves empty.
    """
    return {
        frame.service
        for turn in dialogue.turns
        for frame in turn.frames
        if frame.state is not None
        and (frame.state.slot_values or frame.state.active_intent != "NONE")
    }


def _asking(dialogue: Dialogue, asked: set[str]) -> Dialogue:
    """Returns the dialogue with states of these services alone; frames keep their places."""
    turns = tuple(
        Turn(
            turn.speaker,
            turn.utterance,
            tuple(
                one if one.service in asked else structs.replace(one, state=None)
                for one in turn.frames
            ),
        )
        for turn in dialogue.turns
    )
    return Dialogue(dialogue.dialogue_id, dialogue.services, turns)
