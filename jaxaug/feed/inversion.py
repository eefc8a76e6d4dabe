"""The verb `jaxaug data check`: finds values that a format cannot read back."""

import dataclasses
import re

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data import inspect_folder
from jaxaug.data.arguments import Check
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.feed import recipes
from jaxaug.formats.records import FormatOptions, Formatter
from jaxaug.formats.sdt import ShowsDemonstrations

# Every format reads such values back, unless they equal the word for no value.
_WORD = r"[\w.,:'&$()/#!?\"%+*@;\u2019-]+"
_PLAIN = re.compile(rf"{_WORD}( {_WORD})*")
_NO_VALUE = "none"


def run(arguments: Check) -> int:
    """Runs the verb `jaxaug data check`; returns status 1 if there is an error."""
    report = inspect_folder.inspect(arguments.dir, unreadable)
    print(report)
    return 1 if report.errors else 0


def unreadable(schema: Schema) -> inspect_folder.Unreadable:
    """Returns a function that finds the formats that cannot read a value back.

    Each format writes the answer of a dialogue whose state is only this value, and
    parses it. Letter case and runs of white space are ignored. Each value is reported
    once, because states repeat it from turn to turn.

    Args:
        schema: schema of the dialogues; the function raises `UserError` for other
            services.
    """
    turns = (("USER", "-"),)
    demonstrations = tuple(
        Demonstration(service.name, turns, (), "NONE") for service in schema.services
    )
    formats: dict[str, tuple[FormatOptions, Formatter]] = {}
    for name in recipes.FORMATS:
        try:
            options: FormatOptions = recipes.FORMATS[name]
        # A format of another package, which is reported where it is used.
        except UserError:
            continue
        if isinstance(options, ShowsDemonstrations):
            options = dataclasses.replace(options, demonstrations=demonstrations)
        formats[name] = options, options.formatter(schema)

    reported: set[tuple[str, str, str]] = set()

    def found(service: str, slot: str, value: str) -> tuple[str, ...]:
        if (service, slot, value) in reported:
            return ()
        reported.add((service, slot, value))
        listed = schema.service(service).slot(slot).possible_values
        alike = sum(clean(one, True) == clean(value, True) for one in listed)
        if _PLAIN.fullmatch(value) and value.lower() != _NO_VALUE and alike < 2:
            return ()
        state = State("NONE", (), {slot: (value,)})
        turn = Turn("USER", "-", (Frame(service, state),))
        dialogue = Dialogue("-", (service,), (turn,))
        return tuple(
            name
            for name, (options, formatter) in formats.items()
            if not _inverts(options, formatter, dialogue, slot, value)
        )

    return found


def _inverts(
    options: FormatOptions,
    formatter: Formatter,
    dialogue: Dialogue,
    slot: str,
    value: str,
) -> bool:
    """Returns whether a format reads the only value of a dialogue back."""
    read: dict[str, list[str]] = {}
    try:
        for example in formatter.dialogue(dialogue):
            for name, values in options.parse(
                example.targets, example.key
            ).slot_values.items():
                read[name] = [clean(one, True) for one in values]
    except UserError:  # SDT has no place for a slot that no intent takes.
        return True
    return read == {slot: [clean(value, True)]}
