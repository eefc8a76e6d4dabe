"""Generates pages of the site, as a hook of MkDocs (see mkdocs.yml).

- `README.md` and other files outside docs/: pages of the site (see `OUTSIDE`).
- `commands.md`: every command, from its parser.
- `programs.md`: the flags of the T5X programs, from their definitions.
- `gin_files.md`: every gin file and every Python config.
- `python/*.md`: public names of each room; mkdocstrings adds their docstrings.

The pages exist only during the build of the site. No heavy module is imported.
"""

import argparse
import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAPERS = "papers/jaxaug_papers"
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/NOTES.md": "benchmark_notes.md",
    "papers/jaxaug_papers/minisgd/variants/README.md": "minisgd_variants.md",
    f"{PAPERS}/pcc/README.md": "pcc.md",
    f"{PAPERS}/dips/classify/README.md": "classify.md",
    f"{PAPERS}/dips/README.md": "dips.md",
    f"{PAPERS}/tree/README.md": "tree.md",
}
"""Markdown outside docs/ -> its page of the site."""
ROOMS = (
    ["track", "decode", "metrics", "paraphrase", "augment", "curriculum", "models"]
    + ["tools", "formats", "data", "feed", "core"]
)  # fmt: skip
"""Packages of jaxaug whose `__init__` offers names, most useful first."""
FACES = (
    ["models", "decoding", "trainer", "partitioning", "checkpoints", "optimizers"]
    + ["adafactor", "metrics", "losses", "utils", "gin_utils"]
)  # fmt: skip
"""Modules of the runtime with the names of upstream T5X."""


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages; MkDocs calls it with the files of the site."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Corrects links to files outside docs/; MkDocs calls it with each page."""
    if page.file.src_uri in OUTSIDE.values():
        return markdown
    return inside(markdown, Path("docs"))


def pages() -> dict[str, str]:
    """Returns path in the site -> Markdown, for all generated pages."""
    made = {
        page: inside((ROOT / source).read_text(encoding="utf-8"), Path(source).parent)
        for source, page in OUTSIDE.items()
    }
    made["commands.md"] = commands()
    made["programs.md"] = programs()
    made["gin_files.md"] = gin_files()
    made |= {f"python/{name}.md": text for name, text in python_pages().items()}
    return made


def inside(markdown: str, folder: Path) -> str:
    """Returns the Markdown of a file in `folder`, with links that work on the site.

    The site does not contain the code, so links to folders and other files become their
    paths.
    """

    def replaced(match: re.Match) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = Path(os.path.normpath(folder / target)).as_posix()
        if path.startswith("docs/"):
            return f"[{text}]({path.removeprefix('docs/')}{anchor})"
        if path in OUTSIDE:
            return f"[{text}]({OUTSIDE[path]}{anchor})"
        return f"{text} (`{path}`)"

    return re.sub(
        r"\[([^\]\[]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)", replaced, markdown
    )


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yields (command, its parser, its help) for every command, without groups."""
    from jaxaug.cli import build_parser

    def below(parser: argparse.ArgumentParser, help_text: str) -> Iterator:
        groups = [
            action
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
        ]
        if parser.get_default("target"):
            yield parser.prog, parser, help_text
        for group in groups:
            texts = {choice.dest: choice.help for choice in group._choices_actions}
            for name, child in group.choices.items():
                yield from below(child, texts.get(name) or "")

    return below(build_parser(), "")


def commands() -> str:
    """Returns the page of commands: a table, then the help of each."""
    found = list(parsers())
    lines = ["# Commands", "", "Output of `jaxaug COMMAND --help`.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    for name, _, text in found:
        lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {cell(text)} |")
    os.environ["COLUMNS"] = "88"  # argparse fills lines to the width of the terminal.
    for name, parser, _ in found:
        lines += ["", f"## {name}", "", *fenced(parser.format_help())]
    return "\n".join(lines) + "\n"


def flags() -> list[tuple[str, str, str]]:
    """Returns (name, default, text) of each flag that the T5X programs define."""
    found = []
    for path in ("start/macros.py", "start/program.py", "start/machine.py", "main.py"):
        source = (ROOT / "runtime/t5x" / path).read_text(encoding="utf-8")
        constants = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(source).body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(
                "flags.DEFINE_"
            ):
                name, default, *_, text = node.args
                words = text.values if isinstance(text, ast.JoinedStr) else [text]
                parts = [
                    str(word.value)
                    if isinstance(word, ast.Constant)
                    else str(constants[ast.unparse(word.value)])
                    for word in words
                ]
                found.append(
                    (ast.literal_eval(name), ast.unparse(default), "".join(parts))
                )
    return found


def programs() -> str:
    """Returns the page of the programs' flags."""
    lines = ["# Flags of the T5X programs", ""]
    lines += ["    python -m t5x.train --gin_file=configs/d3st_aug.gin", ""]
    lines += ["The same flags apply to `t5x.eval` and `t5x.infer`; `t5x.main"]
    lines += [
        "--run_mode=MODE` runs any of the three. `--gin.NAME=VALUE` sets one value"
    ]
    lines += [
        "of the configuration, and JAX's flags are accepted too (`--helpfull` lists"
    ]
    lines += ["them).", ""]
    lines += ["| flag | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `--{name}` | `{default}` | {cell(text)} |"
        for name, default, text in flags()
    ]
    return "\n".join(lines) + "\n"


