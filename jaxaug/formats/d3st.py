"""D3ST: schema descriptions as prompt, indices as answers (Zhao et al., 2022).

  0=city of the event 1=type of event 1a) music 1b) sports i0=buy tickets
  [user] i want to see a concert   ->   [states] 1=1a [intents] i0 [req_slots] 0

Indices count within the frame's service; slots and intents have separate numbers. The
text equals the output of the authors' script, except where that cannot be inverted or
loses annotation. There is one example per frame with the slots of that service. The
state is the annotated one (not accumulated over turns). Several values of a categorical
slot are joined as letters. As in the script, intents are in the prompt at either level.
A categorical slot whose values are all digits counts as free: the dialogue states the
digits themselves. Figure 2a of Coca et al. (2023) shows such a slot with options, `a) 1
b) 2 c) 3 d) 4`; `digit_options` writes them too.
"""

import json
import operator
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.arguments import D3STText
from jaxaug.formats.d3st_answers import parse
from jaxaug.formats.formatter import FramePrompt, SchemaFormatter
from jaxaug.formats.records import (
    FrameRandom,
    Parsed,
    WholeFrame,
    clean_value,
    join_values,
    letter,
)


class D3STOptions(D3STText, WholeFrame):
    """Options of D3ST text.

    Attributes:
        digit_options: whether categorical slots whose values are all digits have
            options.
        max_items: (lo, hi) restricts prompt and answer to a random choice of lo to hi
            slots (short prompts, from which a tracker learns indices; `seed` draws
            them too); None shows all.
    """

    digit_options: bool = False
    max_items: tuple[int, int] | None = None

    family: ClassVar[str] = "d3st"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.delimiter or re.search(r"[\w\s]", self.delimiter):
            raise UserError(
                f"D3ST option delimiter={self.delimiter!r}: use one or more characters "
                "that are neither letters, digits nor white space, such as '='."
            )
        if self.max_items is not None:
            low, high = self.max_items
            if not 1 <= low <= high:
                raise UserError(
                    f"D3ST option max_items={self.max_items}: use (lo, hi) with "
                    "1 <= lo <= hi."
                )

    def formatter(self, schema: Schema) -> "D3STFormatter":
        """Returns a formatter of dialogues under a schema."""
        return D3STFormatter(schema, self)

    def parse(self, text: str, key: str) -> Parsed:
        """See `parse` of this module."""
        return parse(text, key)


class _Slot(NamedTuple):
    name: str
    text: str
    options: tuple[str, ...]  # Empty for a free slot.
    option_texts: Mapping[str, str]
    json_name: str
    json_options: Mapping[str, str]  # Maps an option to its JSON form.


class _Intent(NamedTuple):
    name: str
    text: str
    json_name: str


class _Rendering(NamedTuple):
    """A prompt with the data to answer it and to read the answer."""

    prompt: str
    key: str
    # Maps a slot to (index, value -> text).
    answers: Mapping[str, tuple[int, Mapping[str, str]]]
    intents: Mapping[str, int]
    # Maps (slot, values) to (index, answer) for the answers so far, which recur from
    # turn to turn.
    answered: dict[tuple[str, tuple[str, ...]], tuple[int, str]]


_first = operator.itemgetter(0)
_MOST_ANSWERED = 1 << 16  # Maximum per service; one split has some thousands of values.


def _answer(
    name: str, values: tuple[str, ...], rendering: _Rendering, options: D3STOptions
) -> tuple[int, str]:
    """Returns (index of the slot, its part of the target)."""
    index, texts = rendering.answers[name]
    answer = join_values(
        [texts.get(value) or clean_value(value, options.lowercase) for value in values]
    )
    return index, f"{index}{options.delimiter}{answer}"


