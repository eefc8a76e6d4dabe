"""Failures of predictions: slot by slot, under each wording of the schema.

Slots, services, and intents have their original names; names of a variant are matched
by position. `metrics.dst` scores the values, so the joint goal accuracy of a table
equals the one of the run's evaluation.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.garbage import paused
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, read_schema_of
from jaxaug.look.evaluations import Evaluation, Wording
from jaxaug.look.results import (
    EXTRA,
    MISSED,
    WRONG,
    Example,
    Failures,
    SlotCounts,
    SlotId,
    WordingCounts,
)
from jaxaug.metrics import benchmark, dst, slot_scores
from jaxaug.metrics.predictions import Block, Summary, stream, warn

# Two slots have these in common by chance.
_COMMON = frozenset({"true", "false", "dontcare"})
_CONTEXT = 6  # turns of an example
_ROUNDING = 1e-9


@paused()
def count(evaluation: Evaluation, exact: bool = False, examples: int = 5) -> Failures:
    """Compares the predictions of an evaluation with the annotation.

    Args:
        exact: whether values must be equal, as with `jaxaug evaluate --exact`.
        examples: maximum number of examples to keep for each slot and kind of failure.

    Raises:
        UserError: data or predictions cannot be read, or do not match.
    """
    found = Failures(evaluation.options.answers_intents)
    kept: dict[tuple[SlotId, str], list[list[Example]]] = {}
    shown: set[tuple[SlotId, str, str, int]] = set()
    for label, wording in evaluation.wordings.items():
        one = _Wording(label, wording, exact)
        for key, items in one.add_to(found, examples, shown):
            kept.setdefault(key, []).append(items)
        if not exact:
            _check_reported(evaluation, label, found.wordings[label])
    found.examples = {
        key: _in_turn(lists, examples) for key, lists in kept.items() if any(lists)
    }
    return found


def _check_reported(evaluation: Evaluation, label: str, counts: WordingCounts) -> None:
    """Checks that the joint goal accuracy equals the run's report.

    It differs if the data have changed since the evaluation.
    """
    frames, jga = evaluation.reported.get(label, (0, 0.0))
    if frames == counts.frames and abs(jga - counts.jga) > _ROUNDING:
        data = evaluation.wordings[label].corpus.data_dir
        raise UserError(
            f"run {evaluation.run}: joint goal accuracy under {label} is "
            f"{100 * counts.jga:.2f} on {data}, and was {100 * jga:.2f} when the run "
            "was evaluated: these are other data. Name those of the run with "
            "--data_dir, or evaluate it again."
        )


def _in_turn(lists: Sequence[Sequence[Example]], most: int) -> list[Example]:
    """Returns up to `most` items: the first of each list, then the second, ..."""
    longest = max(map(len, lists))
    turns = (items[n] for n in range(longest) for items in lists if n < len(items))
    return [item for item, _ in zip(turns, range(most), strict=False)]


class _Failure(NamedTuple):
    """A slot of a frame with a score below 1; `frame` is the index of the frame."""

    frame: int
    slot: str
    kind: str
    predicted: str | None


class _Wording:
    """The predictions under one wording, with their references."""

    def __init__(self, label: str, wording: Wording, exact: bool):
        corpus = wording.corpus
        self.label, self._exact = label, exact
        place = corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
        self._wording, dialogues = benchmark.open_split(*place)
        self._summary, self._found = Summary(), Block()
        self._blocks = stream(wording.folder, self._wording, dialogues, self._summary)
        original = read_schema_of(corpus.data_dir, corpus.split)
        self._slots, self._intents = _original_names(original, self._wording.schema)
        self._where = str(wording.folder)

    def add_to(
        self,
        failures: Failures,
        examples: int,
        shown: set[tuple[SlotId, str, str, int]],
    ) -> Iterable[tuple[tuple[SlotId, str], list[Example]]]:
        """Reads the predictions, and adds all counts to `failures`.

        Args:
            shown: (slot, kind, dialogue, turn) of earlier examples, which are not
                repeated under another wording; new ones are added.
        """
        schema = self._wording.schema
        own = failures.wordings[self.label] = WordingCounts(0, 0, 0.0)
        failures.seen |= self._wording.seen
        for (service, name), slot in self._slots.items():
            description = schema.service(service).slot(name).description
            failures.descriptions.setdefault(slot, {})[self.label] = description
            failures.slots.setdefault(slot, {})[self.label] = SlotCounts()
        kept: dict[tuple[SlotId, str], list[Example]] = {}
        goals, unknown = [], 0
        for block in self._blocks:
            self._found = block
            scores = dst.frame_scores(
                block.references, block.states, schema, exact=self._exact
            )
            own.dialogues += len({r.dialogue_id for r in block.references})
            goals.append(scores.values[dst.JGA])
            unknown += scores.unknown_slots
            self._add_block(failures, kept, examples, shown)
        warn(self._summary, unknown, self._where)
        values = np.concatenate(goals)
        own.frames, own.jga = len(values), float(np.nanmean(values))
        return kept.items()

    def _add_block(
        self,
        failures: Failures,
        kept: dict[tuple[SlotId, str], list[Example]],
        examples: int,
        shown: set[tuple[SlotId, str, str, int]],
    ) -> None:
        """Adds the counts and examples of a block; see `add_to`."""
        wrong = self._add_slots(failures)
        if failures.has_intents:
            self._add_intents(failures)
        for failure, names in zip(wrong, self._owners(wrong), strict=True):
            slot = self._slot(failure.frame, failure.slot)
            for name in names:
                pair = self._slot(failure.frame, name), slot
                failures.owners[pair][self.label] += 1
            items = kept.setdefault((slot, failure.kind), [])
            reference = self._found.references[failure.frame]
            place = slot, failure.kind, reference.dialogue_id, reference.turn
            if len(items) < examples and place not in shown:
                shown.add(place)
                items.append(self._example(failure, slot, names))

    def _slot(self, frame: int, name: str) -> SlotId:
        return self._slots[self._found.references[frame].service, name]

    def _add_slots(self, failures: Failures) -> list[_Failure]:
        """Counts slots; returns the slots with a score below 1."""
        schema, found = self._wording.schema, self._found
        kinds = {
            service.name: {slot.name: slot.is_categorical for slot in service.slots}
            for service in schema.services
        }
        entries = slot_scores.collect(found.references, found.states, kinds)
        all_slots = failures.wordings[self.label].slots
        wrong = []
        rows = zip(
            entries.frame,
            entries.slot,
            entries.pair,
            entries.scores(self._exact).tolist(),
            strict=True,
        )
        for frame, name, pair, score in rows:
            counts = SlotCounts(
                filled=pair != slot_scores.SPURIOUS,
                missed=pair == slot_scores.MISSED,
                extra=pair == slot_scores.SPURIOUS,
                wrong=pair >= 0 and score < 1,
                score=score,
            )
            all_slots.add(counts)
            failures.slots[self._slot(frame, name)][self.label].add(counts)
            if counts.failed:
                kind = MISSED if counts.missed else EXTRA if counts.extra else WRONG
                value = None
                if kind != MISSED:
                    value = found.states[frame].slot_values[name][0]
                wrong.append(_Failure(frame, name, kind, value))
        return wrong

    def _add_intents(self, failures: Failures) -> None:
        own = failures.wordings[self.label]
        for reference, state in zip(
            self._found.references, self._found.states, strict=True
        ):
            service = reference.service
            expected, answered = reference.state.active_intent, state.active_intent
            if expected != answered:
                own.intents += 1
                names = (
                    self._intents.get((service, n), n) for n in (expected, answered)
                )
                key = self._wording.original_name[service], *names
                failures.intents[key][self.label] += 1
            wanted = Counter(reference.state.requested_slots)
            given = Counter(state.requested_slots)
            own.requested += wanted != given
            for kind, rest in ((MISSED, wanted - given), (EXTRA, given - wanted)):
                for name, times in rest.items():
                    slot = self._slots.get((service, name))
                    if slot is not None:
                        failures.requested[slot, kind][self.label] += times

    def _owners(self, wrong: Sequence[_Failure]) -> list[list[str]]:
        """Returns, for each failure, the other slots for which its value is right."""
        pairs: dict[tuple[bool, Sequence[str], str], int] = {}
        asked: list[list[tuple[str, int]]] = []
        for failure in wrong:
            asked.append([])
            reference = self._found.references[failure.frame]
            service = self._wording.schema.service(reference.service)
            value = failure.predicted
            if value is None or service.slot(failure.slot).is_categorical:
                continue
            if slot_scores.normalise(value) in _COMMON:
                continue
            for name, values in reference.state.slot_values.items():
                if name != failure.slot:
                    pair = service.slot(name).is_categorical, values, value
                    index = pairs.setdefault(pair, len(pairs))
                    asked[-1].append((name, index))
        right = slot_scores.pair_scores(pairs, self._exact) == 1
        return [[name for name, index in names if right[index]] for names in asked]

    def _example(self, failure: _Failure, slot: SlotId, owners: list[str]) -> Example:
        reference = self._found.references[failure.frame]
        dialogue: Dialogue = self._found.dialogues[reference.dialogue_id]
        first = max(0, reference.turn + 1 - _CONTEXT)
        turns = dialogue.turns[first : reference.turn + 1]
        service = self._wording.schema.service(reference.service)
        return Example(
            slot=slot,
            kind=failure.kind,
            wording=self.label,
            name=f"{reference.service}.{failure.slot}",
            description=service.slot(failure.slot).description,
            dialogue_id=reference.dialogue_id,
            turn=reference.turn,
            turns=tuple((turn.speaker, turn.utterance) for turn in turns),
            before=first,
            expected=tuple(reference.state.slot_values.get(failure.slot, ())),
            predicted=failure.predicted,
            owner=", ".join(owners),
        )


def _original_names(
    original: Schema, schema: Schema
) -> tuple[dict[tuple[str, str], SlotId], dict[tuple[str, str], str]]:
    """Returns (service, slot) and (service, intent) -> their original names."""
    slots, intents = {}, {}
    for old, new in zip(original.services, schema.services, strict=True):
        for was, slot in zip(old.slots, new.slots, strict=True):
            slots[new.name, slot.name] = SlotId(old.name, was.name)
        for before, intent in zip(old.intents, new.intents, strict=True):
            intents[new.name, intent.name] = before.name
    return slots, intents
