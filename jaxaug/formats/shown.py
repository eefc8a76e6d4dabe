"""Shared parts of SDT-seq and SDT-ind, the formats that show example dialogues."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import demonstrations, sgd
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.rename import Renaming
from jaxaug.formats.records import letter, marked

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
            "those of a data folder."
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
