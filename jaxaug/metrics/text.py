"""Scores of generated responses, as used in dialogue research.

All scores except perplexities are percentages. `DEFINITIONS` defines each name in one
line. Programs that report "BLEU-4" often mean different things, so both common
definitions have their own names here.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.metrics.diversity import distinct, load_sacrebleu, ngrams

BLEU_ORDERS = (2, 3, 4)
DISTINCT_ORDERS = (1, 2, 3, 4, 5, 6)
_ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}

DEFINITIONS: Mapping[str, str] = {
    "f1": "mean over responses of the harmonic mean of word precision and recall; "
    "words as ParlAI normalises them",
    "parlai_bleu_N": "mean over responses of sentence BLEU with n-grams up to N at "
    "equal weights, 1e-12 matches where there is none; words as ParlAI normalises them",
    "sacrebleu_N": "BLEU of the whole corpus with n-grams up to N by sacrebleu: 13a "
    "tokens, case counts, exponential smoothing",
    "rouge_1, rouge_2, rouge_l": "mean F-measure by rouge-score with Porter stems, "
    "of the texts as ParlAI normalises them",
    "rouge_..._recall": "the recall of the same, which is what ParlAI reports",
    "distinct_N": "different over all n-grams of all responses together; words as "
    "ParlAI normalises them",
    "perplexity": "exp of the mean negative log likelihood of a token of the "
    "references, their end included; depends on the vocabulary of the model",
    "word_perplexity": "the same likelihood, divided by the words of the references "
    "(separated by white space) and one end each; compares vocabularies",
}

# ParlAI replaces this punctuation with spaces, then these words.
_PUNCTUATION = re.compile(r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]""")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_EPSILON = 1e-12


def normalise(text: str) -> str:
    """Returns ParlAI's normal form: lower case, no punctuation, articles, or extra
    spaces.

    Punctuation becomes a space, so `i'm` is two words. (SQuAD's form of the same name
    removes punctuation.)
    """
    text = _PUNCTUATION.sub(" ", text.lower())
    return " ".join(_ARTICLES.sub(" ", text).split())


def f1(prediction: str, references: Sequence[str]) -> float:
    """Returns word F1 against the best of the references, 0 to 1."""
    return max(_word_f1(prediction, reference) for reference in references)


def _word_f1(prediction: str, reference: str) -> float:
    left, right = normalise(prediction).split(), normalise(reference).split()
    shared = sum((Counter(left) & Counter(right)).values())
    # 2 P R / (P + R), with P = shared / left and R = shared / right.
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def parlai_bleu(prediction: str, references: Sequence[str], n: int) -> float:
    """Returns ParlAI's sentence BLEU with n-grams up to `n`, 0 to 1.

    Papineni et al. (2002) on one sentence in ParlAI's normal form. An order without a
    match counts 1e-12 matches, and no shared word at all gives 0. If a text has fewer
    than `n` words, the longer n-grams count 1e-12 of 1, which makes the score small.
    """
    # In ParlAI an empty text is one empty word, which avoids a division by zero.
    words = normalise(prediction).split(" ")
    answers = [normalise(reference).split(" ") for reference in references]
    logs = []
    for order in range(1, n + 1):
        matches, total = _clipped_matches(words, answers, order)
        if order == 1 and not matches:
            return 0.0
        logs.append(math.log((matches or _EPSILON) / total))
    # The length of the nearest reference, the shorter one on ties.
    nearest = min((abs(len(one) - len(words)), len(one)) for one in answers)[1]
    penalty = min(0.0, 1.0 - nearest / len(words))
    return math.exp(penalty + sum(logs) / n)


def _clipped_matches(
    words: Sequence[str], answers: Sequence[Sequence[str]], order: int
) -> tuple[int, int]:
    counts = Counter(ngrams(words, order))
    most: Counter[tuple[str, ...]] = Counter()
    for answer in answers:
        most |= Counter(ngrams(answer, order))
    return sum((counts & most).values()), max(1, sum(counts.values()))


def sacrebleu_corpus(
    predictions: Sequence[str], references: Sequence[str], n: int
) -> float:
    """Returns corpus BLEU with n-grams up to `n`, 0 to 100; see `DEFINITIONS`."""
    # `force` avoids three lines of warning per score for texts with blanks before full
    # stops, such as Persona-Chat texts; the score is the same.
    scorer = load_sacrebleu().metrics.BLEU(max_ngram_order=n, force=True)
    return scorer.corpus_score(list(predictions), [list(references)]).score


def load_rouge() -> ModuleType:
    """Returns the library that computes ROUGE; raises `UserError` without it."""
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        raise missing_extra(
            "cannot compute ROUGE: rouge-score is not installed", "rouge_score"
        ) from None
    return rouge_scorer


@functools.cache
def _rouge_scorer() -> Callable:
    scorer = load_rouge().RougeScorer(list(_ROUGE.values()), use_stemmer=True)
    return scorer.score


def rouge(prediction: str, reference: str) -> dict[str, float]:
    """Returns `rouge_1`, `rouge_2`, `rouge_l`, and `..._recall` of a response."""
    scores = _rouge_scorer()(normalise(reference), normalise(prediction))
    found = {}
    for name, theirs in _ROUGE.items():
        found[name] = scores[theirs].fmeasure
        found[f"{name}_recall"] = scores[theirs].recall
    return found


def response_scores(
    predictions: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """Computes every score of responses against one reference each, in percent.

    Returns:
        Name -> value, with the names of `DEFINITIONS` except for the perplexities; and
        `length`, the mean number of words per response.

    Raises:
        UserError: there is nothing to score, the numbers differ, or sacrebleu or
            rouge-score is not installed.
    """
    if len(predictions) != len(references) or not predictions:
        raise UserError(
            f"{len(predictions)} responses and {len(references)} references: give one "
            "reference for each response, and at least one."
        )
    pairs = list(zip(predictions, references, strict=True))
    found: dict[str, float | np.floating] = {
        "f1": np.mean([f1(text, [answer]) for text, answer in pairs])
    }
    for n in BLEU_ORDERS:
        values = [parlai_bleu(text, [answer], n) for text, answer in pairs]
        found[f"parlai_bleu_{n}"] = np.mean(values)
        found[f"sacrebleu_{n}"] = sacrebleu_corpus(predictions, references, n) / 100
    rouges = [rouge(text, answer) for text, answer in pairs]
    for name in rouges[0]:
        found[name] = np.mean([one[name] for one in rouges])
    texts = [normalise(text) for text in predictions]
    for n in DISTINCT_ORDERS:
        found[f"distinct_{n}"] = distinct(texts, n) or 0.0
    scores = {name: 100.0 * float(value) for name, value in found.items()}
    scores["length"] = float(np.mean([len(text.split()) for text in predictions]))
    return scores


def perplexities(
    log_likelihoods: Sequence[float], tokens: Sequence[int], references: Sequence[str]
) -> dict[str, float]:
    """Returns `perplexity` and `word_perplexity` of the references under a model.

    Args:
        log_likelihoods: natural log likelihood of each whole reference.
        tokens: number of scored tokens of each reference, its end included.
    """
    loss = -float(np.sum(np.asarray(log_likelihoods, np.float64)))
    words = sum(len(text.split()) + 1 for text in references)
    return {
        "perplexity": _exp(loss / max(sum(tokens), 1)),
        "word_perplexity": _exp(loss / max(words, 1)),
    }


def _exp(value: float) -> float:
    # exp(NaN) is NaN, but exp of a large number raises OverflowError.
    return math.inf if value >= 700 else math.exp(value)
