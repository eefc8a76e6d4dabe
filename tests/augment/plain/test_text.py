"""`jaxaug augment text`: input, changes, output, and errors."""

import csv
import io
import json
import re
import textwrap
import zlib

import numpy as np
import pytest

from jaxaug.augment import arguments
from jaxaug.augment.arguments import Text
from jaxaug.augment.plain import text
from jaxaug.augment.schemes import registry, sentences
from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Shards
from jaxaug.data import tables
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.generation import Paraphraser, Setting
from tests.test_architecture import ROOT

LINES = ["I want to find a cheap hotel in Oakland.", "", "Book a table for 3, please."]
TABLE = [
    ["id", "text", "note"],
    ["1", "Find me a nice restaurant,\r\nplease", "x,y"],
    ["2", "", 'a "b"'],
    ["3", "I need a ride to the airport", ""],
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def _file(name, content):
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(content)
    return name


def _lines(name="in.txt"):
    return _file(name, "".join(f"{line}\n" for line in LINES))


def _csv(name="in.csv", delimiter=",", newline="\r\n", mark="\ufeff"):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(TABLE)
    return _file(name, mark + file.getvalue())


def _augment(*words):
    return main(["augment", "text", *map(str, words)])


def _content(name):
    with open(name, "rb") as file:
        return file.read()


def _noisy(name, text_, *seed, **options):
    rng = np.random.default_rng([*seed])
    return sentences.METHODS[name](text_, rng, **options)


def test_the_help_names_every_scheme(capsys):
    assert list(arguments.SCHEMES) == [*sentences.METHODS, *sentences.MODEL_SCHEMES]
    with pytest.raises(SystemExit):
        main(["augment", "text", "--help"])
    shown = capsys.readouterr().out
    for name, what in arguments.SCHEMES.items():
        assert re.search(rf"^  {name} +{re.escape(what)}$", shown, re.MULTILINE)


def test_lines_to_lines_through_a_chain(capsys):
    _lines()
    call = ["--scheme", "eda,typos", "--option", "rate=0.5", "--in", "in.txt"]
    assert _augment(*call, "--seed", 3, "--out", "out.txt") == 0
    assert capsys.readouterr().out == (
        "2 of 3 outputs differ from their text; wrote out.txt\n"
    )
    # (seed, place in the chain, row, number): by hand.
    expected = [
        _noisy("typos", _noisy("eda", line, 3, 0, row, 0), 3, 1, row, 0, rate=0.5)
        if line
        else ""
        for row, line in enumerate(LINES)
    ]
    assert _content("out.txt").decode() == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize(
    "scheme", ["eda", "token_substitution", "pervasive_dropout", "switch_out"]
)
def test_outputs_without_an_edit_keep_every_byte_and_do_not_count(scheme, capsys):
    content = "  12  ?\r\n\r\nXyzzy\t12 ! \r\n"
    _file("in.txt", content)
    rates = {"pervasive_dropout": ["rate=0"], "switch_out": ["rate=0"]}
    options = rates.get(scheme, ["replace=1", "insert=0", "swap=0", "delete=0"])
    options = [] if scheme == "token_substitution" else ["--option", *options]
    call = ["--scheme", scheme, *options, "--in", "in.txt", "--out", "out.txt"]
    assert _augment(*call) == 0
    assert capsys.readouterr().out == (
        "0 of 3 outputs differ from their text; wrote out.txt\n"
    )
    assert _content("out.txt").decode() == content


def test_a_model_output_that_differs_in_white_space_alone_is_the_text(
    monkeypatch, tmp_path
):
    def made(name, seed, options):
        def run(texts):
            return [[" ".join(text.split()).replace(" ?", "?")] for text in texts]

        return [registry.Job(name, lambda: [name], run, 1)]

    monkeypatch.setattr(text.registry, "made", made)
    texts = ["where is  peru ?", "Where"]
    steps = [text.Step("contextual", {})]
    assert text.apply(steps, texts, 1, 0, Shards(tmp_path / "shards")) == [
        ["where is  peru ?"],
        ["Where"],
    ]


def test_several_outputs_of_lines_are_records():
    _lines()
    call = ["--scheme", "typos,disfluency", "--option", "typos.rate=0.5", "--num", 2]
    assert _augment(*call, "--in", "in.txt", "--out", "out.jsonl") == 0
    records = [json.loads(line) for line in _content("out.jsonl").decode().splitlines()]
    assert [(r["source_row"], r["number"]) for r in records] == [
        (1, 1), (1, 2), (2, 1), (3, 1), (3, 2),
    ]  # fmt: skip
    assert {r["scheme"] for r in records} == {"typos,disfluency"}
    assert [r["input"] for r in records] == [LINES[i] for i in (0, 0, 1, 2, 2)]
    assert records[2]["output"] == ""
    typed = _noisy("typos", LINES[2], 0, 0, 2, 1, rate=0.5)
    assert records[4]["output"] == _noisy("disfluency", typed, 0, 1, 2, 1)
    assert records[3]["output"] != records[4]["output"]


@pytest.mark.parametrize(
    ("suffix", "options"),
    [("csv", {}), ("tsv", {"delimiter": "\t", "newline": "\n", "mark": ""})],
)
def test_a_table_keeps_all_but_its_texts(suffix, options):
    _csv(f"in.{suffix}", **options)
    call = ["--scheme", "typos", "--option", "rate=1", "--in", f"in.{suffix}"]
    assert _augment(*call, "--column", "text", "--out", f"out.{suffix}") == 0
    content = _content(f"out.{suffix}").decode()
    assert content.startswith("\ufeff") == (suffix == "csv")
    assert content.count("\r\n") == (5 if suffix == "csv" else 1)
    rows = list(
        csv.reader(
            io.StringIO(content.removeprefix("\ufeff"), newline=""),
            delimiter=options.get("delimiter", ","),
        )
    )
    assert rows[0] == ["id", "text", "note", "source_row", "scheme"]
    for number, (old, new) in enumerate(zip(TABLE[1:], rows[1:], strict=True), 1):
        wanted = _noisy("typos", old[1], 0, 0, number - 1, 0, rate=1.0)
        assert new == [old[0], wanted, old[2], str(number), "typos"]
        assert (wanted != old[1]) == bool(old[1])
        assert wanted.count("\r\n") == old[1].count("\r\n")


def test_json_lines_keep_their_fields():
    rows = [
        {"id": 1, "text": "Find me a hotel", "tags": ["a", {"b": 1.5}], "ü": None},
        {"text": None, "id": 2},
        {"text": "", "id": 3},
    ]
    _file("in.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    call = ["--scheme", "typos", "--option", "rate=1", "--num", 2, "--in", "in.jsonl"]
    assert _augment(*call, "--out", "out.jsonl") == 0
    found = [json.loads(line) for line in _content("out.jsonl").decode().splitlines()]
    assert [(r["source_row"], r["number"]) for r in found] == [
        (1, 1), (1, 2), (2, 1), (3, 1),
    ]  # fmt: skip
    for record in found:
        source = rows[record["source_row"] - 1]
        assert {k: v for k, v in record.items() if k in source and k != "text"} == {
            k: v for k, v in source.items() if k != "text"
        }
        assert bool(record["text"]) == bool(source["text"])
        assert record["scheme"] == "typos"
    assert found[2]["text"] is None and found[3]["text"] == ""


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffFind me a hotel\n"))
    assert _augment("--scheme", "eda", "--in", "-", "--out", "out.txt") == 0
    noisy = _noisy("eda", "Find me a hotel", 0, 0, 0, 0)
    assert _content("out.txt").decode() == f"\ufeff{noisy}\n"


def test_a_second_call_does_nothing_and_another_is_refused(capsys):
    _lines()
    call = ["--scheme", "eda", "--in", "in.txt", "--out", "out.txt"]
    assert _augment(*call) == 0
    before = _content("out.txt")
    capsys.readouterr()
    assert _augment(*call) == 0
    assert capsys.readouterr().out == "out.txt is complete: nothing to do\n"
    message = (
        "jaxaug: error: --out out.txt: exists, and is not the output of this call. "
        "Choose another file, or remove it.\n"
    )
    assert _augment(*call, "--seed", 1) == 1
    assert capsys.readouterr().err == message
    assert _augment(*call[:3], "out.txt", *call[4:]) == 1  # The input itself.
    assert capsys.readouterr().err == message
    assert _content("out.txt") == before
    _file("out.txt", "mine\n")
    assert _augment(*call) == 1
    assert capsys.readouterr().err == message
    assert _content("out.txt") == b"mine\n"


class _Model:
    """Replaces a scheme with a model; its outputs contain the request."""

    def __init__(self):
        self.calls = []

    def made(self, name, seed, options):
        def run(texts):
            self.calls.append(list(texts))
            few = [t for t in texts if "one" in t]
            return [
                []
                if "none" in t
                else [f"{t}/{seed}/{i}" for i in range(1 if t in few else num)]
                for t in texts
            ]

        num = options["num"]
        return [registry.Job(name, lambda: [name, seed, num], run, num)]


def test_models_process_distinct_texts_and_cache_outputs(monkeypatch, tmp_path):
    model = _Model()
    monkeypatch.setattr(text.registry, "made", model.made)
    step = text.Step("contextual", {})
    shards = Shards(tmp_path / "shards")
    texts = ["a", "", "one", "a", "none"]
    found = text.apply([step], texts, 2, 5, shards)
    pair = ["a/5/0", "a/5/1"]
    assert found == [pair, [""], ["one/5/0"], pair, ["none"]]
    assert model.calls == [["a", "one", "none"]]
    assert text.apply([step], texts, 2, 5, Shards(tmp_path / "shards")) == found
    assert len(model.calls) == 1
    # After another scheme, each number draws independently.
    copy = text.Step("typos", {"rate": 0.0})
    found = text.apply([copy, step], ["a", "", "none"], 2, 5, shards)
    seeds = [zlib.crc32(f"5 1 {number}".encode()) for number in (0, 1)]
    assert found == [[f"a/{seed}/0" for seed in seeds], [""], ["none"] * 2]


def test_a_paraphraser_and_a_language_model(tiny_lm):
    _lines()
    options = ["k=20", "max_length=6", "prompt=plain", "min_length=4"]
    call = ["--scheme", "paraphrase", "--model", tiny_lm, "--sampler", "top_k_top_p"]
    call += ["--num", 2, "--option", *options, "--in", "in.txt"]
    assert _augment(*call, "--seed", 4, "--out", "o.jsonl") == 0
    records = [json.loads(line) for line in _content("o.jsonl").decode().splitlines()]
    sampler = samplers.find("top_k_top_p")
    given = sampler.complete({"k": 20, "min_length": 4})
    setting = Setting(str(tiny_lm), "top_k_top_p", 2, given, "plain", 6)
    expected = dict(zip(LINES[::2], Paraphraser(4)(setting, LINES[::2]), strict=True))
    # The outputs for the last line lack its number, so the line stays.
    assert not any("3" in output for output in expected[LINES[2]])
    assert [r["output"] for r in records] == [*expected[LINES[0]], "", LINES[2]]
    assert len({r["output"] for r in records}) == 4
    (contextual,) = text.steps(["contextual"], ["rate=1"], str(tiny_lm))
    assert contextual.options == {"rate": 1.0, "model": str(tiny_lm)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--scheme typoos", "--scheme typoos: no such scheme; did you mean 'typos'?"),
        ("--scheme eda,eda", "--scheme: 'eda' comes twice. Name it once."),
        ("--scheme given", "--scheme given: no such scheme; known: "),
        ("--scheme eda --num 0", "--num is 0: give a whole number from 1"),
        ("--scheme eda --option swap", "--option swap: write it as name=value."),
        ("--scheme eda --option rate=1", "--option rate=1: eda has no option 'rate'"),
        ("--scheme eda --option num=1", "eda has no option 'num'; known: delete"),
        ("--scheme eda --option x.swap=1", "'x' is not a scheme of this chain; known"),
        ("--scheme eda --option swap=1 swap=0", "'swap' comes twice: give it"),
        ("--scheme eda --option swap=lots", "scheme 'eda': swap='lots': expected a"),
        ("--scheme eda --option swap=7", "swap=7.0: expected a finite number from 0"),
        (
            "--scheme typos,disfluency --option rate=1",
            "--option rate=1: typos and disfluency have it. Write typos.rate=1.",
        ),
        ("--scheme paraphrase", "--model and --sampler are missing, such as --model"),
        ("--scheme eda --model x", "--model x: only paraphrase and contextual"),
        ("--scheme eda --sampler x", "--sampler x: only paraphrase has one."),
        (
            "--scheme paraphrase --model smollm2 --sampler top_k",
            "'top_k' is not a sampler; did you mean 'top_k_top_p'",
        ),
        (
            "--scheme paraphrase --model nobody --sampler greedy --option min_length=x",
            "sampler 'greedy': option: min_length='x': expected a whole number",
        ),
        (
            "--scheme contextual --model hf:me/mine",
            "hf:me/mine is not on this machine. Get it with `jaxaug models fetch hf:",
        ),
        ("--scheme backtranslate", "model 'marian-en-zh' is not on this machine"),
        ("--scheme eda --column text", "--column text: in.txt is lines of text."),
        ("--scheme eda --out out.csv", "--out out.csv: lines are written, as the"),
    ],
)  # fmt: skip
def test_wrong_arguments(words, message, capsys):
    _lines()
    out = [] if "--out" in words else ["--out", "out.txt"]
    assert _augment("--in", "in.txt", *words.split(), *out) == 1
    error = capsys.readouterr().err
    assert error.startswith("jaxaug: error: ") and message in error


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.csv", "id,text\n1,a\n", "txt", "no column 'txt'; did you mean 'text'?"),
        ("a.csv", "id,said\n1,a\n", None, "the texts with --column: 'id', 'said'."),
        ("a.csv", "text,b\n1\n", None, "a.csv: line 2: 1 columns, the header has 2."),
        ("a.csv", 'text,b\n"a"b,c\n', None, "line 2: ',' expected after '\"'."),
        ("a.csv", "text,text\n", None, "a.csv: two columns are called 'text'."),
        ("a.csv", "text,scheme\na,b\n", None, "a.csv: there is a column 'scheme'"),
        ("a.jsonl", '{"text": 1}\n', None, "line 1: 'text' is 1, expected a text"),
        ("a.jsonl", "[]\n", None, "a.jsonl: line 1: [] is no object."),
        ("a.jsonl", '{"text": "a"\n', None, "a.jsonl: line 1: truncated JSON"),
        ("a.jsonl", '{"text":"a"}\n{"b":""}', None, "line 2: no column 'text'"),
        ("a.json", "[]", None, "a.json: one JSON text is no table of texts."),
        ("a.txt", " \n", None, "a.txt: holds no text. Name a UTF-8 file with --in"),
        ("b.txt", None, None, "b.txt: no such file. Name a UTF-8 file with --in"),
    ],
)  # fmt: skip
def test_wrong_files(name, content, column, message):
    if content is not None:
        _file(name, content)
    with pytest.raises(UserError, match=re.escape(message)):
        given = Text(input=name, out="out", scheme="eda", column=column)
        text.augment_text(given, text.steps(["eda"]))


