"""Reads and writes YAML 1.2 documents, and lists the tools of live MCP servers."""

import asyncio
import json
import logging
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shortened
from jaxaug.core.installed import extras_of

MAX_VALUES = 2_000_000
"""Maximum number of values in a document, including values repeated by aliases."""

_WORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.capitalize(), word.upper())
}
# The core schema of YAML 1.2. Numbers with leading zeros stay texts, as in JSON.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
# Fields of a schema whose values have its type.
_TYPED = ("default", "const", "example", "enum", "examples")


def is_yaml(path: PathLike) -> bool:
    """Returns whether a file has the suffix .yaml or .yml."""
    return PurePath(path).suffix.lower() in (".yaml", ".yml")


class _Integer(int):
    """An integer that JSON spells in another way."""

    text: str


class _Float(float):
    """A number that JSON spells in another way."""

    text: str


def _scalar(text: str) -> Any:
    """Returns the value of an unquoted text by the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    value: Any = text
    if _INTEGER.fullmatch(text) and len(text) < 400:
        value = _Integer(text, 0) if text[1:2] in ("o", "x") else _Integer(text)
    elif _FLOAT.fullmatch(text) and abs(float(text)) != float("inf"):
        value = _Float(text)
    if value is not text:
        value.text = text
    return value


def as_json(text: str, path: PathLike, fix: str) -> str:
    """Converts a YAML text to JSON. Keys, dates, and times become texts.

    Values have the types of the core schema of YAML 1.2: `NO`, `12:30`, and `010` are
    texts. A number in a field of a string schema is its text, such as `enum: [1.10]`.

    Args:
        text: YAML text.
        path: file of the text, for messages.
        fix: advice at the end of every message.

    Raises:
        UserError: the text is not YAML, a mapping has a key twice, or aliases and merge
            keys expand to more than `MAX_VALUES` values.
    """
    import yaml

    base: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

    class Loader(base):
        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            is_plain = kind is yaml.ScalarNode and implicit[0]
            return "plain" if is_plain else kind.__name__

    try:
        depth = 0
        # The composer of PyYAML may overflow the stack on deep nesting.
        for event in yaml.parse(text, Loader):
            name = type(event).__name__
            depth += name.endswith("StartEvent") - name.endswith("EndEvent")
            if depth > json_reader.MAX_DEPTH:
                raise RecursionError
        node = yaml.compose(text, Loader)
        return json.dumps(None if node is None else _Reader(path, fix).value(node)[0])
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or type(error).__name__
        what = "nested too deeply" if isinstance(error, RecursionError) else what
        raise _wrong(path, mark, what, fix) from None


def _wrong(path: PathLike, mark: Any, what: str, fix: str) -> UserError:
    line = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
    return UserError(f"{path}:{line} invalid YAML: {what}. {fix}")


class _Reader:
    """Converts the nodes of a document, each once."""

    def __init__(self, path: PathLike, fix: str):
        self._path, self._fix = path, fix
        self._known: dict[int, tuple[Any, int, int] | None] = {}

    def value(self, node: Any, depth: int = 0) -> tuple[Any, int, int]:
        """Returns the value of a node, its number of values, and its depth."""
        if id(node) not in self._known:
            self._known[id(node)] = None  # The value is not complete yet.
            self._known[id(node)] = self._converted(node, depth)
        found = self._known[id(node)]
        if found is None or found[1] > MAX_VALUES:
            raise UserError(
                f"{self._path}: has more than {MAX_VALUES:,} values, or an alias that "
                "contains itself. Write the aliases out, or divide the document. "
                f"{self._fix}"
            )
        if depth + found[2] > json_reader.MAX_DEPTH:
            raise RecursionError
        return found

    def _converted(self, node: Any, depth: int) -> tuple[Any, int, int]:
        if isinstance(node.value, str):
            is_text = node.tag == "ScalarNode" or node.tag.endswith(":str")
            return node.value if is_text else _scalar(node.value), 1, 0
        if node.value and isinstance(node.value[0], tuple):
            return self._mapping(node, depth)
        inside = [self.value(one, depth + 1) for one in node.value]
        made: Any = [one[0] for one in inside]
        if not inside and node.tag in ("MappingNode", "tag:yaml.org,2002:map"):
            made = {}
        return made, 1 + sum(one[1] for one in inside), _deepest(inside)

    def _mapping(self, node: Any, depth: int) -> tuple[Any, int, int]:
        own: dict[str, tuple[Any, int, int]] = {}
        merged: dict[str, Any] = {}
        number = 1
        for key, given in node.value:
            if not isinstance(key.value, str):
                raise _wrong(self._path, key.start_mark, "a key is no text", self._fix)
            if key.value in own:
                what = f"the key {key.value!r} comes twice"
                raise _wrong(self._path, key.start_mark, what, self._fix)
            found = self.value(given, depth + 1)
            number += found[1]
            if key.value == "<<" and key.tag == "plain":
                several = found[0] if isinstance(found[0], list) else [found[0]]
                for one in several:
                    if not isinstance(one, dict):
                        what = "the value of a merge key (<<) is no mapping"
                        raise _wrong(self._path, key.start_mark, what, self._fix)
                    merged = one | merged
            else:
                own[key.value] = found
        made = merged | {key: one[0] for key, one in own.items()}
        kinds = made.get("type")
        if (kinds[0] if isinstance(kinds, list) and kinds else kinds) == "string":
            made |= {key: _spelled(made[key]) for key in _TYPED if key in made}
        elif "title" in made and "version" in made:
            made["version"] = _spelled(made["version"])
        deepest = _deepest([self.value(given) for _, given in node.value])
        return made, number, deepest


def _deepest(inside: list[tuple[Any, int, int]]) -> int:
    return 1 + max((one[2] for one in inside), default=0)


def _spelled(value: Any) -> Any:
    """Returns a number as the document spells it, and those in a list."""
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    is_other = isinstance(value, _Integer | _Float) and json.dumps(value) != value.text
    return value.text if is_other else value


def dumped(value: Any) -> str:
    """Returns a JSON value as YAML, which readers of YAML 1.1 and 1.2 agree about."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def quoted(dumper: Any, text: str) -> Any:
        # These characters are line breaks of YAML 1.1; only double quotes escape them.
        style = '"' if {*text} & {*"\x85\u2028\u2029"} else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)

    Dumper.add_representer(str, quoted)
    for tag, form in (("int", _INTEGER), ("float", _FLOAT)):
        whole = re.compile(f"(?:{form.pattern})$")
        Dumper.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", whole, [*"-+.0123456789"]
        )
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True)


