"""Packs the data of the suites of `jaxaug sensitivity` into `jaxaug/data`.

    python benchmarks/suites.py wordings FOLDER --out jaxaug/data/NAME_wordings.jsonl.xz
    python benchmarks/suites.py names FOLDER
    python benchmarks/suites.py mcp FOLDER

`FOLDER` holds `texts.jsonl`, the original texts with `n` and `text`. Files with `n` and
five texts `good` reword them, from the nearest to the farthest. Files with `n`, `k`
(from 1), and `new` replace rewordings. Files with `n` and texts named like an axis have
its forms; the last file counts. For names, `FOLDER` holds files with the `tool`, its
`arguments` in order, and `names`, the new name of each or null. For the suite `mcp`,
`servers.tsv` has the name, pinned requirements, command, license, and environment of
servers; pins of `mcp`, `fastmcp`, and `pydantic` fix the form of their schemas.
`cases.jsonl` has the cases: each argument of a call has the list of its right values,
with "" if it may be left out. The program installs and starts the servers of the cases.
"""

import argparse
import csv
import json
import lzma
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaxaug.tools import suites
from jaxaug.tools.suites import Server

DATA = Path(suites.corpus.__file__).parent
MOST_TOOLS = 10
FORMS = ("short", "long", "docstring", "question", "omission")


def lines(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Returns the parsed lines of files."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def pack(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Writes a compressed file of lines."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{path}: {text.count(chr(10))} lines, {path.stat().st_size:,} bytes")


def worded(folder: Path) -> list[dict[str, Any]]:
    """Returns the digest and the rewordings of each text."""
    texts = {one["n"]: one["text"] for one in lines([folder / "texts.jsonl"])}
    every = lines(sorted({*folder.glob("*.jsonl")} - {folder / "texts.jsonl"}))
    found = {one["n"]: one["good"] for one in every if "good" in one}
    for one in every:
        if "new" in one:
            found[one["n"]][one["k"] - 1] = one["new"]
    assert found.keys() <= texts.keys()
    forms: dict[int, dict[str, str]] = {n: {} for n in found}
    for one in every:
        forms[one["n"]] |= {axis: one[axis] for axis in FORMS if axis in one}
    return [
        {"digest": suites.digest(texts[n]), "good": found[n], "forms": forms[n]}
        for n in found
    ]


def names_of(folder: Path) -> list[dict[str, Any]]:
    """Returns the digest of each interface and its new names."""
    found = {
        suites.interface_of(one["tool"], one["arguments"]): one["names"]
        for one in lines(sorted(folder.glob("*.jsonl")))
    }
    return [{"digest": key, "names": names} for key, names in found.items()]


def server_of(row: dict[str, str]) -> Server:
    """Returns the server of a line of `servers.tsv`."""
    environment = dict(one.split("=", 1) for one in row["environment"].split())
    requirements = [row["requirement"], *row["extra_requirements"].split()]
    command, name = row["command"], row["name"]
    return Server(name, row["licence"], requirements, command, environment, (), "")


def case_of(item: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    """Returns a case in the format of `jaxaug sensitivity --in`."""
    calls = []
    for call in item["calls"]:
        schema = tools[call["name"]]["inputSchema"].get("properties", {})
        made: dict[str, Any] = {"name": call["name"], "arguments": {}, "accepted": {}}
        for key, values in call["arguments"].items():
            right = [one for one in values if one != ""]
            if "" in values:
                default = [""] if schema[key].get("default") == "" else []
                made["accepted"][key] = right + default
            else:
                made["arguments"][key], *further = right
                if further:
                    made["accepted"][key] = further
        if others := call.get("name_alternatives"):
            made["name_alternatives"] = others
        calls.append(made)
    return item | {"calls": calls}


def main() -> None:
    """Packs one suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("wordings", "names", "mcp"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder
    if arguments.what == "wordings":
        pack(worded(folder), arguments.out)
        return
    if arguments.what == "names":
        pack(names_of(folder), DATA / "suite_names.jsonl.xz")
        return
    items = lines([folder / "cases.jsonl"])
    with open(folder / "servers.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    named = {item["server"] for item in items}
    servers, tools = [], {}
    for server in (server_of(row) for row in rows if row["name"] in named):
        found = suites.list_tools(server)[:MOST_TOOLS]
        tools[server.name] = {one["name"]: one for one in found}
        key = suites.digest_of(found)
        servers.append(server._replace(tools=[*tools[server.name]], digest=key))
    pack((one._asdict() for one in servers), DATA / "mcp_servers.jsonl.xz")
    # The first cases of a limited run come from many servers.
    seen: Counter[str] = Counter()
    order = [(seen.update([item["server"]]), seen[item["server"]]) for item in items]
    turns = sorted(zip(order, items, strict=True), key=lambda pair: pair[0][1])
    rows_of = (case_of(item, tools[item["server"]]) for _, item in turns)
    pack(rows_of, DATA / "mcp_cases.jsonl.xz")


if __name__ == "__main__":
    main()
