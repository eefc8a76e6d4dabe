"""Suites: published cases with five graded rewordings of their tools, and axes.

docs/sensitivity.md is the data card. A suite holds only texts of our own; the
original tools come from a wheel, or from MCP servers, when the suite is first used.
"""

import functools
import hashlib
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxaug_base.files import temporary_name

from jaxaug.core import cache_folder, cached, hub, json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import shortened
from jaxaug.core.installed import extras_of
from jaxaug.data import rewordings as corpus
from jaxaug.models.named import packages
from jaxaug.tools import cases, read_tools, sources, tools_of
from jaxaug.tools.cases import (
    CONTROL,
    MOST_TOOLS,
    ORIGINAL,
    Case,
    Source,
    Tool,
    Wordings,
    arguments_of,
)
from jaxaug.tools.views import with_texts, without

GRADES = ("g1", "g2", "g3", "g4", "g5")
# A URL or placeholder, or else a name, which may be marked as such.
_NAME = re.compile(
    r"https?://\S+|\{\w+\}|(?P<mark>`|^[ \t*-]*)?(?<!\w)(?P<name>[A-Za-z]\w*)"
    r"(?:(?=(?P<end>=|`?\s*(?:\([^)]*\)\s*)?:)))?",
    re.MULTILINE,
)
_TOOL = ("name", "description", "inputSchema")
_TIMEOUT = 300  # Seconds; the first start of a server compiles its packages.


class Suite(NamedTuple):
    """Published cases.

    Attributes:
        read: returns at most a number of cases, with their descriptions changed by a
            function; None means all cases.
        wordings: file with the rewordings.
    """

    read: Callable[[Callable[[str], str], int | None], list[Source]]
    wordings: str


class Server(NamedTuple):
    """An MCP server of the suite `mcp`.

    Attributes:
        name: name of the server.
        license: SPDX identifier of its license.
        requirements: pinned packages on PyPI.
        command: command that starts the server, and its arguments.
        environment: dummy variables without which it does not start.
        tools: names of the offered tools.
        digest: digest of these tools.
    """

    name: str
    license: str
    requirements: Sequence[str]
    command: str
    environment: Mapping[str, str]
    tools: Sequence[str]
    digest: str


def _read_bfcl(reworded: Callable[[str], str], limit: int | None) -> list[Source]:
    folder = packages.at_first_use("bfcl")
    found: list[Source] = []
    for name in ("simple.json", "parallel.json"):
        left = None if limit is None else limit - len(found)
        found += cases.read(folder / name, None, None, reworded, left)
    return found


def _read_mcp(reworded: Callable[[str], str], limit: int | None) -> list[Source]:
    # The cases of the file alternate between the servers.
    items = _lines("mcp_cases.jsonl.xz")[:limit]
    named = dict.fromkeys(item["server"] for item in items)
    known = {one["name"]: Server(**one) for one in _lines("mcp_servers.jsonl.xz")}
    found = []
    for name in named:
        changed = with_texts(server_tools(known[name]), reworded)
        tools = read_tools(changed, name)
        offered = {
            one["function"]["name"]: one for one in tools_of(tools, tools.schema)
        }
        own = [
            cases.own_case(without(item, "server"), item["id"], offered, 0)
            for item in items
            if item["server"] == name
        ]
        found.append(Source(tools, own))
    return found


SUITES: Mapping[str, Suite] = {
    "bfcl-live": Suite(_read_bfcl, "bfcl_live_wordings.jsonl.xz"),
    "mcp": Suite(_read_mcp, "mcp_wordings.jsonl.xz"),
}


def _lines(name: str) -> list[dict[str, Any]]:
    path = Path(corpus.__file__).with_name(name)
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json_reader.decoded(line) for line in lines]


