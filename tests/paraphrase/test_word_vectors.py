"""Word embeddings from a file or model for a model's tokens; inputs without prompts."""

import dataclasses
import json

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.paraphrase import decoder, run, word_vectors


@pytest.fixture(scope="module")
def model():
    return registry.load("random-tiny")


def places(model, word):
    return [i for i, x in enumerate(word_vectors.token_texts(model)) if x == word]


@pytest.mark.parametrize("first", ["", "3 2\n"])
def test_a_file_gives_vectors_by_word(model, tmp_path, first):
    path = tmp_path / "vectors.txt"
    path.write_text(first + "the 1 2\nbus -3 0.5\nzzzz 7 7\n", encoding="utf-8")
    table, digest = word_vectors.table(str(path), model)
    assert table.shape == (model.output_vocabulary.vocab_size, 2)
    assert places(model, "the") and places(model, "bus")
    for word, vector in (("the", [1, 2]), ("bus", [-3, 0.5])):
        assert table[places(model, word)].tolist() == [vector] * len(
            places(model, word)
        )
    others = set(range(len(table))) - {*places(model, "the"), *places(model, "bus")}
    assert not table[sorted(others)].any()
    path.write_text("the 1 2\nbus -3 0.75\n", encoding="utf-8")
    assert word_vectors.table(str(path), model)[1] != digest


def test_a_model_gives_its_own_table(model):
    table, _ = word_vectors.table("random-tiny", model)
    own = np.asarray(model.params["token_embedder"]["embedding"])
    (index,) = places(model, "the")[:1]
    tokens = model.input_vocabulary.encode(" the")
    np.testing.assert_allclose(table[index], own[tokens].mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\nbus 1\n", "line 2 holds 1 numbers after its word, 2 expected"),
        ("the one two\n", "line 1 holds 0 numbers after its word, at least one"),
        ("", "holds no vectors"),
        ("qqqq 1 2\n", "has none of the model's words"),
    ],
)
def test_wrong_files(model, tmp_path, text, message):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        word_vectors.table(str(path), model)


def test_neither_a_file_nor_a_model(model):
    with pytest.raises(
        UserError, match="embeddings=nothing: is neither a file nor a model"
    ):
        word_vectors.table("nothing", model)


def test_vectors_decide_and_are_part_of_a_run(tmp_path, small_world):
    lines, vectors = tmp_path / "lines.txt", tmp_path / "vectors.txt"
    lines.write_text("find a hotel\ncity where the bus leaves\n", encoding="utf-8")
    vectors.write_text("the 1 2\nbus -3 0.5\n", encoding="utf-8")
    mu = (0.0, 1.0, 0.0, 0.0)

    def outputs(name, **options):
        out = tmp_path / f"{name}.jsonl"
        run.paraphrase(
            lines, out, model="random-tiny", sampler="dips", num=3, max_length=6,
            options={"mode": "step", "mu": mu, "lam": 1.0, **options},
        )  # fmt: skip
        return [json.loads(x) for x in out.read_text("utf-8").splitlines()]

    own, given = outputs("own"), outputs("given", embeddings=str(vectors))
    assert [x["output"] for x in own] != [x["output"] for x in given]
    # Other vectors under the same name are another run.
    vectors.write_text("the 1 2\nbus 3 0.5\n", encoding="utf-8")
    with pytest.raises(UserError):
        outputs("given", embeddings=str(vectors))


def test_the_prompt_is_not_part_of_the_source(model):
    asked = dataclasses.replace(
        model, prompt=lambda text: f"find : {text} bus", first=(5,)
    )
    inputs = np.array([[*asked.encode("the hotel"), 0, 0]])
    words = model.input_vocabulary.encode("the hotel")
    found = np.asarray(decoder.sources_of(asked, inputs))[0]
    assert found[: len(words)].tolist() == words and not found[len(words) :].any()
    plain = np.array([[*model.encode("the hotel"), 0]])
    assert (
        np.asarray(decoder.sources_of(model, plain))[0, : len(words)].tolist() == words
    )
