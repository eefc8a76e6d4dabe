"""SDT: an example dialogue as prompt instead of descriptions (Gupta et al., 2022).

  [example] [user] two seats for jazz [slots] seats=2 kind=a of possible values a) music
  b) sports [context] [user] a match in oslo   ->   [state] seats=none kind=b

This is "Show, Don't Tell" in the form SDT-seq: one example per frame, with all slots
that an intent of the service takes. The prompt has the names of the slots but not their
descriptions. The text is the output of the authors' program with `of possible values`
and, as in their paper, options with letters. It differs in two points. Several
annotated spellings are answered with bars between them, so that targets score fully.
The example dialogue is not hand-written (`jaxaug.data.demonstrations`). Slots that the
example does not fill are shown with `none`.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.arguments import SDTText
from jaxaug.formats.formatter import Answered, FramePrompt, SchemaFormatter
from jaxaug.formats.records import (
    NO_INTENT,
    FrameRandom,
    Parsed,
    WholeFrame,
    clean_value,
    join_values,
    read_option,
    sections,
    split_values,
)
from jaxaug.formats.shown import (
    NONE,
    ShowsDemonstrations,
    demonstration_of,
    example_text,
    slot_word,
    with_options,
)


class SDTOptions(SDTText, ShowsDemonstrations, WholeFrame):
    """Options of SDT text; see also `ShowsDemonstrations`."""

    demonstrations: tuple[Demonstration, ...] | None = None
    split: str = ""

    family: ClassVar[str] = "sdt"
    version: ClassVar[int] = 1

    def formatter(self, schema: Schema) -> "SDTFormatter":
        """Returns a formatter of dialogues under a schema."""
        return SDTFormatter(schema, self)

    def parse(self, text: str, key: str) -> Parsed:
        """See `parse` of this module."""
        return parse(text, key)


class _Item(NamedTuple):
    """A slot or the intent, with its texts in prompt and answer."""

    name: str
    text: str
    shown: str  # Value of the slot in the demonstration.
    options: tuple[str, ...]  # Empty for a free slot.


class _Rendering(NamedTuple):
    """A prompt with the data to answer it and to read the answer."""

    prompt: str
    key: str
    # Maps a name to (text, value -> text).
    slots: Mapping[str, tuple[str, Mapping[str, str]]]
    intents: Mapping[str, str]


class _Prompt(FramePrompt[_Item, _Rendering]):
    """A service with its demonstration, prepared for rendering in any order."""

    between = " [context] "

    def __init__(self, service: Service, one: Demonstration, options: SDTOptions):
        self._options = options
        values = dict(one.slot_values)
        known = {slot.name: slot for slot in service.slots}
        for name in values:
            # Raises an error for an unknown slot of a demonstration file.
            service.slot(name)
        taken = values.keys() | {
            name
            for intent in service.intents
            for name in (*intent.required_slots, *dict(intent.optional_slots))
        }
        # In a service without intents every slot may be filled.
        names = [name for name in known if name in taken or not service.intents]
        items = [
            _Item(
                name,
                slot_word(name, options.lowercase),
                values.get(name, NONE),
                known[name].possible_values if known[name].is_categorical else (),
            )
            for name in names
        ]
        texts = [item.text for item in items]
        if len({*texts}) < len(texts):
            raise UserError(
                f"service {service.name!r}: two slots are called alike once letter "
                f"case, spaces and = are set aside. Rename one of them, or use D3ST."
            )
        self._service, self._asked = service.name, frozenset(names)
        self.intents = tuple(intent.name for intent in service.intents)
        self._shown_intent = one.active_intent
        self._example = example_text(one.turns, options.lowercase)
        super().__init__(known, items, options.order == "schema")

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        """See `Prompt`; raises `UserError` for a filled slot outside the prompt."""
        if not self._asked.issuperset(state.slot_values):
            name = next(n for n in state.slot_values if n not in self._asked)
            raise UserError(
                f"slot {name!r} is filled, but no intent of service "
                f"{self._service!r} takes it, so SDT does not ask for it. Put it into "
                "optional_slots of an intent in the schema."
            )
        return super().examples(state, context, rng)

    def _write(self, slots: Sequence[_Item], rng: FrameRandom | None) -> _Rendering:
        """Returns the prompt of slots in order; `rng` shuffles options and intents."""
        pieces, keys, answers = [self._example, "[slots]"], [], {}
        for index, item in enumerate(slots):
            text = str(index) if self._options.names == "ids" else item.text
            ordered, texts, shown = self._options_of(item.options, item.shown, rng)
            pieces.append(f"{text}={shown}")
            answers[item.name] = text, texts
            keys.append([item.name, text, ordered])
        intents: list[str] = []
        letters: Mapping[str, str] = {}
        if self._options.answers_intents:
            intents, letters, shown = self._options_of(
                self.intents, self._shown_intent, rng
            )
            pieces += ["[intent]", shown]
        key = {
            "letters": self._options.categorical == "letters",
            "slots": keys,
            "intents": intents,
        }
        packed = json.dumps(key, separators=(",", ":"))
        return _Rendering(" ".join(pieces), packed, answers, letters)

    def _options_of(
        self, options: Sequence[str], value: str, rng: FrameRandom | None
    ) -> tuple[list[str], dict[str, str], str]:
        """Returns ordered options, the answer for each, and the display of `value`."""
        ordered = list(options)
        if rng is not None:
            rng.shuffle(ordered)
        given = self._options
        texts, shown = with_options(
            value, ordered, given.lowercase, given.categorical == "letters"
        )
        return ordered, texts, shown

    def _target(self, state: State, rendering: _Rendering) -> str:
        options = self._options
        pieces = ["[state]"]
        for name, (text, texts) in rendering.slots.items():
            values = state.slot_values.get(name, ())
            if values:
                answer = join_values(
                    texts.get(value) or clean_value(value, options.lowercase)
                    for value in values
                )
                pieces.append(f"{text}={answer}")
            elif options.answered == "all":
                pieces.append(f"{text}={NONE}")
        if options.answers_intents:
            pieces += ["[intent]", rendering.intents.get(state.active_intent, NONE)]
        return " ".join(pieces)


class SDTFormatter(SchemaFormatter):
    """Formatter of SDT."""

    def __init__(self, schema: Schema, options: SDTOptions):
        super().__init__(schema, options)
        self._shown = options.by_service

    def prepared(self, service: Service) -> _Prompt:
        """See `SchemaFormatter`."""
        shown = demonstration_of(service.name, self._shown)
        return _Prompt(service, shown, self._options)


class _Key(NamedTuple):
    item: re.Pattern[str]  # Matches a name with its equals sign.
    letters: bool
    slots: dict[str, tuple[str, list[str]]]  # text -> name, options
    intents: list[str]


@functools.lru_cache(maxsize=4096)
def _read_key(key: str) -> _Key:
    data = json.loads(key)
    slots = {text: (name, options) for name, text, options in data["slots"]}
    names = "|".join(map(re.escape, sorted(slots, key=len, reverse=True)))
    # Another word with an equals sign also ends an item.
    known = f"{names}|" if names else ""
    item = re.compile(rf"(?<!\S)(?<!\| )({known}[\w-]+)=")
    return _Key(item, data["letters"], slots, data["intents"])


_MARKER = re.compile(r"(?<!\S)\[(state|intent)\](?!\S)", re.IGNORECASE)


def parse(text: str, key: str) -> Parsed:
    """Parses the answer `text`, given the key of its example.

    It inverts the formatter, except for what the options drop (letter case of free
    values, runs of spaces). No value may contain a marker, ` | `, or a word that ends
    in `=` after a space, and no free value may be `none`. Any other text is parsed as
    far as possible. Unusable pieces are skipped and counted: unknown or repeated names,
    empty values, invalid letters, text outside the sections, and repeated sections.
    Without `[state]`, the text before the first marker counts as the state.
    """
    names = _read_key(key)
    found, malformed = sections(text, _MARKER, "state")
    slot_values, unusable = _parse_state(found.get("state", ""), names)
    intent = NO_INTENT
    said = found.get("intent", NONE)
    if said.lower() != NONE:
        read = read_option(said, names.intents, names.letters)
        if read in names.intents:
            intent = read or NO_INTENT
        else:
            malformed += 1
    return Parsed(slot_values, intent, (), malformed + unusable)


def _parse_state(text: str, names: _Key) -> tuple[dict[str, tuple[str, ...]], int]:
    slot_values: dict[str, tuple[str, ...]] = {}
    pieces = names.item.split(text)
    malformed = int(bool(pieces[0].strip()))
    seen = set()
    for said, content in zip(pieces[1::2], pieces[2::2], strict=True):
        if said not in names.slots or said in seen:
            malformed += 1
            continue
        seen.add(said)
        name, options = names.slots[said]
        if content.strip().lower() == NONE and not (
            options and not names.letters and NONE in map(str.lower, options)
        ):
            continue
        values = []
        for value in split_values(content):
            read = read_option(value, options, names.letters)
            if read:
                values.append(read)
            else:
                malformed += 1
        if values:
            slot_values[name] = tuple(values)
    return slot_values, malformed
