"""Collects the context of a schema's texts for prompts of language models."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import siblings
from jaxaug.core.text import clean

_SERVICE = "service"


def items(
    texts: Sequence[str], descriptions: Sequence[Description]
) -> list[str | list[Any]]:
    """Returns each text with its context: [text, context], or the text if it has none.

    A text of several services has the context of the first one.

    Args:
        texts: texts of the schema.
        descriptions: all descriptions of the schema.
    """
    found = _contexts(descriptions)
    return [[text, found[text]] if text in found else text for text in texts]


def _contexts(descriptions: Sequence[Description]) -> Mapping[str, Mapping[str, Any]]:
    """Returns text -> its context.

    `kind`, `service`, `siblings`, `values`, and `keep` are places in prompts.
    `description` is the description of the service, and `names` are the names of the
    other slots or intents.
    """
    services = {
        one.service: clean(one.text, False)
        for one in descriptions
        if one.kind == _SERVICE
    }
    others = siblings.beside(descriptions)
    names: dict[tuple[str, str], list[str]] = {}
    for one in descriptions:
        kind = one.kind.removesuffix("_name")
        names.setdefault((one.service, kind), []).append(one.name)
    found: dict[str, dict[str, Any]] = {}
    for one in descriptions:
        service = services.get(one.service, "")
        context = {
            "kind": one.kind.replace("_", " "),
            "service": f"{one.service}: {service}" if service else one.service,
            "siblings": []
            if one.kind == _SERVICE
            else [clean(text, False) for text in others[one.id]],
            "name": one.name,
            "description": service,
            "names": [
                name
                for name in dict.fromkeys(
                    names[one.service, one.kind.removesuffix("_name")]
                )
                if name != one.name
            ],
            "values": list(one.values),
            "keep": list(one.protected),
        }
        if one.kind == _SERVICE:
            # The text itself is not context.
            context["service"] = one.service
        found.setdefault(one.text, context)
    return found
