"""A judge of pairs: whether a candidate rewords its original and keeps its meaning.

For candidates of the grammar the judge estimates `sound`: the probability that the
candidate is well formed and has the meaning of its original. Candidates of models are
judged by a score alone, because most of them are wrong.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge import features, filters, measures
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.judge.fitting import Linear
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

TRIVIAL = "trivial"
WORDS, SIMILARITY, MODEL = "words", "similarity", "model"
LEVELS: Mapping[str, tuple[str, ...]] = {
    WORDS: features.WORDS,
    SIMILARITY: (*features.WORDS, *features.SENTENCES),
    MODEL: (*features.WORDS, *features.SENTENCES, *features.TRIPS),
}
"""Level of a judge -> its features: rules, MiniLM, and a language model. A judge of the
grammar has `features.FORM` in addition; see `names`."""
SAMPLES, GRAMMAR = "model", "grammar"
SOURCES = (SAMPLES, GRAMMAR)
"""Sources of candidates: a model writes many wrong ones, the grammar few."""

SOUND = 0.8
"""Least probability at which the judge keeps a candidate of the grammar."""

_DIGITS = 4


class Verdict(NamedTuple):
    """The verdict of a judge on a candidate.

    Attributes:
        keep: whether the candidate is kept.
        reasons: codes of `filters.CHECKS` or else `trivial`, then the features with the
            most weight against the candidate, in descending order. Empty if it is kept.
        metrics: the features by name, and `score`: above 0 for candidates to drop. A
            judge of the grammar adds `sound`, see `Judge.sound`.
    """

    keep: bool
    reasons: tuple[str, ...]
    metrics: Mapping[str, float]


class Sight:
    """The inputs of a judge: rules, and optional models."""

    def __init__(self, similarity: str = "", model: str = "", source: str = SAMPLES):
        """
        Args:
            similarity: a model of sentences, such as minilm; empty for none.
            model: a language model, such as smollm2; needs `similarity`.
            source: one of `SOURCES`.

        Raises:
            UserError: a model needs another one that is missing, or a model is not on
                this machine or is of another kind.
        """
        _check(similarity, model)
        self._measure, self._trip, self.source = None, None, source
        self.level = SIMILARITY if similarity else WORDS
        if similarity:
            self._measure = measures.find("similarity", model=similarity)
        if model:
            self._trip = _round_trip(model)
            self.level = MODEL

    def __call__(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Returns the features of `names`, [pairs, features]."""
        found = [features.words(pairs, self._measure)]
        if self._measure is not None:
            found.append(features.sentences(pairs, self._measure))
        if self._trip is not None:
            found.append(features.trips(pairs, self._trip))
        if self.source == GRAMMAR:
            found.append(features.form(pairs))
        # Further digits differ between machines.
        return np.round(np.concatenate(found, axis=1), _DIGITS)


