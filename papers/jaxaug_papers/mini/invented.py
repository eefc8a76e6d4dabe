"""Generated services that teach the model `mini` to read a schema.

Their nouns are made-up words, or known words with another meaning. Their meaning
follows from the descriptions alone, so the model learns nothing about the wordings of
MiniSGD. Dialogues come from the simulator of MiniSGD.
"""

from collections.abc import Sequence

from jaxaug_papers.mini import typed_slot
from jaxaug_papers.mini.invented_words import Fresh, Lexis, made_up
from jaxaug_papers.minisgd.concepts import Concept
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import (
    FLAG,
    ORIGINAL,
    VALUES,
    IntentSpec,
    ServiceSpec,
    SlotSpec,
)

# {n}: noun of a slot; {q}: its distinguishing word; {s}: noun of the service.
_DESCRIPTIONS = (
    "{n}", "{n} of the {s}", "{n} for the {s}", "the {n} of a {s}", "{q} {n}",
    "{q} {n}", "{n} {q}", "{n} to {q}", "{q} {n} of the {s}", "{n} of the {q}",
    "type of {n}", "which {n} to {q}",
)  # fmt: skip
_SISTERS = tuple(text for text in _DESCRIPTIONS if "{n}" in text and "{q}" in text)
_FLAG_DESCRIPTIONS = (
    "is {n} included", "are {n} allowed", "include {n}", "has {n}", "{n} {q}",
    "with {n} or not", "does the {s} {q} {n}",
)  # fmt: skip
# {w}: words of the description; {v}: the value.
_TELL = (
    "with {v} {w}", "{w} {v}", "the {w} is {v}", "{v} {w}", "{v} for the {w}",
    "{w} at {v}", "{w} on {v}", "{w} in {v}", "{w} {v} please", "i want {v} {w}",
    "{v} as {w}", "to {w} {v}", "from {v} {w}",
)  # fmt: skip
_SUGGEST = ("{w} {v}", "{v} {w}", "{v} for the {w}", "{v} as {w}")
_ASK = ("which {w} do you want", "what is the {w}", "what {w}", "do you have a {w}")
_YES = ("with {w}", "{w} please", "i need {w}", "that has {w}", "{w} must be there")
_NO = ("without {w}", "no {w}", "{w} is not needed", "not with {w}")
_WONDER = ("what is the {w}", "which {w} is it", "tell me the {w}", "{w} of it")
_INTENTS = ("{q} a {s}", "{q} {s}", "{q} the {n} of a {s}", "{q} {n}", "{s} {q}")
_OPENERS = (
    "{q} a {s}", "i want to {q} a {s}", "{q} {s} {n}", "i need to {q} {n}",
    "{n} please {q}", "help me {q} it",
)  # fmt: skip
_REMARKS = ("my {a} was {b}", "i like the {a}", "the {a} is {b}", "she gives me {a}")
# Options are unique to a slot, so the value alone identifies the slot.
_TELL_OPTION = ("{v}", "for the {v}", "with {v}", "a {v} one", "{v} please", "the {v}")
_SLOTS = (1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7)
_KINDS = ("free", "free", "options", "flag", "typed", "typed", "typed")
_LISTS = ("made_up", "made_up", "clock", "number", "amount", *VALUES)
_LIST_LENGTH = 8
_TIMES = tuple(
    f"{hour}:{minute} {half}"
    for hour in range(1, 13)
    for minute in (10, 15, 30, 45)
    for half in ("am", "pm")
)


def service(index: int, seed: int, lexis: Lexis, more: bool = False) -> ServiceSpec:
    """Returns the generated service of an index; it depends only on the arguments."""
    draw = Draw(f"invented/{seed}/service/{index}")
    fresh = Fresh(lexis, draw)
    noun = fresh()
    # Slots share few lists of values, so that a value does not identify its slot.
    pool = [value_list(fresh) for _ in range(draw.pick((1, 2, 2, 3)))]
    slots: list[SlotSpec] = []
    for _ in range(draw.pick(_SLOTS)):
        slots.append(_slot(fresh, noun, pool, slots, more))
    intents = [_intent(fresh, noun, n, slots) for n in range(draw.pick((1, 2, 2)))]
    return ServiceSpec(
        name=f"Invented{index}_1",
        splits=("train",),
        weight=1,
        descriptions={ORIGINAL: noun},
        intents=tuple(intents),
        slots=tuple(slots),
    )


