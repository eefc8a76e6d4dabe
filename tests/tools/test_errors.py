"""Documents that cannot be imported, and the messages about them."""

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data.schema import check_schema, service_object
from jaxaug.tools import sources
from jaxaug.tools.convert import document_of, read_document

DOCUMENTS = Path(__file__).with_name("documents")
_TOOL = '[\n {"name": "a",\n  "input_schema": {"type": "object",\n   "properties": '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_TOOL + "]", r"invalid JSON: Expecting value at line 4, column 18\. Name"),
        (
            _TOOL + '{"x": {"$ref": "#/$defs/Statoin"}}, "$defs": {"Station": {}}}}]',
            (
                r"d\.json:4: \$ref '#/\$defs/Statoin' has no target: .* did you mean "
                r"'Station'\? N"
            ),
        ),
        (
            _TOOL + '{"x": {"$ref": "other.json#/A"}}}}]',
            (
                r"d\.json:4: \$ref 'other.json#/A' leads out of the file\. Bundle the "
                r"document"
            ),
        ),
        (
            '[\n {"name": 3,\n  "input_schema": {}}]',
            r"d\.json:2: the name of a tool: expected a string, got 3\. Name",
        ),
        (
            '{"tools": [{"name": "a", "inputSchema": {}},\n "b"]}',
            r"d\.json:2: tool #1: expected an object, got 'b'\. Name",
        ),
        (
            '{"swagger": "2.0"}',
            r"document is '2\.0', expected 3\. Convert it to OpenAPI",
        ),
        (
            '{"a": 1}',
            r"the format is not recognized from \{'a': 1\}\. Give it with --from",
        ),
        ('{"openapi": "3.1.0"}', r"the document has no tools\."),
        (
            '{"openapi": "3.1.0", "paths": {"/a":\n {"get": {"parameters": [{}]}}}}',
            r"d\.json:2: the name of parameter #0: expected a string, got None",
        ),
        ('{"$defs": {"A": {"type": "string"}}}', "no object with properties"),
        ('{"tools": [{"name": "a", "inputSchema": {"$ref": "#"}}]}', None),
    ],
)
def test_messages(text, message, tmp_path):
    path = tmp_path / "d.json"
    path.write_text(text)
    if message is None:
        assert read_document(path).schema.services[0].slots == ()
        return
    with pytest.raises(UserError, match=message):
        read_document(path)


_LAUGHS = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openapi: 3.0.0\npaths: {a: [}\n", "line 2, column 13: invalid YAML"),
        (
            "a: 1\nb: 2\na: 3\n",
            "line 3, column 1: invalid YAML: the key 'a' comes twice",
        ),
        ("a: &a {b: *a}", "an alias that contains itself"),
        (_LAUGHS, "has more than 500,000 values"),
        ("? [1, 2]\n: 3", "d.yaml: "),
        ("[" * 100_000, "invalid YAML: .*nest"),
        (
            "a0: &a0 [x]\n"
            + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 900)),
            "nested too deeply",
        ),
        (
            "openapi: 3.1.0\npaths: {/a: {get: {parameters: [1]}}}",
            (
                "d.yaml: paths//a/get/parameters/0: parameter #0: expected an object, "
                "got 1"
            ),
        ),
    ],
)
def test_wrong_yaml(text, message, tmp_path, monkeypatch):
    assert sources.MAX_VALUES == 2_000_000
    monkeypatch.setattr(sources, "MAX_VALUES", 500_000)
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_document(path)


def test_an_input_is_not_overwritten(tmp_path, capsys):
    path = tmp_path / "tools.json"
    text = (DOCUMENTS / "mcp.json").read_text()
    path.write_text(text)
    assert main(["schema", "import", str(path), "--out", str(path)]) == 1
    assert "is named twice, and one file would overwrite" in capsys.readouterr().err
    assert path.read_text() == text


def test_references_that_multiply_are_refused(tmp_path):
    defs: dict[str, Any] = {
        f"D{i}": {
            "properties": {key: {"$ref": f"#/$defs/D{i + 1}"} for key in ("a", "b")}
        }
        for i in range(40)
    }
    defs["D40"] = {"type": "string"}
    path = tmp_path / "d.json"
    path.write_text(
        json.dumps([{"name": "x", "parameters": {"$ref": "#/$defs/D0", "$defs": defs}}])
    )
    with pytest.raises(
        UserError, match="d.json:1: a tool has more than 20,000 schemas"
    ):
        read_document(path)


def test_two_thousand_tools(tmp_path):
    argument = {"type": "integer", "description": "a number", "minimum": 1}
    tools = [
        {
            "name": f"tool_{i}",
            "description": f"do number {i}",
            "inputSchema": {
                "type": "object",
                "properties": {f"a{j}": argument for j in range(6)},
                "required": ["a0"],
            },
        }
        for i in range(2000)
    ]
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"tools": tools}))
    start = time.process_time()
    found = read_document(path)
    document, _, left = document_of(found.schema, "mcp", found)
    assert time.process_time() - start < 20
    assert (document, left, len(found.lost)) == ({"tools": tools}, [], 24_000)


_BAD: list[Any] = [
    *(None, 1, True, "", [], {}, [1], {"a": 1}, {"$ref": "#/nope"}, {"$ref": "#"}),
    *({"properties": 3}, {"properties": {"": True}}, "a\nb", "a.b"),
]


def _places(value: Any, keys: tuple = ()) -> Iterator[tuple]:
    if keys:
        yield keys
    items = dict(enumerate(value)) if isinstance(value, list) else value
    for key, inner in items.items() if isinstance(items, dict) else ():
        yield from _places(inner, (*keys, key))


@pytest.mark.parametrize("name", sorted(p.name for p in DOCUMENTS.iterdir()))
def test_damaged_documents(name, tmp_path):
    """Each bad value at each place gives an error or a lossless import."""
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load((DOCUMENTS / name).read_text())
    path = tmp_path / "d.json"
    read = 0
    for number, keys in enumerate(_places(document)):
        for bad in _BAD[number % 2 :: 2]:
            damaged = copy.deepcopy(document)
            place = damaged
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = bad
            path.write_text(json.dumps(damaged))
            try:
                found = read_document(path)
            except UserError:
                continue
            data = [service_object(service) for service in found.schema.services]
            assert check_schema(data)[1] == []
            assert document_of(found.schema, found.format, found)[2] == []
            read += 1
    assert read > 50


def test_invalid_files_of_losses(tmp_path, capsys, sgd_tree):
    for text, message in (
        ("{}", "is no file of losses, expected one that `jaxaug schema"),
        (
            '{"format": "mcp", "name": "a", "document": {"tools": [{"name": 1}]}}',
            "the name of a tool: expected a string, got 1",
        ),
    ):
        schema = sgd_tree / "train/schema.json"
        out = tmp_path / "out.json"
        words = ["schema", "export", str(schema), "--to", "mcp", "--out", str(out)]
        losses = tmp_path / "losses.json"
        losses.write_text(text)
        out.unlink(missing_ok=True)
        assert main([*words, "--losses", str(losses)]) == 1
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_a_document_that_is_too_large(tmp_path):
    path = tmp_path / "large.json"
    path.write_text("[" + " " * (32 << 20) + "]")
    with pytest.raises(UserError, match="has 33,554,434 characters, at most 33,554,43"):
        read_document(path)


def test_a_format_that_holds_nothing_of_the_arguments(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text('[{"name": "f", "input_schema": {"properties": 3}}]')
    found = read_document(path)
    with pytest.raises(UserError, match="cannot be exported to json_schema: .* no obj"):
        document_of(found.schema, "json_schema", found)
