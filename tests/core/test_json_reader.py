"""The JSON reader: which texts it rejects, and that all modules use it."""

import ast
import re

import pytest

from jaxaug.core import json_reader
from jaxaug.core.json_reader import MAX_DEPTH, JsonError
from tests.test_architecture import ROOT, files, name

# Texts that do not come from outside: values of this process, and files of the package.
OURS = {
    "jaxaug/api.py",
    "jaxaug/augment/judge/verdicts.py",
    "jaxaug/formats/d3st.py",
    "jaxaug/formats/json_tools.py",
    "jaxaug/formats/sdt.py",
    "jaxaug/formats/t5dst.py",
    "jaxaug/models/tokenizers/spelling.py",
    "jaxaug/augment/judge/measures.py",
    "jaxaug/core/json_places.py",
    "jaxaug/core/json_reader.py",
    "jaxaug/models/endpoint/replies.py",
    "runtime/t5x/inference/evaluator.py",
    "runtime/jaxaug_base/files.py",
    "runtime/t5x/training/run_record.py",
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the line is empty"),
        (b" \n", "the line is empty"),
        ('{"a"', "truncated JSON: Expecting ':' delimiter at line 1, column 5"),
        ('{"a" 1}', "invalid JSON: Expecting ':' delimiter at line 1, column 6"),
        (b'"\xff"', "byte 0xff at offset 1 is not UTF-8"),
        ("[" * 100_000, "invalid JSON: nested too deeply"),
        ('{"a":' * 100_000, "invalid JSON: nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
         "invalid JSON: nested too deeply"),
        ("1" * 4301, "invalid JSON: an integer has more than 4300 digits"),
        ('{"a": {"b": 1, "b": 2}}',
         ("invalid JSON: an object has the name 'b' 2 times (again at line 1, "
         "column 16)")),
        (b'["\\udc00"]',
         "invalid JSON: a string holds \\udc00, half of a surrogate pair"),
    ],
)  # fmt: skip
def test_rejected_input(text, problem):
    with pytest.raises(JsonError) as error:
        json_reader.decoded(text, "the line")
    assert str(error.value) == problem


def test_accepted_input():
    assert json_reader.decoded(b'{"a": [1, null, "\\ud83d\\ude00"]}') == {
        "a": [1, None, "\U0001f600"]
    }
    assert json_reader.decoded("1" * 4300) == int("1" * 4300)
    assert json_reader.decoded('{"a": {"a": 1}}') == {"a": {"a": 1}}
    deep = json_reader.decoded("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (deep,) = deep
    assert deep == []
    wide = [{"a": [[]]}] * (MAX_DEPTH + 1)
    assert json_reader.decoded(repr(wide).replace("'", '"')) == wide
    assert json_reader.decoded('["\\ud800"]', halves=True) == ["\ud800"]


def test_all_json_passes_through_the_reader():
    """All texts from outside do; `json.loads(json.dumps(...))` copies a value."""
    found = set()
    for folder in ("jaxaug", "tasks", "runtime/jaxaug_base", "runtime/t5x"):
        for path in files(folder):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                call = ast.unparse(node) if isinstance(node, ast.Call) else ""
                if re.match(r"json\.loads?\((?!json\.dumps\()", call):
                    found.add(name(path))
    assert found <= OURS, "use jaxaug.core.json_reader"
    assert all((ROOT / path).exists() for path in OURS)
