"""Formatters: a schema whose services are prepared once, for dialogues as examples."""

import abc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import nearest
from jaxaug.data.dialogue import Dialogue, State
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.records import Example, FrameRandom, FromData, user_frames

Answered = tuple[str, str, str]
"""Inputs, targets, and key of an example."""


class Prompt(Protocol):
    """A service, prepared once for all of its frames."""

    @property
    def is_fixed(self) -> bool:
        """True if the order of the prompt never changes."""

    @property
    def known(self) -> Mapping[str, object]:
        """The slots of the service by name."""

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        """Returns the examples of a frame; `rng` draws orders that are not fixed."""


class Rendering(Protocol):
    """A prompt with the data to answer it and to read the answer."""

    @property
    def prompt(self) -> str: ...

    @property
    def key(self) -> str: ...


_R = TypeVar("_R", bound=Rendering)
_I = TypeVar("_I")


class FramePrompt(abc.ABC, Generic[_I, _R]):
    """A prompt with one example per frame, which shows items in some order.

    Attributes:
        known: the slots of the service by name.
        fixed: the rendering in schema order; None if every frame has its own order.
        between: text between prompt and dialogue.
    """

    between: ClassVar[str] = " "

    def __init__(
        self, known: Mapping[str, object], items: Sequence[_I], is_fixed: bool
    ):
        self.known, self._items = known, items
        self.fixed = self._write(items, None) if is_fixed else None

    @property
    def is_fixed(self) -> bool:
        """True if the order of the prompt never changes."""
        return self.fixed is not None

    @abc.abstractmethod
    def _write(self, items: Sequence[_I], rng: FrameRandom | None) -> _R:
        """Returns the prompt of items in order; `rng` shuffles what is inside."""

    @abc.abstractmethod
    def _target(self, state: State, rendering: _R) -> str:
        """Returns the answer for a state."""

    def _drawn(self, rng: FrameRandom) -> _R:
        """Returns the prompt in the order drawn by `rng`."""
        items = list(self._items)
        rng.shuffle(items)
        return self._write(items, rng)

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        """See `Prompt`."""
        rendering = self._drawn(rng) if self.fixed is None else self.fixed
        inputs = f"{rendering.prompt}{self.between}{context}"
        return ((inputs, self._target(state, rendering), rendering.key),)


class SchemaFormatter(abc.ABC):
    """Formats the dialogues of one schema; prepares every service once."""

    def __init__(self, schema: Schema, options: Any):
        self._schema, self._options = schema, options
        self._prompts: dict[str, Prompt] = {}
        self._left_out = options.left_out if isinstance(options, FromData) else ()

    @abc.abstractmethod
    def prepared(self, service: Service) -> Prompt:
        """Returns the prompt of a service."""

    def dialogue(self, dialogue: Dialogue, epoch: int = 0) -> Iterator[Example]:
        """Yields the examples of each user frame that has a state.

        A dialogue that is shown as a demonstration gives no examples.

        Raises:
            UserError: a frame names a service or slot that the schema lacks, or the
                format has no place for it.
        """
        if dialogue.dialogue_id in self._left_out:
            return
        rng, options, name = FrameRandom(), self._options, dialogue.dialogue_id
        for context, turn, index, frame in user_frames(dialogue, options.lowercase):
            prompt = self._prompts.get(frame.service)
            if prompt is None:
                prompt = self.prepared(self._schema.service(frame.service))
                self._prompts[frame.service] = prompt
            state, known = frame.state, prompt.known.keys()
            assert state is not None
            named = state.slot_values.keys()
            if not prompt.is_fixed:
                rng.start(options.seed, name, turn, index, epoch)
            try:
                if not (named <= known and known >= {*state.requested_slots}):
                    slots = (*named, *state.requested_slots)
                    _check_slots(slots, known, frame.service)
                found = prompt.examples(state, context, rng)
            except UserError as error:
                raise UserError(f"dialogue {name!r}, turn {turn}: {error}") from None
            for inputs, targets, key in found:
                yield Example(inputs, targets, name, turn, index, frame.service, key)


def _check_slots(names: Iterable[str], known: Collection[str], service: str) -> None:
    """Raises `UserError` for a slot that the service lacks."""
    for name in names:
        if name not in known:
            raise UserError(
                f"slot {name!r} is no slot of service {service!r} in this "
                f"schema.{nearest(name, known)} Use the schema that belongs to the "
                "dialogues (for a variant, dialogues are renamed while they are read)."
            )
