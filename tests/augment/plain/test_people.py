"""`jaxaug paraphrase` without a sampler or prompt, and `jaxaug.paraphrase`."""

import csv
import io
import json

import pytest

import jaxaug
from jaxaug import cli
from jaxaug.augment.plain import people, wordings
from jaxaug.augment.schemes import registry
from jaxaug.core.errors import UserError
from jaxaug.models.endpoint import asking
from tests.support import chat_server

TEXT = "The app crashes when I open the settings."
FRONTED = "When I open the settings, the app crashes."
MADE = registry.made
WRONG = "The app crashes when you open the settings."


@pytest.fixture
def drawn(tmp_path, monkeypatch, judge_network):
    """Returns outputs of the model by text, and the texts of each call."""
    outputs, calls = {}, []

    def made(scheme, seed, options):
        (block,) = options.get("grid", [options])

        again = "temperature" in block

        def run(texts):
            if not again:
                calls.append((block["max_length"], list(texts)))
            if "stop" in texts:
                raise KeyboardInterrupt
            return [outputs.get((again, text), outputs.get(text, [])) for text in texts]

        return [registry.Job(scheme, lambda: [seed, block], run, block["num"])]

    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(people.registry, "made", made)
    return outputs, calls


def test_rules_and_a_model_write_and_the_filter_keeps(drawn):
    outputs, _ = drawn
    outputs["My dog is ill."] = ["My dog is sick", "my dog is fine.", "My dog is sick."]
    outputs[TEXT] = [TEXT, WRONG, "  an app crashes when I open settings"]
    assert jaxaug.paraphrase([TEXT, "", "My dog is ill.", "Anna met Ben."]) == [
        [FRONTED], [], ["My dog is sick."], [],
    ]  # fmt: skip
    assert jaxaug.paraphrase([TEXT], filter="light") == [[FRONTED]]
    # Each differs from the text; the rule-based output is no longer preferred.
    found = jaxaug.paraphrase([TEXT], filter="off")[0]
    assert sorted(found) == sorted(
        [FRONTED, WRONG, "An app crashes when I open settings."]
    )


def test_texts_without_a_paraphrase_get_other_draws(drawn):
    outputs, _ = drawn
    outputs["My dog is ill."] = ["My cat is ill."]
    outputs[True, "My dog is ill."] = ["My dog is sick."]
    outputs["The kids sleep."] = ["The children sleep."]
    outputs[True, "The kids sleep."] = ["The kids are asleep."]
    assert jaxaug.paraphrase(["My dog is ill.", "The kids sleep."]) == [
        ["My dog is sick."], ["The children sleep."],
    ]  # fmt: skip


def test_the_best_come_first_each_unlike_those_before():
    kept = [["a b c d", 1, 1.0], ["a b c d e", 1, 0.9], ["x y z", 1, 0.5]]
    assert people._chosen(kept, 2) == ["a b c d", "x y z"]
    assert people._chosen(kept, 9) == ["a b c d", "x y z", "a b c d e"]


def test_a_table_keeps_its_columns_and_texts_without_paraphrase_have_no_row(
    drawn, tmp_path, capsys
):
    rows = [["id", "text"], ["7", TEXT], ["8", "Anna met Ben."], ["9", ""]]
    for suffix, mark in (("csv", ","), ("tsv", "\t")):
        source = tmp_path / f"in.{suffix}"
        with source.open("w", newline="") as file:
            csv.writer(file, delimiter=mark).writerows(rows)
        call = ["paraphrase", "--in", f"in.{suffix}", "--out", f"out.{suffix}"]
        assert cli.main(call) == 0
        assert capsys.readouterr().out == (
            f"1 paraphrases of 1 of 2 texts; wrote out.{suffix}\n1 texts have none: "
            "nothing passed the filter. A larger model (--model openai:NAME --endpoint "
            "URL) finds more.\n"
        )
        written = (tmp_path / f"out.{suffix}").read_text()
        assert list(csv.reader(io.StringIO(written), delimiter=mark)) == [
            ["id", "text", "source_row", "scheme", "number"],
            ["7", FRONTED, "1", "paraphrase", "1"],
            ["9", "", "3", "paraphrase", "1"],
        ]
        assert cli.main(call) == 0
        assert capsys.readouterr().out == f"out.{suffix} is complete: nothing to do\n"


