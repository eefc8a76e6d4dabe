"""Texts in files: delimiters of CSV, blank texts, limits."""

import re

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import tables


@pytest.fixture
def read(tmp_path):
    """Returns the table of a file with this content."""

    def of(content, name="a.csv", column=None):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return tables.read(path, column)

    return of


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", ["text{}label", '"text"{}"label"'])
def test_the_delimiter_is_found_and_kept(read, name, mark, header):
    header = header.format(mark)
    found = read(f'{header}\nhow are: you?{mark}1\n"a;b,c|d"{mark}\n', name)
    assert [row.text for row in found.rows] == ["how are: you?", "a;b,c|d"]
    assert found.header == ["text", "label"] and found.delimiter == mark
    written = tables.written(found, [["x" + mark], ["y"]], "eda", 1)
    lines = [
        ["text", "label", "source_row", "scheme"],
        [f'"x{mark}"', "1", "1", "eda"],
        ["y", "", "2", "eda"],
    ]
    assert written == "".join(f"{mark.join(line)}\n" for line in lines)


def test_a_comma_inside_a_field_of_another_table_is_text(read):
    found = read("text;price, in euros\none;1,5\ntwo;2\n", column="price, in euros")
    assert [row.rest for row in found.rows] == [["one", "1,5"], ["two", "2"]]


def test_a_single_column_may_hold_any_mark(read):
    assert [row.text for row in read("text\na;b\n\nc|d\n").rows] == ["a;b", "", "c|d"]
    found = read('"text; or label"\na;b\n')
    assert (found.column, found.rows[0].text) == ("text; or label", "a;b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "text,a;b\none,2;3\n",
            "the columns can be divided at ',' and ';'. Use one of these marks only",
        ),
        (
            "text;label\na;b;c\n",
            "line 2: 3 columns, the header has 2. Quote fields with ';' in them.",
        ),
        ("sep=;\r\ntext;n\r\na;1\r\n", "line 1 is 'sep=;', a setting for Excel"),
        ('"sep=\t"\ntext\n', "Remove the line: the delimiter is found without it."),
        ("\ntext\na\n", "line 1 names no column. Write the names of the columns"),
        (f"text\na\n{'b' * 100_001}\n", "row 2: a text of 100,001 characters, 100,000"),
    ],
)  # fmt: skip
def test_tables_that_are_refused(read, content, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read(content)


def test_lines_that_are_too_long_or_blank(read):
    message = (
        "a.txt: line 2: a text of 6,000,000 characters, 100,000 are the most. Divide "
        "it into sentences, one a line."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        read("a\n" + "b " * 3_000_000, "a.txt")
    with pytest.raises(UserError, match=r"a.jsonl: line 2 is blank. Remove it: JSON"):
        read('{"text": "a"}\n\n{"text": "b"}\n', "a.jsonl")


def test_lines_end_with_newlines_only(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("one\u2028still one\x0cone\r\n\r\ntwo".encode())
    assert tables.read_texts(path) == ["one\u2028still one\x0cone", "", "two"]
    (tmp_path / "a.csv").write_text('text,b\n,1\n" ",2\n')
    with pytest.raises(UserError, match=r"a.csv: holds no text. Name a UTF-8 file"):
        tables.read_texts(tmp_path / "a.csv")