SCHEME = "mcp:"
"""Prefix of a server that is named instead of a file."""
_MOST_PAGES = 1000


def is_server(path: object) -> bool:
    """Returns whether `path` names a server, `mcp:COMMAND` or `mcp:https://...`."""
    return isinstance(path, str) and path.startswith(SCHEME)


def tool_list(
    server: str,
    environment: Mapping[str, str] | None = None,
    fix: str = 'Write "mcp:COMMAND ARGUMENT ..." or "mcp:https://ADDRESS".',
    timeout: int = 60,
) -> dict[str, Any]:
    """Returns the tools of a server as the result of `tools/list`.

    A command sees a few variables such as `PATH`, and starts in `$HOME` if
    `environment` has one.

    Args:
        server: `mcp:` and the command of a server on standard input and output, or its
            http or https address.
        environment: further environment variables of a command.
        fix: advice at the end of every message.
        timeout: seconds in which the server must start and list its tools.

    Raises:
        UserError: the package is missing, or the server does not start or answer.
    """
    target = server.removeprefix(SCHEME).strip()
    variables = dict(environment or {})
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise UserError(f"{server}: is no command ({error}). {fix}") from None
    if not words or "\0" in target:
        raise UserError(f"{server}: names no command and no address. {fix}")
    with extras_of(f"a server such as {SCHEME}COMMAND"):
        import mcp
        from mcp.client.stdio import stdio_client

    async def listed(log: Any) -> list[dict[str, Any]]:
        place: Any = target
        async with asyncio.timeout(timeout):
            if not target.startswith(("https://", "http://")):
                command = mcp.StdioServerParameters(
                    command=words[0],
                    args=words[1:],
                    env=variables,
                    cwd=variables.get("HOME"),
                )
                place = stdio_client(command, log)
            found: list[dict[str, Any]] = []
            async with mcp.Client(place) as client:
                page = await client.list_tools()
                for _ in range(_MOST_PAGES):
                    found += [
                        tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                        for tool in page.tools
                    ]
                    if not page.next_cursor:
                        return found
                    page = await client.list_tools(cursor=page.next_cursor)
        raise UserError(f"{server}: lists tools without an end. {fix}")

    # Some servers also print other lines than messages.
    logger = logging.getLogger("mcp.client.stdio")
    logger.disabled = True
    try:
        with open(os.devnull, "w", encoding="utf-8") as log:
            return {"tools": asyncio.run(listed(log))}
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, UserError):
            raise error from None
        what = (
            f"no answer in {timeout} seconds"
            if isinstance(error, TimeoutError)
            else (f"{type(error).__name__}: {shortened(error)}")
        )
        raise UserError(
            f"{server}: the server lists no tools ({what}). {fix}"
        ) from None
    finally:
        logger.disabled = False
