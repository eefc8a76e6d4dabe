"""The site of docs/: its order, its links, and the pages generated from code.

`make docs` builds the site with MkDocs. Only the test that builds it needs MkDocs.
"""

import ast
import importlib.util
import itertools
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from jaxaug.cli import VERBS, build_parser
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parent.parent
_CODE = re.compile(r"^```.*?^```$|^    .*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)")
_VARIABLE = re.compile(r"JAXAUG_[A-Z][A-Z_]*[A-Z]")


def _module():
    path = ROOT / "docs/site/reference.py"
    spec = importlib.util.spec_from_file_location("site_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = _module()
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


@pytest.fixture(scope="module")
def pages():
    """Returns path in the site -> Markdown, of all pages."""
    found = {
        path.relative_to(ROOT / "docs").as_posix(): REFERENCE.inside(
            path.read_text(encoding="utf-8"), Path("docs")
        )
        for path in (ROOT / "docs").glob("*.md")
    }
    made = REFERENCE.pages()
    assert not found.keys() & made.keys()
    return found | made


def _navigation(part=None):
    for item in CONFIG["nav"] if part is None else part:
        value = next(iter(item.values())) if isinstance(item, dict) else item
        if isinstance(value, str):
            yield value
        else:
            yield from _navigation(value)


def test_the_navigation_names_every_page_once(pages):
    assert sorted(_navigation()) == sorted(pages)
    titles = [page.split("\n", 1)[0] for page in pages.values()]
    assert all(re.match("# .", title) for title in titles)


def _anchors(page):
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", title).strip().lower()
        yield "#" + re.sub(r"[-\s]+", "-", plain)


def test_every_link_and_anchor_leads_somewhere(pages):
    broken = []
    for name, page in pages.items():
        for target, anchor in _LINK.findall(_CODE.sub("", page)):
            path = (Path(name).parent / target).as_posix() if target else name
            if path in pages:
                if anchor and anchor not in _anchors(pages[path]):
                    broken.append(f"{name}: {target}{anchor}")
            elif not (ROOT / "docs" / path).is_file():
                broken.append(f"{name}: {target}")
    assert not broken


def test_links_outside_the_site():
    for text, made in (
        ("[a](docs/serve.md#x)", "[a](serve.md#x)"),
        ("[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("[a](LICENSE)", "a (`LICENSE`)"),
        ("[a](https://x.org/y)", "[a](https://x.org/y)"),
        ("![a](docs/pictures/serve.png)", "![a](pictures/serve.png)"),
    ):
        assert REFERENCE.inside(text, Path()) == made
    for readable in (ROOT / "CONTRIBUTING.md", *_readable()):
        text = _CODE.sub("", readable.read_text(encoding="utf-8"))
        for target, _ in _LINK.findall(text):
            assert not target or (readable.parent / target).exists(), target


def test_every_command_has_its_help(pages):
    shown = pages["commands.md"]
    listed = re.findall(r"^\| \[`(jaxaug [^`]*)`\]", shown, re.MULTILINE)
    assert {"jaxaug augment", "jaxaug augment text", "jaxaug data check"} < {*listed}
    for name in listed:
        assert f"\n## {name}\n\n```text\nusage: {name} " in shown, name


def test_every_gin_file_has_a_header_that_is_shown(pages):
    shown = pages["gin_files.md"]
    for path in REFERENCE.config_paths():
        name = REFERENCE.config_name(path)
        about = shown.partition(f"\n### {name}\n\n```text\n")[2].partition("\n```")[0]
        assert about.strip(), f"{path}: begin it with a comment that says what it is"


def test_every_flag_is_shown(pages):
    sources = [
        (ROOT / "runtime/t5x" / path).read_text()
        for path in (
            "start/macros.py",
            "start/program.py",
            "start/machine.py",
            "main.py",
        )
    ]
    defined = sum(source.count("flags.DEFINE_") for source in sources)
    rows = re.findall(
        r"^\| `--(\w+)` \| `.*` \| .+ \|$", pages["programs.md"], re.MULTILINE
    )
    assert len(rows) == defined and "gin_file" in rows
    assert "or none. Default: $JAX_COMPILATION_CACHE_DIR" in pages["programs.md"]


def test_python_pages_name_existing_objects(pages):
    named = [
        name
        for page, text in pages.items()
        if page.startswith("python/")
        for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    ]
    assert {"jaxaug.track.tracker.Tracker", "jaxaug.decode.dips"} < {*named}
    for name in named:
        assert _defined(name), f"{name} is not where the page looks for it"


def _defined(name):
    base = ROOT / ("runtime" if name.startswith("t5x.") else "")
    path = base / name.replace(".", "/")
    if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
        return True
    module, _, member = name.rpartition(".")
    source = base / (module.replace(".", "/") + ".py")
    if not source.is_file():
        source = source.with_suffix("") / "__init__.py"
    names = {
        target
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        for target in _names(node)
    }
    return member in names


def _names(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_every_environment_variable_is_described():
    page = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `JAXAUG_")]
    described = [one for row in rows for one in _VARIABLE.findall(row.split(" | ")[0])]
    assert len(described) == len({*described})
    places = ("jaxaug", "tasks", "runtime", "papers", "launch", "configs")
    places += ("benchmarks", "tests")
    used = set()
    for path in itertools.chain(*((ROOT / place).rglob("*") for place in places)):
        if path.suffix in {".py", ".sh", ".gin", ".yaml", ".Dockerfile"}:
            used |= {*_VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert {*described} == used


def _readable():
    """Returns README.md, the pages of docs/, and the pages of the papers."""
    papers = sorted((ROOT / "papers").rglob("*.md"))
    return ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *papers


def _written():
    """Yields (page, command line) of blocks in these pages, continued lines joined."""
    for path in _readable():
        text = re.sub(r" \\\n\s*", " ", path.read_text(encoding="utf-8"))
        for line in re.findall(r"^    (?:\$ )?(.*)$", text, re.MULTILINE):
            yield path.name, line.split(" | ")[-1].split("  ")[0].split(" # ")[0]


def _placeholder(words):
    return any(re.search(r"\.\.\.|^[A-Z]+\.\.\.$|^\[|^KIND$", word) for word in words)


def test_commands_that_pages_show_can_be_given(capsys):
    tried, parser = 0, build_parser()
    for page, line in _written():
        if not line.startswith("jaxaug "):
            continue
        words = shlex.split(line.split(" > ")[0])[1:]
        if _placeholder(words) or (page == "extending.md" and words[0] not in VERBS):
            continue  # The page shows a verb of the reader.
        tried += 1
        try:
            parser.parse_args(words)
        except SystemExit as ended:
            assert ended.code == 0, f"{page}: {line}\n{capsys.readouterr().err}"
    assert tried > 50


def test_benchmarks_take_the_options_that_pages_give_them():
    """Options are read from the source, because many parsers import all of JAX."""
    tried = 0
    for page, line in _written():
        found = re.search(
            r"python (benchmarks/\w+\.py|-m jaxaug_papers\S+) ?(.*)", line
        )
        if not found:
            continue
        name = re.sub(
            r"^-m (\S+)", lambda m: f"papers/{m[1].replace('.', '/')}.py", found[1]
        )
        text = (ROOT / name).read_text(encoding="utf-8")
        given = {word.split("=")[0] for word in re.findall(r"(--\w[\w-]*)", found[2])}
        # A loop over names adds several options in one line.
        known = {f"--{name}" for name in re.findall(r'"(?:--)?(\w[\w-]*)"', text)}
        assert given <= known, f"{page}: {line}: {given - known}"
        tried += 1
    assert tried > 10


def test_files_that_pages_name_are_there():
    there = {*map(REFERENCE.config_name, REFERENCE.config_paths())}
    for path in _readable():
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"\b(?:configs|benchmarks)/[\w/]+\.(?:gin|py|sh)\b", text)
        for name in named:
            assert name in there or (ROOT / name).is_file(), f"{path.name} names {name}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8")) < 5000


@pytest.mark.long  # A job of CI runs `make docs`.
def test_the_site_builds_without_a_warning(pages, tmp_path):
    """Builds as `make docs` does; an unknown name of mkdocstrings is a warning."""
    pytest.importorskip("mkdocs")
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = ran(
        [sys.executable, *command, str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = {p.relative_to(tmp_path / "site") for p in tmp_path.rglob("*.html")}
    assert built >= {Path(name).with_suffix(".html") for name in pages}
