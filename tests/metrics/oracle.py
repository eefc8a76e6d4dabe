"""A second scorer for SGD predictions: plain loops over parsed JSON.

It shares no code with jaxaug. The tests compare the two; the benchmark times both.
"""

import functools
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from rapidfuzz import fuzz

JOINT = ("joint_goal_accuracy", "joint_cat_accuracy", "joint_noncat_accuracy")


def read_dialogues(folder):
    """Returns dialogue id -> dialogue, over all dialogue files of a folder."""
    found = {}
    for path in sorted(Path(folder).glob("dialogues*.json")):
        for dialogue in json.loads(path.read_text(encoding="utf-8")):
            found[dialogue["dialogue_id"]] = dialogue
    return found


def read_services(path):
    """Returns service name -> service of a schema.json."""
    schema = json.loads(Path(path).read_text(encoding="utf-8"))
    return {service["service_name"]: service for service in schema}


@functools.cache
def fuzzy_match(a, b):
    """Returns the rounded percentage of fuzzywuzzy's `token_sort_ratio`."""
    texts = []
    for text in (a, b):
        kept = "".join(c for c in text if not "\u0080" <= c <= "\u00ff")
        words = "".join(c if re.match(r"\w", c) else " " for c in kept).lower().split()
        texts.append(" ".join(sorted(words)))
    return round(fuzz.ratio(*texts))


def slot_score(slot, truth, guess, fuzzy):
    name = slot["name"]
    if name not in truth and name not in guess:
        return 1.0
    if name not in truth or name not in guess:
        return 0.0
    if slot["is_categorical"]:
        return 1.0 if guess[name][0] == truth[name][0] else 0.0
    best = 0.0
    for value in truth[name]:
        if fuzzy:
            best = max(best, fuzzy_match(value, guess[name][0]) / 100)
        elif value == guess[name][0]:
            best = 1.0
    return best


def f_score(truth, guess):
    truth, left = list(truth), list(truth)
    common = 0
    for item in guess:
        if item in left:
            left.remove(item)
            common += 1
    precision = common / len(guess) if guess else 1.0
    recall = common / len(truth) if truth else 1.0
    if precision + recall == 0:
        return 0.0, precision, recall
    return 2 * precision * recall / (precision + recall), precision, recall


def product(numbers):
    result = 1.0
    for number in numbers:
        result *= number
    return result


def frame_metrics(service, truth, guess, utterance, fuzzy):
    """Returns metric -> value of one frame; undefined metrics are absent."""
    result = {}
    state, other = truth["state"], guess["state"]
    scored = []
    for slot in service["slots"]:
        score = slot_score(slot, state["slot_values"], other["slot_values"], fuzzy)
        active = slot["name"] in state["slot_values"]
        scored.append((score, active, slot["is_categorical"]))
    for kind, chosen in (
        ("goal", scored),
        ("cat", [entry for entry in scored if entry[2]]),
        ("noncat", [entry for entry in scored if not entry[2]]),
    ):
        if chosen:
            result[f"joint_{kind}_accuracy"] = product(entry[0] for entry in chosen)
        active = [entry[0] for entry in chosen if entry[1]]
        if active:
            result[f"average_{kind}_accuracy"] = fmean(active)
    result["active_intent_accuracy"] = float(
        state["active_intent"] == other["active_intent"]
    )
    parts = {"requested_slots": (state["requested_slots"], other["requested_slots"])}
    if "slots" in guess:
        free = {s["name"] for s in service["slots"] if not s["is_categorical"]}
        parts["slot_tagging"] = [
            [
                (tag["slot"], utterance[tag["start"] : tag["exclusive_end"]])
                for tag in frame["slots"]
                if tag["slot"] in free
            ]
            for frame in (truth, guess)
        ]
    for name, (left, right) in parts.items():
        scores = f_score(left, right)
        for part, score in zip(("f1", "precision", "recall"), scores, strict=True):
            result[f"{name}_{part}"] = score
    return result


def per_frame(references, predictions, services, fuzzy=True):
    """Yields (dialogue id, turn, service, metrics) of every frame."""
    for dialogue_id, prediction in predictions.items():
        reference = references[dialogue_id]
        for index, turn in enumerate(reference["turns"]):
            if turn["speaker"] != "USER":
                continue
            guesses = {f["service"]: f for f in prediction["turns"][index]["frames"]}
            for frame in turn["frames"]:
                name = frame["service"]
                yield (
                    dialogue_id,
                    index,
                    name,
                    frame_metrics(
                        services[name], frame, guesses[name], turn["utterance"], fuzzy
                    ),
                )


def evaluate(
    references, predictions, services, seen, fuzzy=True, joint_across_turn=False
):
    """Returns group -> metric -> mean."""
    plain = defaultdict(lambda: defaultdict(list))
    by_turn = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for dialogue_id, turn, name, metrics in per_frame(
        references, predictions, services, fuzzy
    ):
        status = "#SEEN_SERVICES" if name in seen else "#UNSEEN_SERVICES"
        for group in ("#ALL_SERVICES", status, name, name.split("_")[0]):
            for metric, value in metrics.items():
                if joint_across_turn and metric in JOINT:
                    by_turn[group][metric][dialogue_id, turn].append(value)
                else:
                    plain[group][metric].append(value)
    for group, metrics in by_turn.items():
        for metric, turns in metrics.items():
            plain[group][metric] = [product(values) for values in turns.values()]
    return {
        group: {metric: fmean(values) for metric, values in metrics.items()}
        for group, metrics in plain.items()
    }
