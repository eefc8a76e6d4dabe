"""Response metrics, compared with other implementations."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.metrics import text

PREDICTIONS = [
    "i have two dogs and a cat .",
    "what do you do for a living ?",
    "i'm running, always running!",
    "hello",
    "i like the beach and i like the beach .",
]
REFERENCES = [
    "i've two big dogs and the cat .",
    "what do you do for fun ?",
    "i run all the time . you ?",
    "hi there",
    "i like to go to the beach with my dog .",
]


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("I'm an  Artist, in THE park!", "i m artist in park"),
        ("rock-and-roll & a_b", "rock and roll b"),
        ("theatre another anthem", "theatre another anthem"),
        ("caf\u00e9 \u2019s ok", "caf\u00e9 \u2019s ok"),
        ("the , a .", ""),
    ],
)
def test_normal_form(given_text, expected):
    assert text.normalise(given_text) == expected


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("i have two dogs", ["i have a cat"], 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)),
        ("no no no", ["no , no way"], 2 * (2 / 3) * (2 / 3) / (4 / 3)),
        ("yes", ["no"], 0.0),
        ("yes", ["no", "oh yes", "yes !"], 1.0),
        ("", ["no"], 0.0),
        ("the", ["a"], 0.0),
    ],
)
def test_f1(prediction, references, expected):
    assert text.f1(prediction, references) == pytest.approx(expected)


def nltk_bleu(prediction, references, n):
    bleu_score = pytest.importorskip("nltk.translate.bleu_score")
    return bleu_score.sentence_bleu(
        [text.normalise(one).split(" ") for one in references],
        text.normalise(prediction).split(" "),
        smoothing_function=bleu_score.SmoothingFunction(epsilon=1e-12).method1,
        weights=[1 / n] * n,
    )


_SENTENCES = st.lists(
    st.sampled_from(["i", "like", "dogs", "two", "a", "!", "the"]), max_size=9
).map(" ".join)


@given(_SENTENCES, st.lists(_SENTENCES, min_size=1, max_size=3), st.integers(1, 4))
def test_parlai_bleu_equals_nltk(prediction, references, n):
    expected = nltk_bleu(prediction, references, n)
    found = text.parlai_bleu(prediction, references, n)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-30)


def test_parlai_bleu_by_hand():
    # i like dogs | i like two dogs: 3/3 words, 1/2 pairs, shorter by a word.
    found = text.parlai_bleu("i like dogs", ["i like two dogs"], 2)
    assert found == pytest.approx(math.exp(1 - 4 / 3) * math.sqrt(1 / 2))
    assert text.parlai_bleu("cats", ["dogs"], 2) == 0.0


def corpus_bleu(predictions, references, n):
    """Papineni et al. (2002) over words separated by white space, without smoothing."""
    logs = []
    for order in range(1, n + 1):
        right = total = 0
        for prediction, reference in zip(predictions, references, strict=True):
            grams = [
                Counter(
                    tuple(words[i : i + order]) for i in range(len(words) - order + 1)
                )
                for words in (prediction.split(), reference.split())
            ]
            right += sum(min(count, grams[1][g]) for g, count in grams[0].items())
            total += sum(grams[0].values())
        logs.append(math.log(right / total))
    lengths = [sum(len(t.split()) for t in part) for part in (predictions, references)]
    return 100 * math.exp(min(0, 1 - lengths[1] / lengths[0]) + sum(logs) / n)


def test_sacrebleu_is_corpus_bleu():
    # Words and punctuation are separate, so both ways to tokenize agree.
    predictions = [PREDICTIONS[index] for index in (0, 1, 4)]
    references = ["i have two big dogs .", "what do you do for fun ?", REFERENCES[4]]
    for n in (2, 3, 4):
        found = text.sacrebleu_corpus(predictions, references, n)
        expected = corpus_bleu(predictions, references, n)
        assert found == pytest.approx(expected, abs=1e-6)
        assert expected > 20


def test_full_stops_behind_blanks_raise_no_warning(caplog):
    """sacrebleu takes 100 such texts for a mistake; Persona-Chat is written so."""
    answers = [f"i have {count} dogs ." for count in range(120)]
    with caplog.at_level("WARNING"):
        found = text.sacrebleu_corpus(answers, answers, 2)
    assert found == pytest.approx(100.0) and not caplog.records


def longest_common(left, right):
    if not left or not right:
        return 0
    if left[-1] == right[-1]:
        return 1 + longest_common(left[:-1], right[:-1])
    return max(longest_common(left[:-1], right), longest_common(left, right[:-1]))


def overlap(left, right, order):
    grams = [
        Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
        for words in (left, right)
    ]
    return sum((grams[0] & grams[1]).values()), *(sum(g.values()) for g in grams)


def test_rouge_by_another_computation():
    for prediction, reference in zip(PREDICTIONS[:2], REFERENCES[:2], strict=True):
        left, right = (text.normalise(t).split() for t in (prediction, reference))
        # No word here is both longer than three letters and changed by the stemmer,
        # except "living", which has no match.
        counts = {
            "rouge_1": overlap(left, right, 1),
            "rouge_2": overlap(left, right, 2),
            "rouge_l": (longest_common(left, right), len(left), len(right)),
        }
        found = text.rouge(prediction, reference)
        for name, (shared, mine, theirs) in counts.items():
            precision, recall = shared / mine, shared / theirs
            assert found[f"{name}_recall"] == pytest.approx(recall)
            assert found[name] == pytest.approx(
                2 * precision * recall / (precision + recall)
            )
            assert 0 < shared < mine


def test_rouge_compares_stems_and_no_articles():
    assert text.rouge("she walks the dogs", "a dog walked she")["rouge_1"] == 1.0


def test_all_scores_of_fixed_responses():
    found = text.response_scores(PREDICTIONS, REFERENCES)
    pairs = list(zip(PREDICTIONS, REFERENCES, strict=True))
    assert found["f1"] == pytest.approx(
        100 * sum(text.f1(a, [b]) for a, b in pairs) / 5
    )
    for n in (2, 3, 4):
        assert found[f"parlai_bleu_{n}"] == pytest.approx(
            20 * sum(nltk_bleu(a, [b], n) for a, b in pairs)
        )
    words = [
        ["i", "have", "two", "dogs", "and", "cat"],
        ["what", "do", "you", "do", "for", "living"],
        ["i", "m", "running", "always", "running"],
        ["hello"],
        ["i", "like", "beach", "and", "i", "like", "beach"],
    ]
    for n in range(1, 7):
        grams = [
            tuple(row[i : i + n]) for row in words for i in range(len(row) - n + 1)
        ]
        assert found[f"distinct_{n}"] == pytest.approx(
            100 * len(set(grams)) / len(grams)
        )
    assert found["distinct_1"] == pytest.approx(100 * 17 / 25)
    assert found["length"] == pytest.approx((8 + 8 + 4 + 1 + 10) / 5)
    assert set(found) == {
        "f1",
        "length",
        *(f"{name}_bleu_{n}" for name in ("parlai",) for n in (2, 3, 4)),
        *(f"sacrebleu_{n}" for n in (2, 3, 4)),
        *(f"distinct_{n}" for n in range(1, 7)),
        *(f"rouge_{n}{end}" for n in ("1", "2", "l") for end in ("", "_recall")),
    }


def test_equal_texts_are_perfect_and_nothing_scores_zero():
    perfect = text.response_scores(REFERENCES[:3], REFERENCES[:3])
    for name in ("f1", "parlai_bleu_4", "sacrebleu_4", "rouge_1", "rouge_2", "rouge_l"):
        assert perfect[name] == pytest.approx(100.0), name
    empty = text.response_scores(["", ""], ["hi there", "yes"])
    assert set(empty.values()) == {0.0}


def test_perplexities_by_hand():
    # Two references with 3 and 2 words; 5 and 4 tokens.
    found = text.perplexities([-10.0, -8.0], [5, 4], ["i like dogs", "me too"])
    assert found["perplexity"] == pytest.approx(math.exp(18 / 9))
    assert found["word_perplexity"] == pytest.approx(math.exp(18 / 7))
    assert text.perplexities([-1e6], [1], ["x"])["perplexity"] == math.inf
    # The perplexity of a broken model is NaN.
    found = text.perplexities([-10.0, math.nan], [5, 4], ["i like dogs", "me too"])
    assert all(math.isnan(value) for value in found.values())


@pytest.mark.parametrize(("predictions", "count"), [(["a"], 1), ([], 0)])
def test_as_many_references_as_responses(predictions, count):
    with pytest.raises(UserError, match=f"{count} responses and {2 * count} ref"):
        text.response_scores(predictions, ["b"] * (2 * count))


def test_missing_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rouge_score", None)
    with pytest.raises(
        UserError,
        match=r"is not installed. It comes with the extra 'nlp': run `make install",
    ):
        text.load_rouge()