def test_lines_and_json_lines(drawn, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TEXT}\nAnna met Ben.\n"))
    assert cli.main(["paraphrase", "--in", "-", "--num", "1"]) == 0
    said = capsys.readouterr()
    # Each line stays next to its text, and nothing else is on standard output.
    assert said.out == f"{FRONTED}\n\n" and "1 paraphrases of 1 of 2" in said.err
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": TEXT, "id": 3}) + "\n")
    assert cli.main(["paraphrase", "--in", "in.jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "text": FRONTED, "id": 3, "source_row": 1, "scheme": "paraphrase", "number": 1,
    }  # fmt: skip


def test_finished_work_is_kept_and_texts_have_room_by_length(drawn):
    _, calls = drawn
    texts = [*(f"I saw {n} cats." for n in range(5)), "stop"]
    with pytest.raises(KeyboardInterrupt):
        jaxaug.paraphrase(texts)
    assert [len(own) for _, own in calls] == [4, 2]
    calls.clear()
    jaxaug.paraphrase([*texts[:5], "x" * 101])
    assert calls == [(32, texts[4:5]), (96, ["x" * 101])]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--num 0", "--num is 0: give a whole number from 1"),
        ("--seed -1", "--seed is -1"),
        ("--filter strikt", "--filter is 'strikt': give"),
        ("--endpoint http://h/v1", "model 'rewording-paraphraser' runs on this"),
        ("--option k=2", "--option: needs --sampler or"),
        ("--shard 1/2", "--shard: needs --sampler or"),
        ("--dry_run", "--dry_run: model 'rewording-paraphraser' runs on this"),
        ("--sampler greedy", "--model is missing: a call with --sampler or --prompt"),
        ("--sampler greedy --model random-tiny", "--out is missing: a call"),
        ("--prompt plain --model random-tiny --out o --filter off",
         "--filter: outputs of a sampler or prompt are not filtered."),
    ],
)  # fmt: skip
def test_wrong_arguments(drawn, tmp_path, capsys, arguments, message):
    (tmp_path / "in.txt").write_text(TEXT)
    assert cli.main(["paraphrase", "--in", "in.txt", *arguments.split()]) == 1
    assert message in capsys.readouterr().err
    assert drawn[1] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "in.txt: holds no text."),
        (b"\n \n", "in.txt: holds no text."),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "in.txt"),
        (b"a\n" + b"word " * 2000, "text 2 has 10,000 characters; 300 is the maximum."),
    ],
)
def test_wrong_files(drawn, tmp_path, capsys, content, message):
    (tmp_path / "in.txt").write_bytes(content)
    assert cli.main(["paraphrase", "--in", "in.txt", "--out", "o"]) == 1
    said = capsys.readouterr().err
    assert message in said and said.startswith("jaxaug: error: ")
    assert drawn[1] == [] and not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one text"], "texts is 'one text': give a list (each item a text"),
        ([[1]], "texts is [1]: give a list (each item a text"),
        ([["a"], 0], "num is 0: give a whole number from 1"),
        ([["a"], "two"], "num is 'two': give a whole number from 1"),
    ],
)
def test_wrong_values_in_python(drawn, arguments, message):
    with pytest.raises(UserError) as error:
        people.paraphrase(*arguments)
    assert message in str(error.value)


def test_missing_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "in.txt").write_text(TEXT)
    assert cli.main(["paraphrase", "--in", str(tmp_path / "in.txt")]) == 1
    said = capsys.readouterr().err
    assert "jaxaug models fetch minilm" in said


def test_a_server_writes_them_too(drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(people.registry, "made", MADE)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(asking, "FIRST_WAIT", 0.01)
    with chat_server.running() as server:
        server.script = [
            json.dumps(
                {"paraphrases": [WRONG, "The app crashes when I open settings now."]}
            )
        ]
        (tmp_path / "in.txt").write_text(TEXT)
        call = ["paraphrase", "--in", str(tmp_path / "in.txt"), "--num", "2"]
        call += ["--model", "openai:tiny", "--endpoint", server.url]
        assert cli.main([*call, "--dry_run"]) == 0 and server.bodies == []
        assert "nothing was asked or written" in capsys.readouterr().out
        assert cli.main(call) == 0
        said = capsys.readouterr()
        found = [json.loads(line)["output"] for line in said.out.splitlines()]
        assert found == [FRONTED, "The app crashes when I open settings now."]
        assert "openai:tiny: 1 requests" in said.err
    asking.of.cache_clear()
    call[call.index(server.url)] = "http://127.0.0.1:9/v1"
    assert cli.main([*call, "--option", "retries=0"]) == 1
    assert "http://127.0.0.1:9/v1" in capsys.readouterr().err


def test_examples_of_the_docs_are_rewordings():
    assert FRONTED in [one.text for one in wordings.reword(TEXT)]
