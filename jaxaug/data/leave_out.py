"""Leave one domain out: the zero-shot protocol of MultiWOZ, for any data folder.

A model is trained on all domains but one and tested on the held-out domain. The rules
are from the programs of Lin et al. (2021, T5DST and TransferQA), which follow Wu et al.
(2019):

- Training and dev omit the dialogues that are only about the held-out domain. Other
  dialogues keep their whole text. They have no questions about the held-out domain or
  about domains that do not occur in the dialogue.
- The test uses all turns of the dialogues about the held-out domain, with questions
  about this domain only.

`strict` omits every dialogue about the held-out domain from training, so that the model
sees none of its text.
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
    """The part of a split to keep.

    Attributes:
        domain: name of a service, or the part of service names before the underscore.
        kept: `others` or `strict` for training without the domain, `alone` for the test
            on the domain.
    """

    domain: str
    kept: str

    def __post_init__(self) -> None:
        if self.kept not in KEPT:
            raise UserError(f"kept={self.kept!r}: {one_of(self.kept, KEPT)}")


def is_of(service: str, domain: str) -> bool:
    """Returns whether a service is the domain or belongs to it."""
    return domain in (service, service.partition("_")[0])


def check(domain: str, schemas: Sequence[Schema], where: str) -> None:
    """Raises `UserError` if no schema has the domain; `where` begins the message."""
    names = {service.name for schema in schemas for service in schema.services}
    if not any(is_of(name, domain) for name in names):
        known = sorted(names | {name.partition("_")[0] for name in names})
        raise UserError(
            f"{where}: {domain!r} is no service and no domain of the data; "
            f"{suggestion(domain, known)}"
        )


def select(dialogues: Iterable[Dialogue], selection: Selection) -> list[Dialogue]:
    """Returns the kept dialogues; services without questions have no state in them."""
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
    """Returns the services that the user asks for in some turn.

    The field `services` is not used, because it is sometimes empty in MultiWOZ.
    """
    return {
        frame.service
        for turn in dialogue.turns
        for frame in turn.frames
        if frame.state is not None
        and (frame.state.slot_values or frame.state.active_intent != "NONE")
    }


def _asking(dialogue: Dialogue, asked: set[str]) -> Dialogue:
    """Returns the dialogue with the states of these services only; all frames stay."""
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
