"""Reads and writes YAML documents; only this module needs PyYAML."""

import json
from pathlib import PurePath
from typing import Any

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike

MAX_VALUES = 2_000_000
"""Maximum number of values in a document, including values repeated by aliases."""


def is_yaml(path: PathLike) -> bool:
    """Returns whether a file has the suffix .yaml or .yml."""
    return PurePath(path).suffix.lower() in (".yaml", ".yml")


def as_json(text: str, path: PathLike, fix: str) -> str:
    """Converts a YAML text to JSON; dates become strings.

    Args:
        text: YAML text.
        path: file of the text, for messages.
        fix: advice at the end of every message.

    Raises:
        UserError: the text is not YAML, a mapping has a key twice, or aliases expand
            to more than `MAX_VALUES` values.
    """
    import yaml

    base: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

    class Loader(base):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key.value!r} comes twice",
                        problem_mark=key.start_mark,
                    )
                seen |= {key.value} if isinstance(key.value, str) else set()
            return super().construct_mapping(node, deep)

    try:
        depth = 0
        # The composer of PyYAML may overflow the stack on deep nesting.
        for event in yaml.parse(text, Loader):
            name = type(event).__name__
            depth += name.endswith("StartEvent") - name.endswith("EndEvent")
            if depth > json_reader.MAX_DEPTH:
                raise RecursionError
        value = yaml.load(text, Loader)
        _check_size(value, path, fix)
        return json.dumps(value, default=str)
    except UserError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        what = getattr(error, "problem", None) or type(error).__name__
        what = "nested too deeply" if isinstance(error, RecursionError) else what
        raise UserError(f"{path}:{line} invalid YAML: {what}. {fix}") from None


def _check_size(value: Any, path: PathLike, fix: str) -> None:
    left, number = [value], 0
    while left:
        one = left.pop()
        number += 1
        if number + len(left) > MAX_VALUES:
            raise UserError(
                f"{path}: has more than {MAX_VALUES:,} values, or an alias that "
                f"contains itself. Write the aliases out, or divide the document. {fix}"
            )
        if isinstance(one, dict):
            if not all(isinstance(key, str | int | float | None) for key in one):
                raise UserError(f"{path}: a key is no text: {next(iter(one))!r}. {fix}")
            left += one.values()
        elif isinstance(one, list):
            left += one


def dumped(value: Any) -> str:
    """Returns a JSON value as YAML."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
