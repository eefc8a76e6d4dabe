"""The methods that change one sentence at random, by name."""

from collections.abc import Callable, Mapping

from jaxaug.augment.schemes.eda import eda, token_substitution
from jaxaug.augment.schemes.noise import pervasive_dropout, switch_out
from jaxaug.augment.schemes.user_noise import disfluency, typos
from jaxaug.core import extensions

Method = Callable[..., str]

_OWN: Mapping[str, Method] = {
    "eda": eda,
    "token_substitution": token_substitution,
    "pervasive_dropout": pervasive_dropout,
    "switch_out": switch_out,
    "typos": typos,
    "disfluency": disfluency,
}

MODEL_SCHEMES = ("contextual", "paraphrase", "backtranslate", "apertium", "qcpg")
"""Schemes with models or programs that work on texts too; see `registry`."""

METHODS: Mapping[str, Method] = extensions.Table(_OWN, "schemes", taken=MODEL_SCHEMES)
"""Name -> method(text, rng, **options) -> text; see each for its options."""