def digest(text: str) -> str:
    """Returns the key of a text in a file of wordings, 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def wordings_of(suite: Suite) -> dict[str, dict[str, str]]:
    """Returns a mapping from the digest of a text to its texts by wording or axis."""
    return {
        one["digest"]: {**dict(zip(GRADES, one["good"], strict=True)), **one["forms"]}
        for one in _lines(suite.wordings)
    }


def read_suite(
    name: str, limit: int | None = None, axes: Sequence[str] = ()
) -> tuple[list[Source], Wordings, Wordings]:
    """Returns the cases of a suite, under all wordings, and under axes.

    Args:
        name: key of `SUITES`.
        limit: number of cases; None means all.
        axes: keys of `AXES`.

    Raises:
        UserError: the original tools cannot be fetched, or have changed.
    """
    suite = SUITES[name]
    known = wordings_of(suite)

    def read(form: str) -> list[Case]:
        def reworded(text: str) -> str:
            return known.get(digest(text), {}).get(form) or text

        return [case for one in suite.read(reworded, limit) for case in one.cases]

    original = suite.read(str, limit)
    given = [case for one in original for case in one.cases]
    wordings = {ORIGINAL: given, CONTROL: given, **{one: read(one) for one in GRADES}}
    changed = {
        axis: _CHANGES[axis](given) if axis in _CHANGES else read(axis) for axis in axes
    }
    return original, wordings, changed


def _bare(cases: Sequence[Case]) -> list[Case]:
    """Returns cases whose tools describe no arguments."""

    def bare(tool: Tool) -> Tool:
        function = tool["function"]
        parameters = with_texts(function["parameters"], lambda text: None)
        return tool | {"function": function | {"parameters": parameters}}

    return [replace(one, tools=tuple(map(bare, one.tools))) for one in cases]


def _distracting(cases: Sequence[Case]) -> list[Case]:
    """Returns cases that also offer the tools of another case, after their own.

    The other case is the first one from the middle of the list on, counted from the
    case, that has none of its tools. A case without such another keeps its tools.
    """
    names = [{tool["function"]["name"] for tool in one.tools} for one in cases]
    found = []
    for place, case in enumerate(cases):
        start = place + len(cases) // 2
        others = (n % len(cases) for n in range(start, start + len(cases)))
        other = next((n for n in others if not names[n] & names[place]), None)
        added = () if other is None else cases[other].tools
        found.append(replace(case, tools=(*case.tools, *added)[:MOST_TOOLS]))
    return found


def interface_of(tool: str, arguments: Iterable[str]) -> str:
    """Returns the digest of the names of a tool and its arguments."""
    return digest(json.dumps([tool, *arguments]))


def _renamed(cases: Sequence[Case]) -> list[Case]:
    """Returns cases whose tools and arguments have other names."""
    names = {one["digest"]: one["names"] for one in _lines("suite_names.jsonl.xz")}
    return [with_names(case, names) for case in cases]


def with_names(case: Case, names: Mapping[str, Sequence[str | None]]) -> Case:
    """Returns a case with other names of its tools and their arguments.

    Descriptions that mention an old name mention the new one, except in URLs. A plain
    word is a name only in backticks, or as in `query="words"` and in a line such as
    `query: the words to find`.

    Args:
        case: case with original names.
        names: maps `interface_of` a tool to the new names of it and its arguments;
            None keeps a name.
    """
    changed: list[dict[str, str]] = []
    known: dict[Any, str] = {}
    for tool in case.tools:
        old = tool["function"]["name"], *arguments_of(tool)
        new = names[interface_of(old[0], old[1:])]
        pairs = [(a, b or a) for a, b in zip(old, new, strict=True)]
        changed.append(dict(pairs[1:]))
        known[pairs[0][1]] = old[0]
        known |= {(pairs[0][1], b): a for a, b in pairs[1:]}
    new_of = {old: new for new, old in known.items() if isinstance(new, str)}
    tools = []
    for tool, own in zip(case.tools, changed, strict=True):
        function = with_texts(
            tool["function"], functools.partial(_mentioning, {**new_of, **own})
        )
        parameters = dict(function["parameters"])
        for key, value in parameters.items():
            if key == "properties":
                parameters[key] = {own[name]: one for name, one in value.items()}
            elif key == "required":
                parameters[key] = [own.get(name, name) for name in value]
        more = {"name": new_of[function["name"]], "parameters": parameters}
        tools.append(tool | {"function": function | more})
    return replace(case, tools=tuple(tools), names=known)


def _mentioning(names: Mapping[str, str], text: str) -> str:
    """Returns a text with other names; see `with_names`."""

    def new(found: re.Match[str]) -> str:
        old, mark, end = found["name"], found["mark"], found["end"]
        if old not in names:
            return found[0]
        is_marked = mark == "`" or end == "=" or (mark is not None and end)
        if old.isalpha() and old[1:] == old[1:].lower() and not is_marked:
            return found[0]
        return (mark or "") + names[old]

    return _NAME.sub(new, text)


_CHANGES: Mapping[str, Callable[[Sequence[Case]], list[Case]]] = {
    "names": _renamed,
    "bare": _bare,
    "distractor": _distracting,
}


def server_tools(server: Server) -> list[dict[str, Any]]:
    """Returns the offered tools of a server.

    The first call on a machine installs and starts the server. The cache keeps its
    tools.

    Raises:
        UserError: the server cannot be installed or started, its tools differ from
            those that were reworded, or downloads are switched off.
    """
    folder = cache_folder.local_cache_dir() / "mcp" / f"{server.name}-{server.digest}"
    return json_reader.decoded(
        cached.published_file(
            folder / "tools.json", functools.partial(_fetched, server)
        ).read_text()
    )


def _fetched(server: Server) -> bytes:
    where = f"--suite mcp: {server.name}"
    if os.environ.get(hub.OFFLINE_VARIABLE):
        raise UserError(
            f"{where}: its tools are not on this machine, and --offline "
            f"(${hub.OFFLINE_VARIABLE}) forbids to install it. Leave --offline "
            "out."
        )
    listed = {one["name"]: one for one in list_tools(server)}
    found = [listed[name] for name in server.tools if name in listed]
    if digest_of(found) != server.digest:
        raise UserError(
            f"{where}: its tools differ from those that were reworded, although "
            f"{server.requirements[0]} is pinned; another package changes its answer. "
            f"Give a --limit that leaves {server.name} out."
        )
    return json.dumps(found).encode()


def digest_of(tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the digest of a list of tools."""
    return digest(json.dumps(tools, sort_keys=True))


