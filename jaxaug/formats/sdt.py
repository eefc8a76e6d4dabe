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

SDT-ind asks for one slot at a time, and every slot of the service has a question. The
answer has the form of T5DST: the value, the letter of an option, or `none`.

  [example] [user] two seats for jazz [slot] kind=a of possible values a) music
  b) sports [context] [user] a match in oslo   ->   b

The paper shows one hand-written user utterance in which the slot is active; the
authors' program lacks this form. Here the utterance comes from the demonstration
(`said_in`).
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import demonstrations, sgd
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.dialogue import State
from jaxaug.data.rename import Renaming
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.formats import t5dst
from jaxaug.formats.arguments import Order, SDTText
from jaxaug.formats.records import (
    NO_INTENT,
    Answered,
    FramePrompt,
    FrameRandom,
    Parsed,
    SchemaFormatter,
    WholeFrame,
    clean_value,
    join_values,
    letter,
    marked,
    read_option,
    read_values,
    sections,
)

NONE = "none"
"""Represents the value of a slot without a value."""


class ShowsDemonstrations:
    """Mixin of options with demonstrations.

    Attributes:
        demonstrations: example dialogues; None for those that `bound` finds.
        split: split of the dialogues to format. Its dialogues that are demonstrations
            give no examples, because their prompt would contain their answer.
    """

    __slots__ = ()

    demonstrations: tuple[Demonstration, ...] | None
    split: str

    @property
    def left_out(self) -> frozenset[str]:
        """Ids of dialogues of the split that are demonstrations."""
        return frozenset(
            one.dialogue_id
            for one in self.demonstrations or ()
            if one.split == self.split and one.dialogue_id
        )

    @property
    def by_service(self) -> Mapping[str, Demonstration]:
        """Maps a service to its demonstration; before `bound`, from the user's file."""
        if self.demonstrations is None:
            return demonstrations.of_variable()
        return {one.service: one for one in self.demonstrations}

    def sources(self, data_dir: PathLike, split: str) -> list[epath.Path]:
        """Returns the files that determine the text in addition to the split."""
        if self.demonstrations is not None:
            return []
        return demonstrations.sources(data_dir, split)

    def bound(
        self,
        data_dir: PathLike,
        split: str,
        variant: str | None = None,
        variants_dir: PathLike | None = None,
    ) -> Self:
        """Returns these options with the demonstrations of a split, renamed to a
        variant.

        Raises:
            UserError: the data or the file of demonstrations is wrong.
        """
        if self.demonstrations is not None:
            return self
        found = demonstrations.of_folder(data_dir, split)
        names = sgd.renaming_of(data_dir, split, variant, variants_dir)
        if names is not None:
            found = tuple(_renamed(one, names) for one in found)
        return replace(self, demonstrations=found, split=split)  # type: ignore[type-var]


def _renamed(one: Demonstration, names: Renaming) -> Demonstration:
    """Returns a demonstration with a variant's names; unknown names are kept."""
    if one.service not in names:
        return one
    new = names[one.service]
    return replace(
        one,
        service=new.service,
        slot_values=tuple((new.slots.get(n, n), v) for n, v in one.slot_values),
        active_intent=new.intents.get(one.active_intent, one.active_intent),
    )


def demonstration_of(service: str, shown: Mapping[str, Demonstration]) -> Demonstration:
    """Returns the demonstration of a service.

    Raises:
        UserError: the service has no demonstration.
    """
    if service not in shown:
        raise UserError(
            f"service {service!r} has no example dialogue, which SDT shows in place of "
            f"descriptions. Name a file that has one with "
            f"${demonstrations.FILE_VARIABLE}; `jaxaug data demonstrations` writes "
            "the dialogues of a data folder to one."
        )
    return shown[service]


def example_text(turns: Iterable[tuple[str, str]], lowercase: bool) -> str:
    """Returns (speaker, utterance) turns of a demonstration as prompt text."""
    said = (marked(speaker, utterance, lowercase) for speaker, utterance in turns)
    return "[example]" + "".join(said)


def slot_word(name: str, lowercase: bool) -> str:
    """Returns a slot's name as one word, without an equals sign."""
    return re.sub(r"[\s=]+", "_", clean(name, lowercase))


def with_options(
    value: str, options: Sequence[str], lowercase: bool, letters: bool = True
) -> tuple[dict[str, str], str]:
    """Returns option -> its answer, and the display of `value` with the options."""
    texts = {option: clean(option, lowercase) for option in options}
    if not texts:
        return {}, clean(value, lowercase)
    listed = ", ".join(texts.values())
    if letters:
        listed = " ".join(f"{letter(i)}) {t}" for i, t in enumerate(texts.values()))
        texts = {option: letter(i) for i, option in enumerate(options)}
    shown = texts.get(value, clean(value, lowercase))
    return texts, f"{shown} of possible values {listed}"


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
        read = functools.partial(read_option, options=options, letters=names.letters)
        values, wrong = read_values(content, read)
        malformed += wrong
        if values:
            slot_values[name] = values
    return slot_values, malformed


class SDTIndOptions(Order, ShowsDemonstrations, t5dst.OneSlot):
    """Options of SDT-ind text; see also `ShowsDemonstrations`."""

    demonstrations: tuple[Demonstration, ...] | None = None
    split: str = ""

    family: ClassVar[str] = "sdtind"
    version: ClassVar[int] = 1

    def formatter(self, schema: Schema) -> "SDTIndFormatter":
        """Returns a formatter of dialogues under a schema."""
        return SDTIndFormatter(schema, self)


class SDTIndFormatter(t5dst.PerSlotFormatter):
    """Asks by an example value from the demonstration, before the dialogue."""

    def __init__(self, schema: Schema, options: SDTIndOptions):
        super().__init__(schema, options)
        self._shown = options.by_service

    def prompts(self, service: Service) -> t5dst.Prompts:
        """See `PerSlotFormatter`."""
        one = demonstration_of(service.name, self._shown)
        values, lowercase = dict(one.slot_values), self._options.lowercase
        for name in values:
            # Raises an error for an unknown slot of a demonstration file.
            service.slot(name)

        def prompt(slot: Slot, options: Sequence[str]) -> tuple[str, str]:
            value = values.get(slot.name)
            turns = said_in(one, value) if value else one.turns
            example = example_text(turns, lowercase)
            _, shown = with_options(value or NONE, options, lowercase)
            name = slot_word(slot.name, lowercase)
            return f"{example} [slot] {name}={shown} [context] ", ""

        return prompt


def said_in(one: Demonstration, value: str) -> Sequence[tuple[str, str]]:
    """Returns the (speaker, utterance) turns of a demonstration that state a value.

    This is the first such turn. If it is a system turn, the following user turn, which
    accepts the offer, is included. If there is no such turn, all turns are returned.
    """
    # "4" matches neither in "14" nor in "$4,400".
    ends = rf"(?<![\w.,]){re.escape(value)}(?!\w|[.,]\w)"
    says = re.compile(ends, re.IGNORECASE)
    for index, (speaker, utterance) in enumerate(one.turns):
        if says.search(utterance):
            return one.turns[index : index + 1 + (speaker == "SYSTEM")]
    return one.turns
