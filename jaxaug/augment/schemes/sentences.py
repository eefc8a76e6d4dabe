"""The methods that change one sentence at random, by name."""

from collections.abc import Callable, Mapping

from jaxaug.augment.schemes.eda import eda, token_substitution
from jaxaug.augment.schemes.noise import pervasive_dropout, switch_out

Method = Callable[..., str]

METHODS: Mapping[str, Method] = {
    "eda": eda,
    "token_substitution": token_substitution,
    "pervasive_dropout": pervasive_dropout,
    "switch_out": switch_out,
}
"""Name -> method(text, rng, **options) -> text; see each for its options."""
