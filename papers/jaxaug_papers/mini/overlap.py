"""The overlap of wordings between training variants and evaluation variants v1..v5."""

import functools
import importlib.resources
import json
import re
from collections.abc import Iterable

from jaxaug_papers import minisgd
from jaxaug_papers.minisgd.language import OPENERS, REMARKS
from jaxaug_papers.minisgd.world import (
    AUGMENTED,
    FLAG,
    ORIGINAL,
    VARIANTS,
    IntentSpec,
    ServiceSpec,
    SlotSpec,
    services,
)

_FUNCTION_WORDS = re.compile(
    "a|an|the|of|to|for|at|in|on|is|it|are|and|with|or|not|if|by|this|has"
)

# Function words, a superset of the words that the report ignores.
STOP_WORDS = frozenset(
    [
        "a", "about", "all", "an", "and", "any", "are", "as", "at", "back", "be",
        "been", "by", "can", "do", "does", "for", "from", "get", "gets", "go", "has",
        "have", "her", "his", "how", "i", "if", "in", "into", "is", "it", "left", "me",
        "more", "much", "my", "no", "not", "of", "off", "on", "one", "or", "other",
        "out", "over", "per", "put", "so", "some", "such", "than", "that", "the",
        "their", "them", "then", "there", "they", "this", "to", "up", "want", "was",
        "we", "what", "when", "where", "which", "who", "will", "with", "would", "yes",
        "you", "your",
    ]
)  # fmt: skip


def overlap_report() -> dict[str, float]:
    """Returns statistics of the wordings of slots and intents, all in [0, 1].

    - `exact`: share of v1..v5 descriptions (all services) that are also an aug1..aug5
      description, of any service;
    - `covered_original`, `covered_augmented`, `covered_eda`, `covered_tree`: share of
      the content word types of v1..v5 that occur in training text. The text is the
      original one (utterances, option values, train descriptions), alone, with the aug
      descriptions, and with the descriptions in the folder `variants`;
    - `distance_v1`..`distance_v5`, `distance_aug`: mean Jaccard distance of the word
      sets of a description and its original (train services);
    - `nearest_v1`..`nearest_v5`: mean Jaccard distance of a description to the nearest
      aug description of the same slot or intent (train services).
    """
    train = [spec for spec in services() if "train" in spec.splits]
    evaluated = [text for item in _items(services()) for text in _texts(item, VARIANTS)]
    augmented = [text for item in _items(train) for text in _texts(item, AUGMENTED)]
    nearest: dict[str, list[float]] = {label: [] for label in VARIANTS}
    for item in _items(train):
        ours = _texts(item, AUGMENTED)
        for label, text in zip(VARIANTS, _texts(item, VARIANTS), strict=True):
            nearest[label].append(min(_distance(text, other) for other in ours))
    known = _training_words(train)
    types = set().union(*map(_content, evaluated))
    report = {
        "exact": _mean(text in set(augmented) for text in evaluated),
        "covered_original": len(types & known) / len(types),
        "covered_augmented": len(types & (known | _words(augmented))) / len(types),
    }
    for name in ("eda", "tree"):
        words = known | _words(_generated(name))
        report[f"covered_{name}"] = len(types & words) / len(types)
    for label in VARIANTS:
        report[f"distance_{label}"] = _from_original(train, (label,))
    report["distance_aug"] = _from_original(train, AUGMENTED)
    report |= {f"nearest_{label}": _mean(nearest[label]) for label in VARIANTS}
    return report


@functools.cache
def evaluation_only_words() -> frozenset[str]:
    """Returns the content words of v1..v5 that no original train description has."""
    train = [spec for spec in services() if "train" in spec.splits]
    known = {word.lower() for word in FLAG}
    for item in _items(train):
        known |= _words(_texts(item, (ORIGINAL,)))
    found: set[str] = set()
    for item in _items(services()):
        for text in _texts(item, VARIANTS):
            found |= _content(text)
    return frozenset(found - known - STOP_WORDS)


def training_content() -> set[str]:
    """Returns the content words of training utterances, values, and descriptions."""
    train = [spec for spec in services() if "train" in spec.splits]
    return _training_words(train) - STOP_WORDS


def _items(specs: Iterable[ServiceSpec]) -> list[IntentSpec | SlotSpec]:
    items: list[IntentSpec | SlotSpec] = []
    for spec in specs:
        items += [*spec.intents, *spec.slots]
    return items


def _generated(name: str) -> list[str]:
    """Returns the slot and intent descriptions of the generated variants of a name."""
    folder = importlib.resources.files(minisgd) / "variants" / name
    return [
        item["description"]
        for label in VARIANTS
        for service in json.loads((folder / label / "train/schema.json").read_text())
        for item in (*service["slots"], *service["intents"])
    ]


def _texts(item: IntentSpec | SlotSpec, labels: Iterable[str]) -> list[str]:
    return [item.wordings[label][1] for label in labels]


def _training_words(train: list[ServiceSpec]) -> set[str]:
    names = {spec.name for spec in train}
    texts = [text for item in _items(train) for text in _texts(item, (ORIGINAL,))]
    texts += [t for key, openers in OPENERS.items() if key[0] in names for t in openers]
    texts += REMARKS
    for concept in (slot.concept for spec in train for slot in spec.slots):
        texts += [concept.noun, *concept.tell, *concept.yes, *concept.no]
        texts += [*concept.ask, *concept.wonder]
    texts += [value for s in train for slot in s.slots for value in slot.values]
    return _words(texts)


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}


def _content(text: str) -> set[str]:
    words = _words([text])
    return {word for word in words if not _FUNCTION_WORDS.fullmatch(word)} or words


def _distance(one: str, other: str) -> float:
    left, right = set(one.split()), set(other.split())
    return 1 - len(left & right) / len(left | right)


def _from_original(specs: list[ServiceSpec], labels: tuple[str, ...]) -> float:
    return _mean(
        _distance(item.wordings[ORIGINAL][1], text)
        for item in _items(specs)
        for text in _texts(item, labels)
    )


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)
