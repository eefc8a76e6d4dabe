"""`jaxaug data show`: prints dialogues with the changes of the state in each turn."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, sgd
from jaxaug.data.arguments import Show
from jaxaug.data.sgd import Dialogue, Frame, State, Turn

Paint = Callable[[str, str], str]
"""(text, style) -> the text, with or without color."""

_NONE = State("NONE", (), {})
_STYLES = {
    "head": "1",
    "USER": "1;36",
    "SYSTEM": "1;35",
    "span": "4;33",
    "slot": "2",
    "+": "32",
    "~": "33",
    "-": "31",
}
_LEGEND = "[text](slot): a span of the annotation; + new, ~ changed, - gone"


def run(arguments: Show) -> int:
    """Runs `jaxaug data show`.

    Raises:
        UserError: the data cannot be read, or lack the split, service, or dialogue.
    """
    folder = folders.resolve_data_dir(arguments.dir)
    found = choose(folder, arguments.split, arguments.dialogue, arguments.service)
    # See https://no-color.org.
    refused = arguments.no_color or os.environ.get("NO_COLOR")
    paint = _plain if refused or not sys.stdout.isatty() else _paint
    for split, dialogue in itertools.islice(found, arguments.num):
        print("\n".join(text(dialogue, split, paint)), end="\n\n")
    print(paint(_LEGEND, "slot"))
    return 0


def choose(
    folder: PathLike,
    split: str | None = None,
    dialogue_id: str | None = None,
    service: str | None = None,
) -> Iterator[tuple[str, Dialogue]]:
    """Yields (split, dialogue) for each selected dialogue.

    Args:
        split: split to read; None means all existing ones, train first.
        dialogue_id: selects a single dialogue; None means all.
        service: selects dialogues about this service; None means all.

    Raises:
        UserError: no dialogue is selected, or the data are invalid; raised at the first
            request.
    """
    there = (epath.Path(folder) / name / "schema.json" for name in folders.SPLITS)
    splits = [split] if split else [p.parent.name for p in there if p.exists()]
    found, ids = False, []
    for name in splits:
        if service is not None and service not in sgd.read_schema_of(folder, name):
            continue
        for dialogue in sgd.read_dialogues(folder, name):
            ids.append(dialogue.dialogue_id)
            if dialogue_id not in (None, dialogue.dialogue_id):
                continue
            if service is None or service in dialogue.services:
                found = True
                yield name, dialogue
    if not found:
        raise _nothing(folder, splits, dialogue_id, service, ids)


def _nothing(
    folder: PathLike,
    splits: Sequence[str],
    dialogue_id: str | None,
    service: str | None,
    ids: Sequence[str],
) -> UserError:
    where = f"{folder}: {', '.join(splits)}"
    services = {s.name for n in splits for s in sgd.read_schema_of(folder, n).services}
    if service is not None and service not in services:
        hint = suggestion(service, services)
        return UserError(f"{where}: no service {shown(service)}; {hint}")
    if dialogue_id is not None and dialogue_id not in ids:
        hint = suggestion(dialogue_id, ids)
        return UserError(f"{where}: no dialogue {shown(dialogue_id)}; {hint}")
    one = f"dialogue {shown(dialogue_id)} is" if dialogue_id else "no dialogue is"
    negation = " not" if dialogue_id else ""
    return UserError(
        f"{where}: {one}{negation} about service {shown(service)}. Leave --service "
        "out, or name another."
    )


def text(dialogue: Dialogue, split: str, paint: Paint) -> Iterator[str]:
    """Yields the lines of a dialogue."""
    title = f"{dialogue.dialogue_id} ({split}): {', '.join(dialogue.services)}"
    yield paint(_clean(title), "head")
    before: dict[str, State] = {}
    for number, turn in enumerate(dialogue.turns):
        speaker = paint(f"{turn.speaker:<6}", turn.speaker)
        yield f"{number:>3} {speaker}  {_marked(turn, paint)}"
        for frame in turn.frames:
            if frame.state is not None:
                old = before.get(frame.service, _NONE)
                yield from _state(frame.service, old, frame.state, paint)
                before[frame.service] = frame.state
            yield from _call(frame)


def _marked(turn: Turn, paint: Paint) -> str:
    """Returns the utterance with marked spans; of overlapping spans, only the first."""
    spans: dict[tuple[int, int], list[str]] = {}
    for frame in turn.frames:
        for span in frame.slots:
            names = spans.setdefault((span.start, -span.exclusive_end), [])
            if span.slot not in names:
                names.append(span.slot)
    parts, done = [], 0
    for (start, end), names in sorted(spans.items()):
        if start < done:
            continue
        said = paint(_clean(turn.utterance[start:-end]), "span")
        slots = paint(f"]({_clean(', '.join(names))})", "slot")
        parts += [_clean(turn.utterance[done:start]), paint("[", "slot"), said, slots]
        done = -end
    return "".join([*parts, _clean(turn.utterance[done:])])


def _state(service: str, old: State, new: State, paint: Paint) -> Iterator[str]:
    """Yields a line for the intent and one for each slot; changes are marked."""
    intent = new.active_intent
    if intent != old.active_intent:
        was = "" if old is _NONE else f" (was {old.active_intent})"
        intent = paint(_clean(f"{intent}{was}"), "~")
    asks = f"  asks for {', '.join(new.requested_slots)}" if new.requested_slots else ""
    yield f"    {_clean(service)}: {intent}{_clean(asks)}"
    for slot, values in new.slot_values.items():
        if slot not in old.slot_values:
            yield _line("+", slot, values, "", paint)
        elif values != old.slot_values[slot]:
            was = f" (was {' | '.join(old.slot_values[slot])})"
            yield _line("~", slot, values, was, paint)
        else:
            yield _line(" ", slot, values, "", paint)
    for slot, values in old.slot_values.items():
        if slot not in new.slot_values:
            yield _line("-", slot, values, "", paint)


def _line(mark: str, slot: str, values: Sequence[str], note: str, paint: Paint) -> str:
    return "      " + paint(_clean(f"{mark} {slot} = {' | '.join(values)}{note}"), mark)


def _call(frame: Frame) -> Iterator[str]:
    """Yields the service call with the number of results, if there is a call."""
    call = frame.service_call
    if call is not None:
        given = ", ".join(f"{n}={v}" for n, v in call.parameters.items())
        count = len(frame.service_results or ())
        results = "1 result" if count == 1 else f"{count} results"
        name = f"{frame.service}: calls {call.method}({given}): {results}"
        yield _clean(f"    {name}")


def _paint(text: str, style: str) -> str:
    code = _STYLES.get(style)
    return f"\033[{code}m{text}\033[0m" if code else text


def _plain(text: str, style: str) -> str:
    del style
    return text


def _clean(text: str) -> str:
    """Returns a text whose control characters, which terminals obey, are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
