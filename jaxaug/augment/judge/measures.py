"""Metrics of candidates compared with their sources; one number per pair.

A metric is called with sources and candidates, position by position, and gives one
finite number for each pair. Metrics of `METRICS` are made by name; a user's metric has
an import path.
"""

import collections
import functools
import importlib
import inspect
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import rapidfuzz
from jaxtyping import Float

from jaxaug.augment.judge import network, verdicts
from jaxaug.augment.language import nlp
from jaxaug.augment.language.lexicon import STOP_WORDS
from jaxaug.augment.language.words import split
from jaxaug.core import extensions
from jaxaug.core.digests import code_digest, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.shards import Json
from jaxaug.core.suggestion import nearest, suggestion
from jaxaug.metrics import diversity
from jaxaug.metrics import similarity as texts_similarity

Metric = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, " n"]]
FAITHFUL = "faithful"
"""Metric of the judge; see `verdicts`."""

_FLAG = re.compile(
    r"^(?:(?:a |the )?(?:boolean )?flag |boolean )?"
    r"(?:(?:that |which )?(?:indicat|say|tell|show)\w* )?(?:if|whether)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\b(?:how|number|amount|count|total|price|cost|fare|fee|rent|size|time|duration|"
    r"length|age|rating|temperature|humidity|wind|percentage|balance)\b",
    re.IGNORECASE,
)


def lemmas(texts: Sequence[str]) -> list[frozenset[str]]:
    """Returns the lower-cased lemmas of each text, without stop words and marks.

    Without spaCy the words themselves stand for their lemmas.
    """
    if not nlp.installed():
        return [
            frozenset(word.core.lower() for word in split(text)) - STOP_WORDS - {""}
            for text in texts
        ]
    return [
        frozenset(token.lemma.lower() for token in document.words if not token.is_stop)
        for document in nlp.analyse(texts)
    ]


