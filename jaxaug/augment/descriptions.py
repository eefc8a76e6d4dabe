"""The texts of a schema that are paraphrased, and a schema with other texts.

Prompts of language models show a text with its context in the schema.
"""

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import clean, is_single_spaced
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.paraphrase import literals

KINDS = ("service", "slot", "intent", "service_name", "slot_name", "intent_name")

# The values of a flag are not words of its description.
_FLAGS = frozenset({"true", "false"})
_DIGITS = re.compile(r"_\d+$")
# A word in a name begins at a capital, or after a character that is no letter or digit.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Description:
    """One text of a schema.

    Attributes:
        id: `train/3/slot/5`: split, index of the service, kind, index in the service; a
            service has no last index.
        kind: one of `KINDS`; the text of a name kind is the words of the name.
        service: name of the service.
        name: name of the slot, intent, or service.
        text: text to paraphrase, with its white space.
        protected: parts that a paraphrase must hold: literals, and values of the slot
            in the text.
        values: possible values of a slot.
    """

    id: str
    kind: str
    service: str
    name: str
    text: str
    protected: tuple[str, ...]
    values: tuple[str, ...] = ()


def descriptions(schema: Schema, split: str, names: bool = False) -> list[Description]:
    """Returns the texts of a schema in its order: each service, its slots, its intents.

    Blank texts are left out, as there is nothing to paraphrase.

    Args:
        names: whether to include the names.

    Raises:
        UserError: every text is blank.
    """
    found = [item for item in _every(schema, split, names) if item.text.strip()]
    if not any(item.kind in KINDS[:3] for item in found):
        raise UserError(
            f"the {split} schema has no descriptions: each of its "
            f"{len(schema.services)} services, their slots and their intents is "
            "described by a blank text. Write descriptions to paraphrase."
        )
    return found


def with_texts(schema: Schema, split: str, texts: Mapping[str, str]) -> Schema:
    """Returns the schema with other texts; a text without a new one stays.

    Slots and intents stay at their place; intents name the renamed slots. A name keeps
    its original style, `snake_case` or `CamelCase`, with the number of a service at its
    end.

    Args:
        texts: id of a description -> text.

    Raises:
        UserError: an id is unknown, a text is blank, or two slots or intents of a
            service would have one name. Or a text has white space other than single
            spaces between words, and the original has not.
    """
    known = {item.id: item.text for item in _every(schema, split, names=True)}
    for key, text in texts.items():
        if key not in known:
            raise UserError(
                f"{key!r} is not a text of the schema; {suggestion(key, known)}"
            )
        is_spaced = is_single_spaced(text) or not is_single_spaced(known[key])
        if not text.strip() or not is_spaced:
            raise UserError(
                f"{key}: the new text is {text!r}; give a text with single spaces, "
                "and leave the id out to keep the original."
            )
    services = tuple(
        _service(service, f"{split}/{place}", texts)
        for place, service in enumerate(schema.services)
    )
    return Schema(services)


def words_of(name: str) -> str:
    """Returns the words of a name in lower case, separated by spaces.

    For example, `FindBus` becomes `find bus`. A number at the end, as in `Buses_1`, is
    left out.
    """
    return " ".join(_WORD.findall(_DIGITS.sub("", name))).lower()


def name_of(text: str, original: str) -> str:
    """Returns a text as a name in the style of the original one.

    Raises:
        UserError: the text has no letter or digit.
    """
    words = re.findall(r"[^\W_]+", text)
    if not words:
        raise UserError(f"{text!r} cannot be a name: it has no letter or digit.")
    number = _DIGITS.search(original)
    if original[:1].isupper():
        joined = "".join(word[:1].upper() + word[1:].lower() for word in words)
    else:
        joined = "_".join(words).lower()
    return joined + (number.group() if number else "")