def test_the_page_shows_the_output_of_its_commands():
    page = (ROOT / "docs/any_text.md").read_text(encoding="utf-8")
    part = page[page.index("## Lines and tables") : page.index("## Users who")]
    blocks = [
        textwrap.dedent(found)
        for found in re.findall(r"(?<=\n\n)((?:    .*\n)+)", part)
    ]
    eda, lines, out, noise, table = blocks
    _file("lines.txt", lines)
    content = 'id,said\n7,"I need a ride to the airport, please"\n8,\n9,'
    _file("said.csv", f"{content}What time does the museum open?\n")
    for command in (eda, noise):
        assert main(command.split()[1:]) == 0
    assert _content("out.txt").decode() == out
    assert _content("out.csv").decode() == table


def test_one_column_of_empty_texts_and_line_breaks():
    _file("a.csv", "said\nhello there\n\n")
    found = tables.read("a.csv")
    assert [row.text for row in found.rows] == ["hello there", ""]
    assert tables.written(found, [["x\ny"], [""]], "eda", 1) == (
        'said,source_row,scheme\n"x\ny",1,eda\n,2,eda\n'
    )
    lines = tables.Table("lines", [tables.Row("a", None)])
    with pytest.raises(
        UserError, match="line 1: eda gave a text with a line break, 'x"
    ):
        tables.written(lines, [["x\ny"]], "eda", 1)