class Judge:
    """Gives verdicts; see `verdicts`."""

    def __init__(self, sight: Sight, coefficients: Linear):
        self.sight, self._linear = sight, coefficients

    def verdicts(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Returns the verdict on each pair."""
        if not pairs:
            return []
        found = self.sight(pairs)
        scores = self._linear.scores(found)
        sound = _probability(-scores)
        is_grammar = self.sight.source == GRAMMAR
        if is_grammar:
            scores += np.log(SOUND / (1 - SOUND))
        verdicts = []
        for place, (pair, row) in enumerate(zip(pairs, found, strict=True)):
            score = scores[place]
            why = [*rules(pair)]
            if score > 0:
                why += self._weightiest(row)
            metrics = {k: float(v) for k, v in zip(self._names, row, strict=True)}
            metrics["score"] = round(float(score), _DIGITS)
            if is_grammar:
                metrics["sound"] = round(float(sound[place]), _DIGITS)
            verdicts.append(Verdict(not why, tuple(why), metrics))
        return verdicts

    def sound(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pairs"]:
        """Returns the estimated probability that each rewording is sound.

        A sound candidate is well formed and has the meaning of its original; it may be
        trivial. The estimate holds for texts of domains that the grammar's rules were
        not written for.
        """
        if not pairs:
            return np.zeros(0)
        return np.round(_probability(-self._linear.scores(self.sight(pairs))), _DIGITS)

    @property
    def _names(self) -> tuple[str, ...]:
        return names(self.sight.level, self.sight.source)

    def _weightiest(self, row: np.ndarray) -> list[str]:
        """Returns features with at least half the weight of the greatest one."""
        parts = self._linear.weights * (row - self._linear.usual)
        ordered = sorted(range(len(parts)), key=lambda i: (-parts[i], i))
        return [
            self._names[i] for i in ordered if parts[i] >= max(parts.max() / 2, 1e-9)
        ]


def _probability(log_odds: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-log_odds))


def names(level: str, source: str) -> tuple[str, ...]:
    """Returns the features of a judge.

    Args:
        level: a key of `LEVELS`.
        source: one of `SOURCES`.
    """
    return LEVELS[level] + (features.FORM if source == GRAMMAR else ())


def rules(pair: Pair) -> tuple[str, ...]:
    """Returns why the rules drop a candidate, regardless of its features."""
    (codes,) = filters.reasons(pair.original, [pair.candidate], names=())
    return codes or ((TRIVIAL,) if features.is_trivial(pair) else ())


def judge(similarity: str = "", model: str = "", *, source: str = SAMPLES) -> Judge:
    """Returns the judge that was fitted for a source and a set of models.

    Args:
        similarity: see `Sight`.
        model: see `Sight`.
        source: source of the candidates, one of `SOURCES`.

    Raises:
        UserError: see `Sight`; or the source is unknown, or no judge was fitted for it
            with a language model.
    """
    _check_source(source, model)
    sight = Sight(similarity, model, source)
    return Judge(sight, coefficients(sight.level, source))


@functools.cache
def coefficients(level: str, source: str) -> Linear:
    """Returns the numbers of `coefficients.json`, made by `benchmarks/fit_judge.py`."""
    fitted = json.loads(measures.COEFFICIENTS.read_text())
    if source not in fitted.get(level, {}):
        raise UserError(
            f"no judge was fitted for level {level!r} and source {source!r}. Fit one "
            "with "
            "benchmarks/fit_judge.py, or leave out the model."
        )
    known: Mapping[str, Any] = fitted[level][source]
    rows = known["features"]
    return Linear(
        known["bias"],
        np.array([rows[name]["weight"] for name in names(level, source)]),
        np.array([rows[name]["usual"] for name in names(level, source)]),
    )


def written(judges: Mapping[str, Mapping[str, Linear]]) -> str:
    """Returns the text of `coefficients.json`: level -> source -> numbers."""
    found = {
        level: {
            source: {
                "bias": judge.bias,
                "features": {
                    name: {"weight": float(weight), "usual": float(usual)}
                    for name, weight, usual in zip(
                        names(level, source), judge.weights, judge.usual, strict=True
                    )
                },
            }
            for source, judge in by_source.items()
        }
        for level, by_source in judges.items()
    }
    return json.dumps(found, indent=2) + "\n"


def identity(similarity: str = "", model: str = "", *, source: str = SAMPLES) -> str:
    """Returns the identity of a judge in keys: its code, numbers, and model weights.

    Raises:
        UserError: see `judge`.
    """
    _check_source(source, model)
    _check(similarity, model)
    parts = [code_digest("jaxaug.augment.judge", "jaxaug.augment.language")]
    parts += [file_digest(measures.COEFFICIENTS), source]
    if similarity:
        parts += measures.identities({"similarity": {"model": similarity}})[
            "similarity"
        ]
    if model:
        # Imported here, as models import JAX.
        from jaxaug.models.text import registry

        known = registry.published_identity(model)
        parts.append(known or registry.load(model).identity)
    return digest_of(parts)


def _check_source(source: str, model: str) -> None:
    if source not in SOURCES:
        raise UserError(f"source {source!r}; {suggestion(source, SOURCES)}")
    if model and source == GRAMMAR:
        raise UserError(
            f"model {model!r}: no judge of the grammar's candidates was fitted with a "
            "language model. Leave the model out."
        )


def _check(similarity: str, model: str) -> None:
    if model and not similarity:
        raise UserError(
            f"model {model!r}: no judge was fitted with a language model and without "
            "similarity. Name a model for that too: minilm."
        )


def _round_trip(model: str) -> Any:
    """Returns the trips of a language model."""
    # Imported here, as models import JAX.
    from jaxaug.augment.judge.round_trip import RoundTrip
    from jaxaug.models.text import registry
    from jaxaug.models.text.language import LanguageModel

    found = registry.load(model)
    if not isinstance(found, LanguageModel):
        raise UserError(
            f"model {model!r}: is an encoder-decoder; the round trip needs a "
            "decoder-only language model, such as smollm2."
        )
    return RoundTrip(found)