def list_tools(server: Server) -> list[dict[str, Any]]:
    """Installs a server for a moment, and returns what a model sees of its tools.

    Packages come from PyPI as wheels. The server sees no environment variables but its
    own and a few such as `PATH`, and a temporary home folder.

    Raises:
        UserError: the extra `mcp` is missing, or the server cannot be installed or
            started.
    """
    with extras_of("--suite mcp"):
        import mcp  # noqa: F401
    needed = ", ".join(server.requirements)
    print(f"{server.name}: lists its tools once, with {needed}", file=sys.stderr)
    target = cache_folder.local_cache_dir() / "mcp" / server.name
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = temporary_name(target)
    folder.mkdir()
    try:
        scripts = install(server, Path(folder))
        program, *words = shlex.split(server.command)
        command = shlex.join([str(scripts / program), *words])
        found = sources.tool_list(
            f"{sources.SCHEME}{command}",
            {"HOME": os.fspath(folder), **server.environment},
            f"--suite mcp needs the server {server.name}. Give a --limit that leaves "
            "it out, or run the suite on another machine.",
            _TIMEOUT,
        )
    finally:
        folder.rmtree(missing_ok=True)
    return [{k: one[k] for k in _TOOL if k in one} for one in found["tools"]]


def install(server: Server, folder: Path) -> Path:
    """Installs a server into a new environment, with `uv` if there is one.

    Returns:
        The folder of its programs.

    Raises:
        UserError: a package cannot be installed.
    """
    environment = str(folder / "environment")
    scripts = Path(environment, "Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    if uv := shutil.which("uv"):
        make = [uv, "venv", "--python", sys.executable, environment]
        pip = [uv, "pip", "install", "--python", python]
    else:
        make = [sys.executable, "-m", "venv", environment]
        pip = [python, "-m", "pip", "install"]
    pip += ["--only-binary", ":all:", *server.requirements]
    for command in (make, pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or [""]
            raise UserError(
                f"--suite mcp: {server.name} cannot be installed: "
                f"{shortened(said[-1])} Check the network, or install uv. Command: "
                f"{shlex.join(command)}"
            )
    return scripts
