"""Reading a config.json of Hugging Face: what the families check and what they share."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from jaxaug.core.errors import UserError


@contextlib.contextmanager
def complete() -> Iterator[None]:
    """Turns a missing key of a config.json into a `UserError`."""
    try:
        yield
    except KeyError as error:
        raise UserError(_lacks(error.args[0])) from error


def _lacks(names: str) -> str:
    return (
        f"config.json: lacks {names}. Use the config.json that was published with the "
        "weights."
    )


def head(config: Mapping[str, Any], known: Mapping[str, str], default: str) -> str:
    """The head of a model.

    Args:
        config: contents of the config.json.
        known: name of an architecture -> head.
        default: architecture of a config.json that names none.

    Raises:
        UserError: it names none of them.
    """
    named = config.get("architectures") or [default]
    heads = [known[name] for name in named if name in known]
    if not heads:
        raise UserError(
            f"config.json: architectures is {named}, but must name one of "
            f"{', '.join(known)}. Take a model with one of these heads."
        )
    return heads[0]


def labels(config: Mapping[str, Any], default: int) -> tuple[str, ...]:
    """Names of labels by index; a config.json has none where they are LABEL_0 ...

    Args:
        config: contents of the file.
        default: how many there are where it does not say.
    """
    if names := config.get("id2label"):
        return tuple(names[key] for key in sorted(names, key=int))
    return tuple(f"LABEL_{i}" for i in range(config.get("num_labels", default)))


def with_labels(names: tuple[str, ...]) -> dict[str, Any]:
    """What a config.json says of labels; inverts `labels`."""
    if not names:
        return {}
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def require(
    config: Mapping[str, Any], family: str, architecture: str, names: tuple[str, ...]
) -> None:
    """Checks that a config.json is one of `family` with the language-model head.

    Args:
        config: contents of the file.
        family: what `model_type` must be.
        architecture: what `architectures` must name, if it is there.
        names: keys that must be there.

    Raises:
        UserError: another family or head, or missing keys.
    """
    if config.get("model_type") != family:
        raise UserError(
            f"config.json: model_type is {config.get('model_type')!r}, but must be "
            f"{family!r}. Take the family that the weights belong to."
        )
    named = config.get("architectures") or [architecture]
    if architecture not in named:
        raise UserError(
            f"config.json: architectures is {named}, but must name {architecture}. "
            "Take weights with a language-model head."
        )
    if missing := [name for name in names if config.get(name) is None]:
        raise UserError(_lacks(", ".join(missing)))


def refuse(config: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Checks options that a family does not have.

    Args:
        config: contents of the config.json.
        fixed: the value that each of them must have where it is there.

    Raises:
        UserError: one of them is something else.
    """
    for name, value in fixed.items():
        if config.get(name, value) != value:
            raise UserError(
                f"config.json: {name} is {config[name]!r}, but only {value!r} is "
                "supported. Take weights that were trained with that."
            )