def gin_files() -> str:
    """Returns the page of gin files: header, includes, and plain settings of each."""
    lines = ["# Gin files", ""]
    lines += ["The header of each file, the files that it includes, and the settings"]
    lines += ["that `--gin.NAME=VALUE` changes. Files are stacked: `--gin_file` may be"]
    lines += ["given several times, and later files win. Names are looked up in the"]
    lines += ["current folder, then in installed packages."]
    folder = ""
    for path in config_paths():
        name = config_name(path)
        if path.parent.as_posix() != folder:
            folder = path.parent.as_posix()
            lines += ["", f"## {name.rpartition('/')[0]}/"]
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            lines += [
                "",
                f"### {name}",
                "",
                *fenced(ast.get_docstring(ast.parse(text))),
            ]
            continue
        head = re.match(r"(?:#.*\n)*", text)[0]
        about = "\n".join(line[1:].removeprefix(" ") for line in head.splitlines())
        lines += ["", f"### {name}", "", *fenced(about)]
        if included := re.findall(r"^include ['\"](.*)['\"]", text, re.MULTILINE):
            lines += ["", "Includes: " + ", ".join(f"`{one}`" for one in included)]
        if settings := re.findall(r"^([A-Z][A-Z0-9_]* = \S.*)$", text, re.MULTILINE):
            shown = [one for one in settings if not one.endswith(("(", "[", "{", "\\"))]
            lines += ["", "Settings: " + ", ".join(f"`{one}`" for one in shown)]
    return "\n".join(lines) + "\n"


def config_paths() -> list[Path]:
    """Returns all gin files and Python configs; the files of experiments come first."""
    found: list[Path] = []
    for folder in (ROOT / "configs", *sorted((ROOT / PAPERS).glob("*/configs"))):
        found += sorted(folder.rglob("*.gin"), key=lambda p: (len(p.parts), p))
        found += sorted(folder.glob("*/*.py"))
    return found + sorted((ROOT / "runtime/t5x").rglob("*.gin"))


def config_name(path: Path) -> str:
    """Returns the name under which programs find a gin file or a config."""
    name = path.relative_to(ROOT).as_posix()
    return re.sub(rf"^(?:runtime|{PAPERS}/\w+)/", "", name)


def python_pages() -> dict[str, str]:
    """Returns name of a package -> its page, to which mkdocstrings adds docstrings."""
    made = {}
    for room in ROOMS:
        package = f"jaxaug.{room}"
        lines = [f"# {package}", "", f"::: {package}", "    options:"]
        lines += ["      members: false", "      show_root_heading: false"]
        for name in offered(package):
            lines += ["", f"::: {name}"]
        made[package] = "\n".join(lines) + "\n"
    lines = ["# t5x", ""]
    lines += ["The modules that gin files and user code import, with the names of"]
    lines += ["upstream T5X."]
    for face in FACES:
        lines += ["", f"## t5x.{face}", ""]
        lines += [f"::: {name}\n" for name in behind(f"t5x.{face}")]
    made["t5x"] = "\n".join(lines) + "\n"
    return made


def offered(package: str) -> list[str]:
    """Returns the full names that the `__init__` of a package offers lazily."""
    source = ROOT / package.replace(".", "/") / "__init__.py"
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "lazy_loader.attach"
        ):
            given = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
            names = [
                f"{package}.{module}.{name}"
                for module, members in given.get("submod_attrs", {}).items()
                for name in members
            ]
            return names + [f"{package}.{name}" for name in given.get("submodules", [])]
    return []


def behind(face: str) -> list[str]:
    """Returns the functions and classes that a module of the runtime exports."""
    tree = ast.parse(
        (ROOT / "runtime" / f"{face.replace('.', '/')}.py").read_text(encoding="utf-8")
    )
    kinds = ast.FunctionDef | ast.ClassDef
    own = [
        node.name
        for node in tree.body
        if isinstance(node, kinds) and not node.name.startswith("_")
    ]
    if own:
        return [f"{face}.{name}" for name in own]
    return [
        f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("t5x.")
        for alias in node.names
        if not alias.name.isupper()
    ]


def fenced(text: str | None) -> list[str]:
    """Returns the lines of a fenced block with the text."""
    return ["```text", (text or "").strip("\n"), "```"]


def cell(text: str) -> str:
    """Returns the text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
