"""SDT-ind: one question per slot, with an example value instead of a description.

  [example] [user] two seats for jazz [slot] kind=a of possible values a) music
  b) sports [context] [user] a match in oslo   ->   b

This is the form of "Show, Don't Tell" (Gupta et al., 2022) that asks for one slot at a
time. The answer has the form of T5DST: the value, the letter of an option, or `none`.

The paper shows one hand-written user utterance in which the slot is active; the
authors' program lacks this form. Here the utterance comes from the demonstration
(`said_in`), and every slot of the service has a question.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.formats import t5dst
from jaxaug.formats.arguments import Order
from jaxaug.formats.shown import (
    NONE,
    ShowsDemonstrations,
    demonstration_of,
    example_text,
    slot_word,
    with_options,
)


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
