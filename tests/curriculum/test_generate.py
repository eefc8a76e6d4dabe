"""`jaxaug levels`, with a paraphraser and scorers of our own."""

import dataclasses
import json
import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.shards import Shards
from jaxaug.curriculum import generate, levels
from jaxaug.paraphrase import generation, version
from jaxaug.paraphrase.generation import Setting

OPTIONS = generate.Options(model="smollm2", candidates=30, keep=20)


@pytest.fixture(autouse=True)
def no_models(monkeypatch):
    """Which models are on this machine does not matter here."""
    identity = generation.identity
    names = ("smollm2", "minilm")
    monkeypatch.setattr(
        generation, "identity", lambda name: name if name in names else identity(name)
    )
    monkeypatch.setattr(generate, "scorer_identity", lambda name: name)


class Paraphraser:
    """Output i of a text is `<text> <letter><i>`: b for bottom-k, else t."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, setting: Setting, texts: Sequence[str]) -> list[list[str]]:
        self.calls.append((setting.sampler, setting.num, len(texts)))
        letter = setting.sampler[0]
        return [[f"{t} {letter}{i}" for i in range(setting.num)] for t in texts]


def by_number(pairs: generate.Pairs) -> np.ndarray:
    """Output 0 is the most similar, 0.98; each one after it is 0.02 less similar."""
    return np.array([0.98 - 0.02 * int(text.split()[-1][1:]) for _, text in pairs])


@pytest.fixture
def made(tmp_path):
    """Makes the levels of texts: (levels, summary)."""

    def make(texts, paraphrase=None, scorers=None, **changes):
        return generate.make(
            texts,
            dataclasses.replace(OPTIONS, **changes),
            paraphrase or Paraphraser(),
            scorers or generate.Scorers(by_number),
            Shards(tmp_path / "shards", 2),
        )

    return make


def test_twenty_of_the_candidates_make_five_levels_of_four(made):
    paraphrase = Paraphraser()
    (item,), summary = made(["a"], paraphrase)
    assert paraphrase.calls == [("bottom_k", 15, 1), ("top_k_top_p", 15, 1)]
    assert [len(texts) for texts in item.levels] == [1, 4, 4, 4, 4, 4]
    flat = [text for level in item.levels[1:] for text in level]
    scores = by_number([("a", text) for text in flat])
    assert list(scores) == sorted(scores, reverse=True)
    # What is kept is drawn, not the best or the first.
    assert scores[0] - scores[-1] > 0.2
    assert {text[2] for text in flat} == {"b", "t"}
    assert "20 paraphrases of 1 texts in 5 levels, of 30 candidates" in summary


@pytest.mark.parametrize(
    ("share", "calls"),
    [(0.2, [("bottom_k", 6), ("top_k_top_p", 24)]), (1.0, [("bottom_k", 30)])],
)
def test_bottom_k_gives_its_share(made, share, calls):
    paraphrase = Paraphraser()
    made(["a"], paraphrase, bottom_share=share)
    assert [call[:2] for call in paraphrase.calls] == calls


def test_what_is_neither_similar_nor_implied_is_left_out(made):
    scorers = generate.Scorers(
        by_number, lambda pairs: np.array([t.endswith("14") for _, t in pairs])
    )
    (item,), _ = made(["a"], scorers=scorers, beta=0.95)
    assert sorted(text for level in item.levels[1:] for text in level) == [
        f"a {letter}{number}" for letter in "bt" for number in (0, 1, 14)
    ]


def test_copies_and_empty_outputs_are_no_paraphrases(made):
    outputs = ["A b", "", "a b", "x y", "X Y", "z"]
    found, summary = made(
        ["a b"],
        lambda setting, texts: [outputs[: setting.num] for _ in texts],
        generate.Scorers(lambda pairs: np.linspace(0.9, 0.6, len(pairs))),
        bottom_share=0.0,
        candidates=6,
    )
    assert found == [levels.Levelled("a b", (("a b",), (), (), ("x y",), (), ("z",)))]
    assert found[0].at(1) == found[0].at(2) == ("a b",)
    assert found[0].at(4) == ("x y",)
    assert "1 texts have fewer than 20; 1 have an empty level, which falls" in summary


def test_a_text_without_paraphrases_stands_for_itself(made):
    found, summary = made(["a", "b"], beta=2.0)
    assert [item.at(5) for item in found] == [("a",), ("b",)]
    assert "2 have none and stand for themselves" in summary


def test_levels_depend_neither_on_the_other_texts_nor_on_shards(made):
    alone = [made([text])[0][0] for text in "abc"]
    assert made(["c", "b", "a"])[0] == alone[::-1]


def test_a_stop_loses_one_shard(made):
    texts, whole = list("abcdef"), Paraphraser()

    class Stops(Paraphraser):
        def __call__(self, setting, texts):
            if len(self.calls) == 3:
                raise KeyboardInterrupt
            return super().__call__(setting, texts)

    stops = Stops()
    with pytest.raises(KeyboardInterrupt):
        made(texts, stops)
    assert len(stops.calls) == 3  # Both samplers of the first shard, one of the second.
    made(texts, whole)
    assert [call[2] for call in whole.calls] == [2, 2, 2, 2]
    again = Paraphraser()
    made(texts, again, beta=0.6)
    assert again.calls == []


def run(tmp_path, *extra: str) -> int:
    (tmp_path / "in.txt").write_text("a\nb b\na\n")
    paths = [
        f"--{name}={tmp_path / file}"
        for name, file in (("in", "in.txt"), ("out", "out/levels.jsonl"))
    ]
    return cli.main(
        [
            "levels",
            *paths,
            "--candidates=8",
            "--max_length=6",
            "--bottom_share=1",
            *extra,
        ]
    )


def test_the_command_writes_a_file_once(tmp_path, tiny_lm, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    scorers = generate.Scorers(lambda pairs: np.array([len(t) / 99 for _, t in pairs]))
    monkeypatch.setattr(generate, "load_scorers", lambda options: scorers)
    model = f"--model={tiny_lm}"
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    out = tmp_path / "out" / "levels.jsonl"
    items = levels.read(out)
    assert [item.text for item in items] == ["a", "b b"]
    assert all(len(item.levels) == 3 and item.levels[2] for item in items)
    assert "paraphrases of 2 texts in 2 levels" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "levels.jsonl.json").read_text())["beta"] == 0
    before = out.stat().st_mtime_ns
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    assert "is complete, nothing to do" in capsys.readouterr().out
    assert out.stat().st_mtime_ns == before
    assert run(tmp_path, model, "--beta=0.5", "--levels=2") == 1
    assert "was made with beta 0.0, this run has 0.5. Remove" in capsys.readouterr().err
    whole = out.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        flipped = bytes([whole[place] ^ 1])
        out.write_bytes(whole[:place] + flipped + whole[place + 1 :])
        assert run(tmp_path, model, "--beta=0", "--levels=2") == 1
        assert capsys.readouterr().err == (
            f"jaxaug: error: {out}: has changed since it was written. Remove {out}, or name "
            "another --out.\n"
        )
    out.write_bytes(whole)
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    out.unlink()
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    assert out.read_bytes() == whole
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "levels.jsonl", "levels.jsonl.json",
    ]  # fmt: skip


def test_a_note_of_something_else_is_not_overwritten(tmp_path, tiny_lm, capsys):
    note = tmp_path / "out" / "levels.jsonl.json"
    note.parent.mkdir()
    note.write_text('{"mine": 1}')
    assert run(tmp_path, f"--model={tiny_lm}") == 1
    assert f"{note}: is no note of `jaxaug levels`. Name" in capsys.readouterr().err
    assert note.read_text() == '{"mine": 1}'


def test_levels_of_another_model_are_refused(tmp_path, tiny_lm, monkeypatch, capsys):
    """A model is its weights: a copy is the same, another one of the name is not."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    scorers = generate.Scorers(lambda pairs: np.zeros(len(pairs)))
    monkeypatch.setattr(generate, "load_scorers", lambda options: scorers)
    first, copy = tmp_path / "model", tmp_path / "copy"
    shutil.copytree(tiny_lm, first)
    shutil.copytree(tiny_lm, copy)
    assert run(tmp_path, f"--model={first}") == 0
    assert run(tmp_path, f"--model={copy}") == 0
    assert "is complete, nothing to do" in capsys.readouterr().out
    config = json.loads((first / "config.json").read_text())
    (first / "config.json").write_text(json.dumps(config | {"rope_theta": 7.0}))
    assert run(tmp_path, f"--model={first}") == 1
    assert "levels.jsonl: was made with models {" in capsys.readouterr().err
    monkeypatch.setattr(version, "of_outputs", lambda: "other")
    assert run(tmp_path, f"--model={copy}") == 1
    assert "levels.jsonl: was made with code " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--keep=0", "--keep is 0: give at least 1"),
        ("--bottom_share=1.5", "--bottom_share is 1.5: it is the share of bottom-k"),
        ("--top_p=7", "top_p"),
        ("--top_p=inf", "option then_p=inf: expected a number such as 0.95"),
        ("--beta=nan", "--beta is nan: give a finite number"),
        ("--seed=-1", "--seed is -1: give a whole number from 0 to 4294967295"),
        ("--seed=9223372036854775808", "--seed is 9223372036854775808: give a whole"),
        ("--candidates=100000", "--num is 100000: the outputs of an input are decoded"),
        ("--in=nothing", "nothing: no such file"),
    ],
)
def test_wrong_arguments_end_in_one_line(tmp_path, capsys, flag, message):
    assert run(tmp_path, "--model=smollm2", flag) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
