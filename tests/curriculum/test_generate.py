"""`jaxaug levels`, with a scripted paraphraser and scripted scorers."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Shards
from jaxaug.curriculum import difficulty, generate, levels
from jaxaug.curriculum import options as measures
from jaxaug.curriculum import options as of_levels
from jaxaug.curriculum.options import Scorers
from jaxaug.paraphrase import generation, version
from tests.support.numbered import OPTIONS, Paraphraser, by_number, flat


@pytest.fixture(autouse=True)
def no_models(monkeypatch):
    """Hides the models of this machine."""
    identity = generation.identity
    names = ("smollm2", "minilm")
    monkeypatch.setattr(
        generation, "identity", lambda name: name if name in names else identity(name)
    )
    monkeypatch.setattr(measures, "identity", lambda name: name)


@pytest.fixture
def made(tmp_path):
    """Makes the levels of texts; returns (levels, summary)."""

    def make(texts, paraphrase=None, scorers=None, **changes):
        return generate.make(
            texts,
            dataclasses.replace(OPTIONS, **changes),
            paraphrase or Paraphraser(),
            scorers or Scorers(by_number),
            Shards(tmp_path / "shards", 2),
        )

    return make


def test_twenty_of_the_candidates_make_five_levels_of_four(made):
    paraphrase = Paraphraser()
    (item,), summary = made(["a"], paraphrase)
    assert paraphrase.calls == [("bottom_k", 12, 1), ("top_k_top_p", 48, 1)]
    assert [len(texts) for texts in item.levels] == [1, 4, 4, 4, 4, 4]
    scores = by_number([("a", text) for text in flat(item)])
    assert list(scores) == sorted(scores, reverse=True)
    # The kept outputs are drawn at random, not the best or the first.
    assert scores[0] - scores[-1] > 0.2
    # The numbers of the paper: 4 of bottom-k, 16 of top-k with top-p.
    assert sorted(text[2] for text in flat(item)) == [*"bbbb", *"t" * 16]
    # 0.98, 0.96 ... 0.50 are 25 of 48.
    assert summary == (
        "20 paraphrases of 1 texts in 5 levels.\n"
        "bottom_k: of 12 outputs 12 are new, 12 (100 %) of which passed the filter; 4 "
        "are kept, 4 are the quota.\n"
        "top_k_top_p: of 48 outputs 48 are new, 25 (52 %) of which passed the filter; "
        "16 are kept, 16 are the quota.\n"
        "Filter: no model of implication (`jaxaug models fetch roberta-mi` gets the "
        "paper's), so similarity (auto) alone, 0.5 or more: 37 (62 %) passed.\n"
        "0 texts have fewer than 20 (more --rounds or --oversample give more); 0 have "
        "an empty level, which falls back to the next easier one; 0 have none and "
        "stand for themselves."
    )


@pytest.mark.parametrize(
    "quota",
    [
        {"bottom_k": 2, "top_k_top_p": 18},
        {"top_k_top_p": 20},
        {"sampling": 20},
        {"sampling": 4, "top_k_top_p": 16},
        {"bottom_k": 0, "top_k_top_p": 7},
    ],
)
def test_each_sampler_gives_exactly_its_quota(made, quota):
    paraphrase = Paraphraser()
    (item,), _ = made(["a"], paraphrase, quota=quota, beta=None)
    letters = [text[2] for text in flat(item)]
    assert {name: letters.count(name[0]) for name in quota} == quota
    assert paraphrase.calls == [(name, 3 * n, 1) for name, n in quota.items() if n]


def test_texts_are_repeated_until_their_quotas_are_full(made):
    """One output in ten of `a` passes with bottom-k, and every output of `b`."""
    scorers = Scorers(
        by_number,
        lambda pairs: np.array(
            [p[0] == "b" or "t" in p[1] or p[1][-1] == "0" for p in pairs]
        ),
    )
    paraphrase = Paraphraser()
    found, summary = made(["a", "b"], paraphrase, scorers=scorers, beta=2.0)
    # `a` lacks 2 outputs, then 1; three times as many are asked, up to a power of two.
    assert paraphrase.calls == [
        ("bottom_k", 12, 2),
        ("top_k_top_p", 48, 2),
        ("bottom_k", 8, 1),
        ("bottom_k", 4, 1),
    ]
    bottom = [[text for text in flat(item) if text[2] == "b"] for item in found]
    assert sorted(bottom[0]) == ["a b0", "a b10", "a b100", "a b200"]
    assert len(bottom[1]) == 4 and {int(text[3:]) for text in bottom[1]} <= set(
        range(12)
    )
    assert [len(flat(item)) for item in found] == [20, 20]
    assert "bottom_k: of 36 outputs 36 are new, 16 (44 %) of which passed" in summary
    assert "top_k_top_p: of 96 outputs 96 are new, 96 (100 %) of which" in summary


def test_a_quota_that_cannot_be_filled_is_reported(made):
    none_of_bottom = Scorers(
        by_number, lambda pairs: np.array(["t" in t for _, t in pairs])
    )
    (item,), summary = made(["a"], scorers=none_of_bottom, beta=2.0, rounds=2)
    # Outputs of top-k with top-p do not fill the quota of bottom-k.
    assert len(flat(item)) == 16
    assert "bottom_k: of 24 outputs 24 are new, 0 (0 %) of which passed" in summary
    assert "\n1 texts have fewer than 20 (" in summary


def test_outputs_neither_similar_nor_implied_are_left_out(made):
    scorers = Scorers(
        by_number, lambda pairs: np.array([t.endswith("14") for _, t in pairs])
    )
    quota = {"bottom_k": 8, "top_k_top_p": 8}
    options = {"beta": 0.95, "implication": "roberta-mi", "rounds": 1}
    (item,), summary = made(["a"], scorers=scorers, quota=quota, **options)
    assert sorted(flat(item)) == [
        f"a {letter}{number}" for letter in "bt" for number in (0, 1, 14)
    ]
    assert (
        "Filter: roberta-mi says implied both ways of 2 (4 %); similarity (auto) 0.95 "
        "or more let 4 (8 %) more pass."
    ) in summary


def test_hard_outputs_stay_without_an_entailment_model():
    """A minimum similarity of 0.5 alone would drop the hard outputs of bottom-k."""
    options = generate.resolved(generate.Options(model="smollm2", similarity="minilm"))
    assert (options.implication, options.beta) == ("none", 0.2)
    options = generate.resolved(
        generate.Options(model="smollm2", similarity="bleurt-20")
    )
    assert options.beta is None
    asked = generate.Options(model="smollm2", similarity="minilm", implication="mine")
    assert generate.resolved(asked).beta == 0.8
    asked = dataclasses.replace(asked, beta=0.1)
    assert generate.resolved(asked) == asked


@pytest.mark.parametrize(
    "here, similarity, beta",
    [
        (("bleurt-base-128", "bleurt-20", "minilm"), "bleurt-base-128", 0.5),
        (("bleurt-20", "minilm"), "bleurt-20", 0.7),
        (("minilm",), "minilm", 0.8),
    ],
)
def test_learned_filters_are_the_default_if_present(
    here, similarity, beta, monkeypatch
):
    """The scorer has the scale of the released scores; each has its threshold."""

    def find(name):
        return type("Named", (), {"on_disk": name in (*here, "roberta-mi")})

    monkeypatch.setattr(of_levels.catalogue, "find", find)
    options = generate.resolved(generate.Options(model="smollm2"))
    assert (options.similarity, options.implication) == (similarity, "roberta-mi")
    assert options.beta == beta


@pytest.mark.parametrize(
    "similarity, beta, message",
    [
        ("bleurt-20", -0.1, r"is BLEURT-20, from 0\.0 to 1\.0\. Give .* default, 0\.7"),
        ("bleurt-20", 1.5,
         r"--beta is 1\.5, but the similarity bleurt-20 is BLEURT-20"),
        ("bleurt-base-128", -3.0,
         r"is an original BLEURT, from -2\.0 to 1\.1.*t, 0\.5"),
        ("bleurt-base-128", 1.2, r"is an original BLEURT, from -2\.0 to 1\.1"),
        ("minilm", 80.0, r"--beta is 80\.0, .* a cosine, from -1\.0 to 1\.0.*t, 0\.8"),
    ],
)  # fmt: skip
def test_a_threshold_outside_of_the_range_is_refused(similarity, beta, message):
    with pytest.raises(UserError, match=message):
        generate.resolved(
            generate.Options(model="smollm2", similarity=similarity, beta=beta)
        )


@pytest.mark.parametrize("similarity, beta", [("bleurt-20", 0.0), ("bleurt-tiny", -2)])
def test_the_ends_of_a_range_are_in_it(similarity, beta):
    options = generate.Options(model="smollm2", similarity=similarity, beta=beta)
    assert generate.resolved(options).beta == beta


def test_released_scores_are_on_the_scale_of_the_first_bleurt(real_data):
    scores = [
        one.similarity
        for path in sorted((real_data / "text/pcc").glob("aug_huff_train_s*.txt"))
        for items in levels.scored_huffpost(path).values()
        for one in items
    ]
    assert len(scores) == 40_855
    lowest, highest = min(scores), max(scores)
    assert (round(lowest, 2), round(highest, 2)) == (-1.70, 0.94)
    scale = difficulty.BLEURT_1
    assert scale.least < lowest < difficulty.BLEURT_20.least
    assert highest < scale.most


def test_copies_and_empty_outputs_are_no_paraphrases(made):
    outputs = ["A b", "", "a b", "x y", "X Y", "z"]
    found, summary = made(
        ["a b"],
        lambda number, setting, texts: [outputs[: setting.num] for _ in texts],
        Scorers(lambda pairs: np.linspace(0.9, 0.6, len(pairs))),
        quota={"top_k_top_p": 6},
        oversample=1,
    )
    assert found == [levels.Levelled("a b", (("a b",), (), (), ("x y",), (), ("z",)))]
    assert found[0].at(1) == found[0].at(2) == ("a b",)
    assert found[0].at(4) == ("x y",)
    # Two more rounds, of 4 each, repeat the same outputs, which are not new.
    assert "of 14 outputs 2 are new" in summary
    assert "\n1 texts have fewer than 6 (" in summary
    assert "1 have an empty level, which falls" in summary


def test_a_text_without_paraphrases_stands_for_itself(made):
    found, summary = made(["a", "b"], beta=2.0, rounds=1)
    assert [item.at(5) for item in found] == [("a",), ("b",)]
    assert "2 have none and stand for themselves" in summary


def test_levels_depend_neither_on_the_other_texts_nor_on_shards(made):
    alone = [made([text])[0][0] for text in "abc"]
    assert made(["c", "b", "a"])[0] == alone[::-1]


def run(tmp_path, *extra: str) -> int:
    (tmp_path / "in.txt").write_text("a\nb b\na\n")
    paths = [f"--in={tmp_path / 'in.txt'}", f"--out={tmp_path / 'out/levels.jsonl'}"]
    options = ["--quota", "bottom_k=4", "--max_length=6", "--similarity=minilm"]
    return cli.main(["levels", *paths, *options, "--implication=none", *extra])


def test_the_command_writes_a_file_once(tmp_path, tiny_lm, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    scorers = Scorers(lambda pairs: np.array([len(t) / 99 for _, t in pairs]))
    monkeypatch.setattr(measures, "load", lambda *names: scorers)
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
            f"jaxaug: error: {out}: has changed since it was written. Remove {out}, or "
            "name another --out.\n"
        )
    out.write_bytes(whole)
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    out.unlink()
    assert run(tmp_path, model, "--beta=0", "--levels=2") == 0
    assert out.read_bytes() == whole
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "levels.jsonl", "levels.jsonl.json",
    ]  # fmt: skip


def test_a_table_with_blank_texts_gives_the_levels_of_its_column(
    tmp_path, tiny_lm, monkeypatch
):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    scorers = Scorers(lambda pairs: np.array([len(t) / 99 for _, t in pairs]))
    monkeypatch.setattr(measures, "load", lambda *names: scorers)
    (tmp_path / "in.csv").write_text("said;label\na;1\n;2\nb b;3\na;1\n")
    extra = [f"--in={tmp_path / 'in.csv'}", "--column=said", f"--model={tiny_lm}"]
    assert run(tmp_path, *extra, "--beta=0", "--levels=2") == 0
    items = levels.read(tmp_path / "out" / "levels.jsonl")
    assert [item.text for item in items] == ["a", "b b"]


def test_foreign_notes_are_not_overwritten(tmp_path, tiny_lm, capsys):
    note = tmp_path / "out" / "levels.jsonl.json"
    note.parent.mkdir()
    note.write_text('{"mine": 1}')
    assert run(tmp_path, f"--model={tiny_lm}") == 1
    assert f"{note}: is no note of `jaxaug levels`. Name" in capsys.readouterr().err
    assert note.read_text() == '{"mine": 1}'


def test_places_of_others_are_left_alone(tmp_path, tiny_lm, monkeypatch, capsys):
    monkeypatch.setattr(generate, "make", None)  # A long run would have started.
    out = tmp_path / "out" / "levels.jsonl"
    out.parent.mkdir()
    out.write_text("mine")
    assert run(tmp_path, f"--model={tiny_lm}") == 1
    assert capsys.readouterr().err == (
        f"jaxaug: error: {out}: is no file of `jaxaug levels`, because {out}.json is "
        "missing. Name another --out.\n"
    )
    assert out.read_text() == "mine"
    out.unlink()
    out.mkdir()
    assert run(tmp_path, f"--model={tiny_lm}") == 1
    assert f"{out}: cannot be written (is a folder). Name" in capsys.readouterr().err


def test_levels_of_another_model_are_refused(tmp_path, tiny_lm, monkeypatch, capsys):
    """A copy of a model is the same model; another one of its name is not."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    scorers = Scorers(lambda pairs: np.zeros(len(pairs)))
    monkeypatch.setattr(measures, "load", lambda *names: scorers)
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
        ("--quota=bottom_k", "--quota 'bottom_k': write each sampler once"),
        ("--quota=bottom_k=-1", "--quota 'bottom_k=-1': write each sampler once"),
        ("--quota=beam=4", "--quota: 'beam' gives no levels; "),
        ("--quota=bottom_k=0", "--quota: keeps nothing. Give numbers, such as bottom"),
        ("--top_p=7", "top_p"),
        ("--top_p=inf", "--top_p is inf: give a finite number"),
        ("--beta=nan", "--beta is nan: give a finite number"),
        ("--oversample=25000", "--num is 100000: the outputs of an input are decoded"),
        ("--in=nothing", "nothing: no such file"),
    ],
)
def test_wrong_arguments_end_in_one_line(tmp_path, capsys, flag, message):
    assert run(tmp_path, "--model=smollm2", flag) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