def jaccard(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns the Jaccard distance of the lemmas: 0 (equal) to 1 (none in common).

    The distance is 0 if neither text has a lemma (both are all stop words).
    """
    pairs = zip(lemmas(sources), lemmas(candidates), strict=True)
    return np.array([jaccard_distance(a, b) for a, b in pairs], np.float64)


def jaccard_distance(first: frozenset[str], second: frozenset[str]) -> float:
    """Returns 1 - shared over all; 0 for two empty sets."""
    union = first | second
    return 1.0 - len(first & second) / len(union) if union else 0.0


def string_similarity(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns 1 - Levenshtein distance / greater length, lower-cased: 0 to 1."""
    measure = rapidfuzz.distance.Levenshtein.normalized_similarity
    pairs = zip(sources, candidates, strict=True)
    return np.array([measure(a.lower(), b.lower()) for a, b in pairs], np.float64)


def bleu(sources: Sequence[str], candidates: Sequence[str]) -> Float[np.ndarray, " n"]:
    """Returns sacrebleu's sentence BLEU of the candidate against the source: 0 to 1.

    Texts are lower-cased; n-grams go up to the length of the candidate ("effective
    order").
    """
    pairs = zip(sources, candidates, strict=True)
    return np.array([texts_similarity.bleu(b, a) for a, b in pairs], np.float64)


def self_bleu(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns BLEU of a candidate against all other candidates of its source: 0 to 1.

    Candidates whose sources are equal texts form a set (Zhu et al. 2018, "Texygen").
    The BLEU is `bleu` with several references; a set of one gives 0.
    """
    groups = collections.defaultdict(list)
    for place, (source, _) in enumerate(zip(sources, candidates, strict=True)):
        groups[source].append(place)
    found = np.zeros(len(candidates), np.float64)
    for places in groups.values():
        texts = [candidates[i].lower() for i in places]
        found[places] = np.divide(diversity.bleu_against_the_others(texts), 100.0)
    return found


def length(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns the words of the candidate divided by the words of the source.

    A small model often continues past the end of a paraphrase: "City of the event"
    becomes "City of the event with the most visitors".
    """
    pairs = zip(sources, candidates, strict=True)
    return np.array([len(b.split()) / max(1, len(a.split())) for a, b in pairs])


def chance(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns a random number below 1 for each pair, always the same for its texts."""
    pairs = zip(sources, candidates, strict=True)
    return np.array([zlib.crc32("\n".join(pair).encode()) / 2**32 for pair in pairs])


def how(sources: Sequence[str], candidates: Sequence[str]) -> Float[np.ndarray, " n"]:
    """Returns 1 for a candidate with "how" if the source asks for no quantity, else 0.

    A small model overuses the examples of its prompt: "City where the bus leaves"
    becomes "How many buses leave the city".
    """
    pairs = zip(sources, candidates, strict=True)
    found = [b.lower().startswith("how ") and not _QUANTITY.search(a) for a, b in pairs]
    return np.array(found, float)


def similarity(model: str = network.BASE, flags: bool = True, **options: Any) -> Metric:
    """Returns the metric `similarity`: the cosine of sentence embeddings, -1 to 1.

    MiniLM runs in NumPy, and other models run in JAX.

    Args:
        model: name of a sentence encoder.
        flags: whether words that mark a flag count. "Boolean flag indicating if pets
            are allowed" and "Whether pets are allowed" have the same meaning, but
            sentence embeddings see the flag and find them dissimilar.
        **options: options of `jaxaug.models.scorers.pairs.Similarity`.
    """
    by_numpy = model == network.BASE and not options
    measure = _of_minilm if by_numpy else _pairs("Similarity", model)(**options)
    if flags:
        return measure
    return lambda a, b: measure([*map(without_flag, a)], [*map(without_flag, b)])


def _of_minilm(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    pairs = list(zip(sources, candidates, strict=True))
    return network.cosines(network.sentences(), pairs)


def without_flag(text: str) -> str:
    """Returns the text with "whether" for all phrases that mark a flag."""
    return _FLAG.sub("whether", text)


def _plain(metric: Metric) -> Callable[..., Metric]:
    return lambda: metric


def _pairs(name: str, model: str) -> Callable[..., Metric]:
    """Returns a metric by a scorer of `jaxaug.models.scorers.pairs`."""

    def make(model: str = model, **options: Any) -> Metric:
        # Imported here, as models import JAX.
        from jaxaug.models.scorers import encoder, pairs, store

        scorer = getattr(pairs, name)(encoder.load(model), store.Store(), **options)

        def metric(
            sources: Sequence[str], candidates: Sequence[str]
        ) -> Float[np.ndarray, " n"]:
            if not candidates:
                return np.zeros(0)
            return scorer(list(zip(sources, candidates, strict=True)))

        return metric

    return make


_OWN: Mapping[str, Callable[..., Metric]] = {
    "jaccard": _plain(jaccard),
    "string_similarity": _plain(string_similarity),
    "bleu": _plain(bleu),
    "self_bleu": _plain(self_bleu),
    "length": _plain(length),
    "chance": _plain(chance),
    "how": _plain(how),
    "similarity": similarity,
    "entailment": _pairs("Entailment", "bart-large-mnli"),
    "mutual_implication": _pairs("MutualImplication", "roberta-mi"),
    "bleurt": _pairs("Bleurt", "bleurt-20"),
    FAITHFUL: verdicts.Metric,
}

METRICS: Mapping[str, Callable[..., Metric]] = extensions.Table(_OWN, "metrics")
"""Name -> factory of the metric; with a model, it takes `model` and its options."""


def find(name: str, **options: Any) -> Metric:
    """Returns a metric by its name or import path.

    Args:
        name: a key of `METRICS`, or `package.module:function` of a user.
        options: options of a metric of `METRICS`, such as `model`. An import path with
            options names a factory that takes them.

    Raises:
        UserError: the name, module, or function is unknown, the metric does not have an
            option, or its model is not on this machine.
    """
    if ":" in name:
        found = _imported(name)
        return _made(name, found, options) if options else found
    return _made(name, _maker(name), options)


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raises `UserError` if `find` would, but loads no model."""
    if ":" in name:
        _imported(name)
        return
    try:
        inspect.signature(_maker(name)).bind(**options)
    except TypeError as error:
        raise _wrong_options(name, options, error) from error


def models(name: str, options: Mapping[str, Any]) -> list[str]:
    """Returns the models of a metric: one or none.

    Args:
        name: see `find`; a user's metric has no known model.

    Raises:
        UserError: the metric is unknown.
    """
    if ":" in name:
        return []
    parameters = inspect.signature(_maker(name)).parameters
    if "model" not in parameters:
        return []
    model = str(options.get("model", parameters["model"].default))
    return [model] if model else []


def identities(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns for each metric the identities of its model and code; empty without one.

    A user's metric may use anything; only its code is known.

    Args:
        metrics: name -> options; `path` is the import path of a user's metric.

    Raises:
        UserError: a metric is unknown, or a model is not on this machine.
    """
    found: dict[str, list[str]] = {}
    for name, options in metrics.items():
        found[name] = []
        if options.get("path", name) == FAITHFUL:
            found[name] = [verdicts.identity(**options)]
            continue
        for model in models(options.get("path", name), options):
            if model == network.BASE:
                found[name] += [*map(file_digest, network.files()[:2])]
                found[name].append(code_digest(network))
                continue
            # Imported here, as models import JAX.
            from jaxaug.models.named import identities
            from jaxaug.models.scorers import encoder

            code = code_digest(*identities.network_code())
            found[name] += [identities.of_folder(encoder.folder_of(model)), code]
    return found


def key(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Json]:
    """Returns JSON that identifies metrics; loads no model.

    A model counts by its weights, not by its name, and a user's metric by its code.

    Args:
        metrics: name -> options; see `identities`.

    Raises:
        UserError: see `identities`.
    """
    found: dict[str, Json] = {}
    for name, models_of in identities(metrics).items():
        options = dict(metrics[name])
        path = options.get("path", name)
        source = _imported(path) if ":" in path else _maker(path)
        if models_of:
            options.pop("model", None)
        found[name] = [options, models_of, extensions.code_of(source)]
    return found


def made(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """Returns the metrics with these options; equal ones are loaded once.

    Args:
        metrics: name -> options; see `identities`.

    Raises:
        UserError: see `find`.
    """
    return {
        name: _loaded(
            options.get("path", name),
            json.dumps({k: v for k, v in options.items() if k != "path"}),
            json.dumps(models_of),
        )
        for (name, options), models_of in zip(
            metrics.items(), identities(metrics).values(), strict=True
        )
    }


@functools.cache
def _loaded(name: str, options: str, models_of: str) -> Metric:
    # Another model in the same folder is loaded again.
    del models_of
    return find(name, **json.loads(options))


def _maker(name: str) -> Callable[..., Metric]:
    if name not in METRICS:
        raise UserError(
            f"{name!r} is not a metric; {suggestion(name, METRICS)} A metric of yours "
            "is named by `package.module:function`."
        )
    return METRICS[name]


def _made(name: str, make: Callable[..., Metric], options: Mapping[str, Any]) -> Metric:
    try:
        return make(**options)
    except TypeError as error:
        raise _wrong_options(name, options, error) from error


def _wrong_options(
    name: str, options: Mapping[str, Any], error: TypeError
) -> UserError:
    return UserError(
        f"metric {name!r} cannot be made with {dict(options)}: {error}. Correct the "
        "options."
    )


@functools.cache
def _imported(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    fix = "Write `package.module:function`, with the package on PYTHONPATH."
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"metric {path!r}: {error}. {fix}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise UserError(
            f"metric {path!r}: {module_name} has no function {attribute!r}."
            f"{nearest(attribute, vars(module))} {fix}"
        )
    return found


def compute(
    metrics: Mapping[str, Metric],
    sources: Sequence[str],
    candidates: Sequence[str],
    kinds: Sequence[str] | None = None,
) -> dict[str, Float[np.ndarray, " n"]]:
    """Returns all metrics of all pairs.

    Args:
        metrics: name -> metric.
        sources: first text of each pair.
        candidates: second text of each pair.
        kinds: kind of each first text, see `features.Pair`; None if all are slots.

    Raises:
        UserError: a metric gives another number of values, or a value that is not a
            finite number; names the metric and the pair.
    """
    if len(sources) != len(candidates):
        raise UserError(
            f"{len(sources)} sources for {len(candidates)} candidates: give one source "
            "for each candidate."
        )
    found = {}
    for name, metric in metrics.items():
        by_kind = [kinds] if getattr(metric, "by_kind", False) else []
        given = metric(sources, candidates, *by_kind)
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise UserError(
                f"metric {name!r} gave {shown(given)}, expected one number for each "
                "candidate. Correct the metric."
            ) from None
        if values.shape != (len(candidates),):
            raise UserError(
                f"metric {name!r} gave an array of shape {values.shape} for "
                f"{len(candidates)} candidates, expected ({len(candidates)},). Correct "
                "the metric."
            )
        for place in np.flatnonzero(~np.isfinite(values))[:1]:
            raise UserError(
                f"metric {name!r} is {values[place]} for source "
                f"{shown(sources[place])} and candidate {shown(candidates[place])}; "
                "values must be finite. Correct the metric, or leave it out."
            )
        found[name] = values
    return found


def nearness(
    metric: Metric, items: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[list[float | None]]:
    """Returns the nearness of candidates to the other texts of their service.

    "Departure time of the flight" is as similar to "Arrival time of the flight" as many
    good paraphrases, so no threshold drops it. But it is nearer to one of the others.

    Args:
        metric: greater is nearer.
        items: (other texts, candidates).

    Returns:
        For each item and each candidate, the greatest value against any of the other
        texts; None without other texts.

    Raises:
        UserError: the metric is not finite for a pair.
    """
    pairs = [
        (other, text) for others, texts in items for text in texts for other in others
    ]
    found = compute({"apart_by": metric}, [a for a, _ in pairs], [b for _, b in pairs])
    values = iter(found["apart_by"])
    return [
        [
            # Seven digits, as for the candidate's own text.
            max((float(f"{next(values):.7g}") for _ in others), default=None)
            for _ in texts
        ]
        for others, texts in items
    ]
