"""A lasting check of docstrings and comments, by the rules of plain English.

The check covers all Python files and all comments of gin files.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 88
WORDS = 30

# A docstring opens with a verb or a noun phrase.
OPENING = re.compile(
    r"(What|That|Those|These|None|Where|Which|Who|Whose|How|Whether|Whatever|Of|In|On"
    r"|At|By|For|From|To|With|Without|Under|Over|Between|Into|Inside|As|Not|So|Also|But"
    r")\b"
)
PHRASE = re.compile(
    r"\b(that of|those of(?! `| distances)|that which|of one's own|of its own|beside"
    r"|besides|meanwhile|so many|as many as|(?<!there )(?:is|are) (?-i:none)|what else"
    r"|lives? on|in place of|till|lets? go|goes on|go on|may do without|does not do"
    r"|nobody|wherever|whoever|a good deal)\b",
    re.IGNORECASE,
)
ARGUMENT = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*: ")
SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Yields:")
# (file, words of the text) of a parameter or quotation that looks like a phrase.
ALLOWED = (
    ("jaxaug/curriculum/mixture.py", "beside: registered tasks"),
    ("papers/jaxaug_papers/dips/lstm_layers.py", "beside: additional input"),
    ("papers/jaxaug_papers/mini/typed.py", "beside: kind of another slot"),
    ("jaxaug/augment/config.py", "beside: other rows"),
    ("jaxaug/augment/plan.py", "beside: other rows"),
)

Text = tuple[int, str]  # (line, text)


def docstrings(tree: ast.Module) -> Iterator[Text]:
    """Yields the docstrings of modules, classes, functions, and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield statement.lineno, statement.value.value


def comments(source: str) -> Iterator[Text]:
    """Yields the comments; adjacent lines are joined."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield first, " ".join(block)
            block = []
        first = first if block else line
        block.append(token.string.lstrip("# "))
        last = line
    if block:
        yield first, " ".join(block)


def displays(source: str) -> set[int]:
    """Returns the lines of multi-line strings, such as expected output."""
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.STRING
        for line in range(token.start[0], token.end[0] + 1)
        if token.start[0] < token.end[0]
    }


def gin_comments(source: str) -> str:
    """Returns the comments of a gin file; adjacent ones continue a sentence."""
    return " ".join(re.findall(r"#+ *(.*)", source))


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a docstring, without code and indented displays."""
    entries = re.sub(r"\n\s*(?=(\*{0,2}\w+(, \w+)*: |- ))", "\n\n", text)
    for paragraph in re.split(r"\n\s*\n", entries):
        yield from re.split(r"(?<=[.!?;:])\s+", re.sub(r"`[^`]*`", "x", paragraph))


def misplaced(text: str) -> Iterator[str]:
    """Yields the entries of a docstring that are indented wrongly or capitalized."""
    lines = textwrap.dedent(" " * 200 + "\n" + text.partition("\n")[2]).split("\n")
    section = ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() in SECTIONS and not indent:
            section = line.strip()
        elif not line.strip():
            section = ""
        elif section in SECTIONS and (
            indent < 4
            or (section == "Args:" and indent == 4 and not ARGUMENT.match(line.strip()))
        ):
            yield f"{section} {line.strip()}"


def faults(name: str, source: str) -> list[str]:
    """Returns a line for each fault of a file."""
    tree, found = ast.parse(source), []
    texts = list(docstrings(tree))
    for line, text in texts:
        if match := OPENING.match(text):
            found.append(f"{name}:{line}: opens with {match[0]!r}")
        found += [
            f"{name}:{line}: {len(sentence.split())} words: {sentence[:60]}"
            for sentence in sentences(text)
            if len(sentence.split()) > WORDS
        ]
        found += [f"{name}:{line}: indent by 4: {entry}" for entry in misplaced(text)]
    for line, text in [*texts, *comments(source)]:
        for match in PHRASE.finditer(text):
            place = text[match.start() :]
            if not any(name == at and place.startswith(w) for at, w in ALLOWED):
                found.append(f"{name}:{line}: phrase {match[0]!r}")
    displayed = displays(source)
    for line, text in texts:
        displayed -= {*range(line, line + text.count("\n") + 1)}
    found += [
        f"{name}:{line}: {len(text)} columns"
        for line, text in enumerate(source.splitlines(), 1)
        if len(text) > COLUMNS and line not in displayed
        if "# type: ignore" not in text
    ]
    return found


def folders(suffix: str) -> list[str]:
    """Returns the folders of the repository with such files; "." is the root alone."""
    ignored = {line.strip("/\n") for line in (ROOT / ".gitignore").open()}
    return [
        path.name
        for path in sorted(ROOT.iterdir())
        if path.is_dir()
        and not path.name.startswith(".")
        and path.name not in ignored
        and not (path / "pyvenv.cfg").exists()
        and any(path.rglob(f"*{suffix}"))
    ]


@pytest.mark.parametrize("folder", [".", *folders(".py")])
def test_python_files_are_plain_english(folder: str) -> None:
    """Docstrings, comments, and line lengths follow the rules."""
    found = [
        fault
        for path in sorted((ROOT / folder).glob("*.py" if folder == "." else "**/*.py"))
        for fault in faults(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", folders(".gin"))
def test_comments_of_gin_files_are_plain_english(folder: str) -> None:
    """Comments of gin files contain none of the phrases."""
    found = [
        f"{path.relative_to(ROOT)}: phrase {match[0]!r}"
        for path in sorted((ROOT / folder).rglob("*.gin"))
        for match in PHRASE.finditer(gin_comments(path.read_text()))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('"""What a run begins with."""', "a.py:1: opens with 'What'"),
        ("# Sums live on.\n", "a.py:1: phrase 'live on'"),
        ('"""Returns' + "\none" * 31 + '."""', "a.py:1: 32 words: Returns\none"),
        (
            'def f(x):\n    """Adds.\n\n    Args:\n      x: number.\n    """',
            "a.py:2: indent by 4: Args: x: number.",
        ),
        (f"x = '{'a' * 90}'", "a.py:1: 96 columns"),
        (f'"""A step.\n\n{"a" * 90}"""', "a.py:3: 93 columns"),
        (f'x = """\n{"a" * 90}"""', ""),
        ('"""Returns a step."""\n# A reason.\n', ""),
    ],
)
def test_faults_are_found(source: str, fault: str) -> None:
    """Each kind of fault is reported with its file and line; good text has none."""
    found = faults("a.py", source)
    assert [one[: len(fault)] for one in found] == ([fault] if fault else [])


def test_phrases_in_gin_comments_are_found() -> None:
    """A phrase is found across two comment lines, and not in a binding."""
    text = gin_comments("# The rate is that\n# of the run.\nNAME = 'till'\n")
    assert [match[0] for match in PHRASE.finditer(text)] == ["that of"]
