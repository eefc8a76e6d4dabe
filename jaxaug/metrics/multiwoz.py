"""The verb `jaxaug evaluate multiwoz`: joint goal accuracy as defined for MultiWOZ.

SGD scores frames with fuzzy matches. MultiWOZ scores turns over all domains at once,
and a slot is either right or wrong. Wu et al., 2019 (TRADE), define joint and slot
accuracy and the accuracy of a single domain. Zang et al., 2020 (MultiWOZ 2.2), annotate
several spellings, any of which is right. Option `--normalize` maps misspelled values of
both sides to one spelling (see `multiwoz_values`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.files import check_writable
from jaxaug.core.garbage import paused
from jaxaug.core.text import clean
from jaxaug.data.folders import resolve_data_dir
from jaxaug.data.schema import Schema
from jaxaug.metrics.arguments import MultiWOZ
from jaxaug.metrics.benchmark import load
from jaxaug.metrics.evaluate import write_json
from jaxaug.metrics.multiwoz_values import normalized_state
from jaxaug.metrics.predictions import Predictions, read_predictions, warn
from jaxaug.metrics.report import ABOUT
from jaxaug.metrics.slot_scores import Reference, StateLike

DEFINITIONS = {
    "joint_goal_accuracy": "share of the user turns in which every slot of every frame "
    "is right",
    "right": "a slot that neither side fills, or whose first predicted value is one of "
    "the annotated ones, letter case and runs of spaces aside",
    "slot_accuracy": "share of right slots among all slots of all frames",
    "joint_goal_accuracy of a service": "the same of its frames alone, in dialogues "
    "that fill a slot of it in some turn",
}


def accuracies(
    references: Sequence[Reference], predictions: Sequence[StateLike], schema: Schema
) -> dict[str, Any]:
    """Computes the scores of MultiWOZ, as defined in `DEFINITIONS`.

    Args:
        schema: schema with the slot names of both sides. Predicted slots that a service
            lacks are ignored.

    Returns:
        `joint_goal_accuracy` and `slot_accuracy` in [0, 1], the number of `turns`, and
        `services`: service -> its `joint_goal_accuracy` and `turns`. Services that no
        dialogue is about have no entry.
    """
    turns: dict[tuple[str, int], bool] = {}
    frames: dict[str, list[tuple[str, bool]]] = {}
    about: set[tuple[str, str]] = set()
    slots = right_slots = 0
    for reference, prediction in zip(references, predictions, strict=True):
        service = schema.service(reference.service)
        wrong = sum(
            not _is_right(
                reference.state.slot_values.get(slot.name, ()),
                prediction.slot_values.get(slot.name, ()),
            )
            for slot in service.slots
        )
        slots += len(service.slots)
        right_slots += len(service.slots) - wrong
        turn = reference.dialogue_id, reference.turn
        turns[turn] = turns.get(turn, True) and not wrong
        frames.setdefault(service.name, []).append((reference.dialogue_id, not wrong))
        if reference.state.slot_values:
            about.add((service.name, reference.dialogue_id))
    services = {}
    for name, found in sorted(frames.items()):
        scored = [right for dialogue, right in found if (name, dialogue) in about]
        if scored:
            share = sum(scored) / len(scored)
            services[name] = {"joint_goal_accuracy": share, "turns": len(scored)}
    return {
        "joint_goal_accuracy": sum(turns.values()) / max(len(turns), 1),
        "slot_accuracy": right_slots / max(slots, 1),
        "turns": len(turns),
        "services": services,
    }


def _is_right(annotated: Sequence[str], predicted: Sequence[str]) -> bool:
    if not annotated or not predicted:
        return not annotated and not predicted
    return clean(predicted[0], True) in [clean(value, True) for value in annotated]


def _normalize(predictions: Predictions, schema: Schema) -> None:
    """Replaces annotated and predicted states with their normalized forms."""
    for index, frame in enumerate(predictions.references):
        service = schema.service(frame.service)
        state = normalized_state(frame.state, service)
        predictions.references[index] = frame._replace(state=state)
        predictions.states[index] = normalized_state(predictions.states[index], service)


def run(arguments: MultiWOZ) -> int:
    """Runs the verb `jaxaug evaluate multiwoz`."""
    data_dir = resolve_data_dir(arguments.data_dir)
    check_writable(arguments.output, "--output")
    with paused():
        benchmark = load(data_dir, arguments.split)
        predictions = read_predictions(arguments.predictions, benchmark)
        if arguments.normalize:
            _normalize(predictions, benchmark.schema)
        result = accuracies(
            predictions.references, predictions.states, benchmark.schema
        )
    unscored = len(predictions.unpredicted)
    unknown = sum(
        len(
            state.slot_values.keys()
            - {slot.name for slot in benchmark.schema.service(frame.service).slots}
        )
        for frame, state in zip(predictions.references, predictions.states, strict=True)
    )
    about = {
        "definitions": DEFINITIONS,
        "split": arguments.split,
        "normalized": arguments.normalize,
        "dialogues": len(benchmark.dialogues) - unscored,
        "dialogues_without_prediction": unscored,
        "ignored": warn(predictions, unknown, str(arguments.predictions)),
    }
    write_json(arguments.output, {**result, ABOUT: about})
    print(_text(result))
    print(
        f"{result['turns']} turns of {about['dialogues']} dialogues scored"
        + (", names and values normalized" if arguments.normalize else "")
        + (f"; {unscored} dialogues have no prediction" if unscored else "")
    )
    print(f"written: {arguments.output}")
    return 0


def _text(result: Mapping[str, Any]) -> str:
    lines = [
        f"joint goal accuracy {100 * result['joint_goal_accuracy']:.2f}",
        f"slot accuracy {100 * result['slot_accuracy']:.2f}",
    ]
    for name, found in result["services"].items():
        share = 100 * found["joint_goal_accuracy"]
        lines.append(f"  {name} alone: {share:.2f} of {found['turns']} turns")
    return "\n".join(lines)
