"""BLEU, METEOR, and TER of paraphrases on hand-computed examples."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips import translation

pytest.importorskip("nltk")
pytest.importorskip("sacrebleu")


def thesaurus(word):
    return {"film": ["movie", "moving picture"]}.get(word, [])


@pytest.mark.parametrize(
    "prediction, reference, value",
    [
        # One run of 4: penalty 0.5 (1/4)^3.
        ("a b c d", "A b c d", 1 - 0.5 / 64),
        # 3 of 4 words, P = R = 3/4, in two runs: penalty 0.5 (2/3)^3.
        ("a b x d", "a b y d", 0.75 * (1 - 0.5 * 8 / 27)),
        # Recall has 9 times the weight: P = 1, R = 2/4, one run of 2.
        ("a b", "a b c d", 0.5 / (0.9 + 0.1 * 0.5) * (1 - 0.5 / 8)),
        ("movies run", "movie running", 1 - 0.5 / 8),
        ("x", "y", 0.0),
        ("", "y", 0.0),
    ],
)
def test_meteor(prediction, reference, value):
    found = translation.meteor(prediction, reference)
    assert found == pytest.approx(100 * value)


def test_meteor_with_synonyms():
    assert translation.meteor("film", "movie") == 0
    assert translation.meteor("film", "movie", thesaurus) == pytest.approx(50)
    # Without our stemmer, nltk would look up the stem of movies, not the word.
    assert translation.meteor(
        "films", "movies", lambda word: {"films": ["movie"]}[word]
    )
    # Synonyms of several words are ignored.
    assert translation.meteor("film", "moving picture", thesaurus) == 0


def test_ter_counts_shifts_as_one_edit():
    # A shift of one word among 4, then nothing of 2.
    assert translation.ter(["b a c d"], ["a b c d"]) == pytest.approx(25)
    found = translation.ter(["b a c d", "E f"], ["a b c d", "e f"])
    assert found == pytest.approx(100 / 6)


def test_all_scores():
    found = translation.paraphrase_scores(["a b c d"], ["a b c d"], thesaurus)
    assert list(found) == ["bleu_2", "meteor", "ter"]
    assert found["bleu_2"] == pytest.approx(100) and found["ter"] == 0
    stems = translation.paraphrase_scores(["a b c d"], ["a b c d"])
    assert list(stems) == ["bleu_2", "meteor_stems", "ter"]
    with pytest.raises(UserError, match="1 texts and 0 references"):
        translation.paraphrase_scores(["a"], [])
