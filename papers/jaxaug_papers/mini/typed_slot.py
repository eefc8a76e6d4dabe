"""Makes slots of the kinds in `typed`."""

from collections.abc import Mapping, Sequence

from jaxaug_papers.mini import typed
from jaxaug_papers.mini.invented_words import Fresh
from jaxaug_papers.minisgd.concepts import Concept
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL, SlotSpec

_PAIRED = 0.6
_ALONE = 0.8
_OF_THE_SERVICE = 0.5


def slot(
    fresh: Fresh, service_noun: str, before: Sequence[SlotSpec], more: bool
) -> SlotSpec:
    """Returns a slot of one kind.

    Args:
        more: whether to use `MORE_KINDS`, and to allow the noun of the service. An
            example is "date of the repair" and "place of the repair", for which users
            say "on Monday" and "near the mall".
    """
    draw = fresh.draw
    kinds = typed.MORE_KINDS if more else typed.KINDS
    kind = kinds[_kind_name(draw, before, kinds)]
    words = {"n": fresh(), "q": fresh(), "s": service_noun}
    values = tuple(map(fresh.lexis.allowed, kind.known_values))
    # If another slot has the same values, the value alone does not identify the slot.
    others = [slot for slot in before if set(values) & set(slot.values)]
    template = draw.pick([t for t in kind.descriptions if "{" in t or not others])
    of_service = more and not others and kind.nouns and draw.chance(_OF_THE_SERVICE)
    if of_service:
        words["n"] = service_noun
    text = fresh.lexis.allowed(template.format(**words))
    own = [words[key] for key in "nq" if f"{{{key}}}" in template]
    if own and not of_service:
        words["n"] = own[0]
    said = {text for slot in others for text in slot.concept.tell} & typed.PLAIN
    alone = not others
    if kind.beside:
        alone = said <= set(kinds[kind.beside].tell)
    told = draw.sample(kind.tell_of, 2)
    if of_service:
        told = draw.sample(kind.tell, 4)
    elif alone and draw.chance(_ALONE):
        told = [*draw.sample(kind.tell, 3), *told]

    def filled(texts: Sequence[str]) -> tuple[str, ...]:
        names = {"w": " ".join(own), "v": "{v}", **words}
        return tuple(fresh.lexis.allowed(text.format(**names)) for text in texts)

    name = f"slot{len(before)}"
    return SlotSpec(
        name=name,
        concept=Concept(
            noun=" ".join(own) if own and not of_service else draw.pick(kind.nouns),
            tell=filled(told),
            ask=filled(kind.ask),
            suggest=filled(told[:2] if of_service else kind.tell_of[:2]),
        ),
        values=values,
        is_categorical=kind.is_categorical,
        before="",
        wordings={ORIGINAL: (name, text)},
    )


def _kind_name(
    draw: Draw, before: Sequence[SlotSpec], kinds: Mapping[str, typed.Kind]
) -> str:
    """Returns one of the kinds; from comes with to more often than not."""
    told = {text for slot in before for text in slot.concept.tell}
    open_ = [kind.beside for kind in kinds.values() if told & set(kind.tell)]
    missing = [name for name in open_ if name and not told & set(kinds[name].tell)]
    if missing and draw.chance(_PAIRED):
        return draw.pick(missing)
    return draw.pick(tuple(kinds))