def protected(text: str, values: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the parts of a text that a paraphrase must hold.

    Args:
        values: values of its slot.

    Returns:
        The literals, then the values in the text as whole words, as spelled there.
    """
    found = [*literals.found(text)]
    for value in values:
        if value.strip() and value.lower() not in _FLAGS:
            match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE)
            found += [match.group()] if match else []
    return tuple(dict.fromkeys(found))


def _every(schema: Schema, split: str, names: bool) -> Iterator[Description]:
    """Yields all texts, including blank ones."""
    for place, service in enumerate(schema.services):
        parts: list[tuple[str, str, Service | Slot | Intent, tuple[str, ...]]] = [
            ("service", "", service, ())
        ]
        parts += [
            ("slot", f"/{i}", slot, slot.possible_values)
            for i, slot in enumerate(service.slots)
        ]
        parts += [
            ("intent", f"/{i}", intent, ()) for i, intent in enumerate(service.intents)
        ]
        for kind, index, item, values in parts:
            stem = f"{split}/{place}/{kind}"
            text = item.description
            yield Description(
                f"{stem}{index}", kind, service.name, item.name, text,
                protected(text, values), values,
            )  # fmt: skip
            if names:
                yield Description(
                    f"{stem}_name{index}", f"{kind}_name", service.name, item.name,
                    words_of(item.name), (),
                )  # fmt: skip


def _service(service: Service, stem: str, texts: Mapping[str, str]) -> Service:
    def description(kind: str, old: str) -> str:
        return texts.get(f"{stem}/{kind}", old)

    def names(kind: str, old: list[str]) -> list[str]:
        new = [
            _renamed(texts.get(f"{stem}/{kind}_name/{i}"), name)
            for i, name in enumerate(old)
        ]
        for i, name in enumerate(new):
            if name in new[:i]:
                raise UserError(
                    f"{stem}/{kind}_name/{i}: service {service.name!r} would have two "
                    f"{kind}s called {name!r}. Leave one of the two out."
                )
        return new

    slot_names = names("slot", [slot.name for slot in service.slots])
    renamed = {s.name: new for s, new in zip(service.slots, slot_names, strict=True)}
    slots = tuple(
        dataclasses.replace(
            slot, name=name, description=description(f"slot/{i}", slot.description)
        )
        for i, (slot, name) in enumerate(zip(service.slots, slot_names, strict=True))
    )
    intent_names = names("intent", [intent.name for intent in service.intents])
    intents = tuple(
        dataclasses.replace(
            intent,
            name=name,
            description=description(f"intent/{i}", intent.description),
            required_slots=tuple(renamed[s] for s in intent.required_slots),
            optional_slots=tuple((renamed[s], v) for s, v in intent.optional_slots),
            result_slots=tuple(renamed[s] for s in intent.result_slots),
        )
        for i, (intent, name) in enumerate(
            zip(service.intents, intent_names, strict=True)
        )
    )
    name = _renamed(texts.get(f"{stem}/service_name"), service.name)
    return Service(name, description("service", service.description), slots, intents)


def _renamed(text: str | None, original: str) -> str:
    return original if text is None else name_of(text, original)


def beside(descriptions: Sequence[Description]) -> Mapping[str, tuple[str, ...]]:
    """Returns id -> the other texts of the same kind and service.

    Services have none, as a tracker's prompt holds only one service.
    """
    groups: dict[tuple[str, str], dict[str, None]] = collections.defaultdict(dict)
    for one in descriptions:
        groups[_group(one)][one.text] = None
    return {
        one.id: tuple(
            text
            for text in groups[_group(one)]
            if text.casefold() != one.text.casefold()
        )
        for one in descriptions
    }


def _group(one: Description) -> tuple[str, str]:
    split, service, *_ = one.id.split("/")
    return f"{split}/{service}", one.kind


def with_contexts(
    texts: Sequence[str], descriptions: Sequence[Description]
) -> list[str | list[Any]]:
    """Returns each text with its context: [text, context], or the text if it has none.

    A text of several services has the context of the first one.
    """
    found = _contexts(descriptions)
    return [[text, found[text]] if text in found else text for text in texts]


def _contexts(descriptions: Sequence[Description]) -> Mapping[str, Mapping[str, Any]]:
    """Returns text -> its context.

    `kind`, `service`, `siblings`, `values`, and `keep` are places in prompts.
    `description` is the description of the service, and `names` are the names of the
    other slots or intents.
    """
    services = {
        one.service: clean(one.text, False)
        for one in descriptions
        if one.kind == "service"
    }
    others = beside(descriptions)
    names: dict[tuple[str, str], list[str]] = {}
    for one in descriptions:
        kind = one.kind.removesuffix("_name")
        names.setdefault((one.service, kind), []).append(one.name)
    found: dict[str, dict[str, Any]] = {}
    for one in descriptions:
        service = services.get(one.service, "")
        context = {
            "kind": one.kind.replace("_", " "),
            "service": f"{one.service}: {service}" if service else one.service,
            "siblings": []
            if one.kind == "service"
            else [clean(text, False) for text in others[one.id]],
            "name": one.name,
            "description": service,
            "names": [
                name
                for name in dict.fromkeys(
                    names[one.service, one.kind.removesuffix("_name")]
                )
                if name != one.name
            ],
            "values": list(one.values),
            "keep": list(one.protected),
        }
        if one.kind == "service":
            # The text itself is not context.
            context["service"] = one.service
        found.setdefault(one.text, context)
    return found