def remarks(draw: Draw, lexis: Lexis) -> tuple[str, ...]:
    """Returns user utterances without a value."""
    fresh = Fresh(lexis, draw)
    return tuple(text.format(a=fresh(), b=fresh()) for text in _REMARKS)


def _slot(
    fresh: Fresh,
    service_noun: str,
    pool: Sequence[tuple[str, ...]],
    before: Sequence[SlotSpec],
    more: bool,
) -> SlotSpec:
    draw = fresh.draw
    noun, quality = fresh(), fresh()
    templates: Sequence[str] = _DESCRIPTIONS
    kind = draw.pick(_KINDS)
    if kind == "typed":
        return typed_slot.slot(fresh, service_noun, before, more)
    sisters = [slot.concept.noun for slot in before if " " not in slot.concept.noun]
    if kind == "flag":
        templates = _FLAG_DESCRIPTIONS
    elif sisters and draw.chance(0.25):
        noun, templates = draw.pick(sisters), _SISTERS
    text = draw.pick(templates).format(n=noun, q=quality, s=service_noun)
    text = fresh.lexis.allowed(text)
    # Users name the slot with words of its description: its noun, its quality, or both.
    own = [word for word in (noun, quality) if word in text.split()]
    alone = quality if noun in sisters else draw.pick(own)
    phrases = sorted({" ".join(own), " ".join(reversed(own)), alone})

    def filled(texts: Sequence[str], count: int) -> tuple[str, ...]:
        chosen = draw.sample(texts, count)
        return tuple(text.replace("{w}", draw.pick(phrases)) for text in chosen)

    tell = filled(_TELL, 5)
    if kind == "options" and draw.chance(0.5):
        tell = tuple(draw.sample(_TELL_OPTION, 3)) + tell[:2]
    values = {
        "flag": lambda: FLAG,
        "options": lambda: tuple(draw.sample(_made_up(fresh), draw.pick((2, 3, 3, 4)))),
        "free": lambda: draw.pick(pool),
    }[kind]()
    name = f"slot{len(before)}"
    return SlotSpec(
        name=name,
        concept=Concept(
            noun=" ".join(own),
            tell=tell,
            yes=filled(_YES, 3),
            no=filled(_NO, 3),
            ask=filled(_ASK, 2),
            wonder=filled(_WONDER, 2) if draw.chance(0.3) else (),
            suggest=filled(_SUGGEST, 2),
        ),
        values=values,
        is_categorical=kind != "free",
        before="",
        wordings={ORIGINAL: (name, text)},
    )


def value_list(fresh: Fresh) -> tuple[str, ...]:
    """Returns the values of a random kind, from MiniSGD or generated."""
    draw = fresh.draw
    kind = draw.pick(_LISTS)
    if kind == "made_up":
        return _made_up(fresh)
    if kind == "clock":
        return tuple(draw.sample(_TIMES, _LIST_LENGTH))
    if kind == "number":
        return tuple(draw.sample([str(n) for n in range(1, 30)], _LIST_LENGTH))
    if kind == "amount":
        unit = made_up(draw)
        return tuple(f"{n} {unit}" for n in draw.sample(range(2, 90), _LIST_LENGTH))
    known = [fresh.lexis.allowed(value) for value in VALUES[kind]]
    return tuple(draw.sample(known, _LIST_LENGTH))


def _made_up(fresh: Fresh) -> tuple[str, ...]:
    """Returns values of one or two words that occur nowhere else in the service."""
    counts = [fresh.draw.pick((1, 1, 1, 2)) for _ in range(_LIST_LENGTH)]
    return tuple(" ".join(fresh() for _ in range(count)) for count in counts)


def _intent(
    fresh: Fresh, service_noun: str, number: int, slots: Sequence[SlotSpec]
) -> IntentSpec:
    draw = fresh.draw
    words = {"q": fresh(), "n": fresh(), "s": service_noun}
    template = draw.pick(_INTENTS)
    text = template.format(**words)
    openers = [text for text in _OPENERS if "{n}" not in text or "{n}" in template]
    names = [slot.name for slot in slots]
    required = draw.sample(names, draw.pick((1, 2, 2, 3)))
    optional = [n for n in names if n not in required and draw.chance(0.7)]
    return IntentSpec(
        name=f"Intent{number}",
        is_transactional=draw.chance(0.5),
        required=tuple(required),
        optional=tuple(optional),
        wordings={ORIGINAL: (f"Intent{number}", fresh.lexis.allowed(text))},
        openers=tuple(text.format(**words) for text in draw.sample(openers, 3)),
    )