class _Prompt(FramePrompt[_Slot, _Rendering]):
    """A service prepared for rendering in any order."""

    def __init__(self, service: Service, options: D3STOptions):
        self.options = options
        slots = []
        for slot in service.slots:
            values = slot.possible_values if slot.is_categorical else ()
            if not options.digit_options and all(map(str.isdigit, values)):
                values = ()
            slots.append(
                _Slot(
                    slot.name,
                    clean(slot.description, options.lowercase),
                    values,
                    {value: clean(value, options.lowercase) for value in values},
                    json.dumps(slot.name),
                    {value: json.dumps(value) for value in values},
                )
            )
        self._intents = [
            _Intent(
                intent.name,
                clean(intent.description, options.lowercase),
                json.dumps(intent.name),
            )
            for intent in service.intents
        ]
        letters = str(options.categorical != "none").lower()
        delimiter = json.dumps(options.delimiter)
        self._key_start = f'{{"delimiter":{delimiter},"letters":{letters},"slots":['
        is_fixed = options.order == "schema" and options.max_items is None
        super().__init__({slot.name: slot for slot in slots}, slots, is_fixed)

    def _drawn(self, rng: FrameRandom) -> _Rendering:
        slots = list(self._items)
        if self.options.max_items is not None:
            count = min(rng.randint(*self.options.max_items), len(slots))
            chosen = sorted(rng.sample(range(len(slots)), count))
            slots = [slots[index] for index in chosen]
        if self.options.order != "shuffled":
            return self._write(slots, None)
        rng.shuffle(slots)
        return self._write(slots, rng)

    def _write(self, slots: Sequence[_Slot], rng: FrameRandom | None) -> _Rendering:
        """Returns the prompt of slots; `rng` shuffles intents and options."""
        style, delimiter = self.options.categorical, self.options.delimiter
        intents = list(self._intents)
        if rng is not None:
            rng.shuffle(intents)
        pieces = []
        keys = []
        answers = {}
        for index, (name, text, values, texts, json_name, json_values) in enumerate(
            slots
        ):
            pieces.append(f"{index}{delimiter}{text}")
            if not values:
                keys.append(f"[{json_name},[]]")
                answers[name] = index, texts
                continue
            options: Sequence[str] = values
            if rng is not None:
                options = list(values)
                rng.shuffle(options)
            listed = ",".join([json_values[value] for value in options])
            keys.append(f"[{json_name},[{listed}]]")
            if style != "none":
                mark = str(index) if style == "1a" else ""
                answered = {}
                for position, value in enumerate(options):
                    at = letter(position)
                    answered[value] = f"{index}{at}"
                    pieces.append(f"{mark}{at}) {texts[value]}")
                texts = answered
            answers[name] = index, texts
        numbers = {}
        for index, intent in enumerate(intents):
            pieces.append(f"i{index}{delimiter}{intent.text}")
            numbers[intent.name] = index
        known = []
        if self.options.level == "dst_intent":
            known = [intent.json_name for intent in intents]
        key = f'{self._key_start}{",".join(keys)}],"intents":[{",".join(known)}]}}'
        return _Rendering(" ".join(pieces), key, answers, numbers, {})

    def _target(self, state: State, rendering: _Rendering) -> str:
        answered, options = rendering.answered, self.options
        filled = []
        for item in state.slot_values.items():
            answer = answered.get(item)
            if answer is None:
                if not item[1] or item[0] not in rendering.answers:
                    continue
                answer = _answer(*item, rendering, options)
                if len(answered) < _MOST_ANSWERED:
                    answered[item] = answer
            filled.append(answer)
        filled.sort(key=_first)
        pieces = ["[states]", *[text for _, text in filled]]
        if options.level == "dst_intent":
            pieces.append("[intents]")
            if state.active_intent in rendering.intents:
                pieces.append(f"i{rendering.intents[state.active_intent]}")
            pieces.append("[req_slots]")
            for name in state.requested_slots:
                if name in rendering.answers:
                    pieces.append(str(rendering.answers[name][0]))
        return " ".join(pieces)


class D3STFormatter(SchemaFormatter):
    """Formatter of D3ST."""

    def prepared(self, service: Service) -> _Prompt:
        """See `SchemaFormatter`."""
        return _Prompt(service, self._options)
