"""The samplers by name: which decode function each of them is, and its options."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.decode import (
    beam,
    dips,
    diverse,
    dpp,
    sample,
    set_search,
    ssr,
    warpers,
)

DecodeFn = Callable[..., Any]

MOST = 1024
"""Outputs of one input: they are decoded side by side."""
LONGEST = 4096
"""Tokens of an output."""
_TOO_LARGE = 2**31  # Of a whole number, for the device; no option needs more.
_FORMS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "as many numbers, with commas between,",
}


class Sampler(NamedTuple):
    """A way to decode.

    Attributes:
      name: key of `SAMPLERS`.
      make: (options by keyword) -> decode function; its signature names the options,
        their types and defaults.
      single: whether it can give one output only.
    """

    name: str
    make: Callable[..., DecodeFn]
    single: bool = False

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """Name -> parameter, of every option."""
        return inspect.signature(self.make).parameters

    @property
    def code(self) -> str:
        """What stands in keys for the code of another package's; empty for ours."""
        return extensions.code_of(self.make)

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options, those not given at their default.

        Raises:
          UserError: an option that the sampler does not have, or a value of the wrong
            type, or one that is not finite.
        """
        found = {name: p.default for name, p in self.options.items()}
        for name, value in given.items():
            default = self.option(name).default
            if type(default) is float and type(value) is int:
                value = float(value)
            if not _alike(value, default):
                raise UserError(
                    f"sampler {self.name!r}: option {name}={value!r}: expected "
                    f"{_FORMS[type(default)]} such as {default}; numbers are finite and "
                    f"below {_TOO_LARGE}."
                )
            found[name] = value
        return found

    def option(self, name: str) -> inspect.Parameter:
        """One option; raises `UserError` where the sampler does not have it."""
        if name not in self.options:
            raise UserError(
                f"sampler {self.name!r} has no option {name!r}; "
                f"{suggestion(name, self.options)}"
            )
        return self.options[name]

    def build(self, num: int, options: Mapping[str, Any]) -> DecodeFn:
        """The decode function with all options set; the same object for the same options.

        Programs that are compiled for it can then be used again.

        Raises:
          UserError: more outputs than it can give, or than are decoded at once, or an
            option out of its range.
        """
        if num > MOST:
            raise UserError(
                f"--num is {num}: the outputs of an input are decoded together, {MOST} at "
                "most. Give fewer, and run again with other seeds for more."
            )
        if self.single and num > 1:
            raise UserError(
                f"sampler {self.name!r} gives one output of each input, --num is {num}. "
                "Leave --num out, or take another sampler."
            )
        return _made(self.make, tuple(sorted(options.items())))


@functools.cache
def _made(
    make: Callable[..., DecodeFn], options: tuple[tuple[str, Any], ...]
) -> DecodeFn:
    return make(**dict(options))


def find(name: str) -> Sampler:
    """The sampler of that name; raises `UserError` with the nearest names if none."""
    if name not in SAMPLERS:
        raise UserError(f"{name!r} is no sampler; {suggestion(name, SAMPLERS)}")
    return SAMPLERS[name]


def parse(sampler: str, texts: Sequence[str]) -> dict[str, Any]:
    """Options from `name=value` texts.

    Raises:
      UserError: an unknown sampler or option, a text without `=`, an option that comes
        twice, or a value of the wrong type.
    """
    chosen = find(sampler)
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"option {text!r}: write it as name=value.")
        if name in options:
            raise UserError(f"option {name!r} comes twice: give it once.")
        options[name] = _value(chosen.option(name), value)
    return options


def _value(parameter: inspect.Parameter, text: str) -> Any:
    kind = type(parameter.default)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is tuple:
            numbers = tuple(float(part) for part in text.split(","))
            if len(numbers) != len(parameter.default):
                raise ValueError(numbers)
            return numbers
        return kind(text)
    except (KeyError, ValueError):
        raise UserError(
            f"option {parameter.name}={text!r}: expected {_FORMS[kind]} such as "
            f"{parameter.default}."
        ) from None


def _alike(value: Any, default: Any) -> bool:
    """Whether a value has the type of the default, and its numbers can be computed."""
    if isinstance(default, tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(default)
            and all(_alike(float(v) if type(v) is int else v, 0.0) for v in value)
        )
    if type(value) is not type(default):
        return False
    if isinstance(value, bool | str):
        return True
    return math.isfinite(value) and abs(value) < _TOO_LARGE


# One function for each sampler: its signature is the list of the sampler's options.


def _greedy(
    *, min_length: int = 0, repetition_penalty: float = 1.0, no_repeat_ngrams: int = 0
) -> DecodeFn:
    return _sample(
        warpers.top_k(1),
        min_length=min_length,
        repetition_penalty=repetition_penalty,
        no_repeat_ngrams=no_repeat_ngrams,
    )


def _sampling(
    *,
    temperature: float = 1.0,
    min_length: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat_ngrams: int = 0,
) -> DecodeFn:
    return _sample(
        *_at(temperature),
        min_length=min_length,
        repetition_penalty=repetition_penalty,
        no_repeat_ngrams=no_repeat_ngrams,
    )


def _top_k_top_p(
    *,
    k: int = 120,
    p: float = 0.95,
    temperature: float = 1.0,
    min_length: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat_ngrams: int = 0,
) -> DecodeFn:
    return _sample(
        *_at(temperature, warpers.top_k(k), warpers.top_p(p)),
        min_length=min_length,
        repetition_penalty=repetition_penalty,
        no_repeat_ngrams=no_repeat_ngrams,
    )


def _bottom_k(
    *,
    k: int = 2,
    n_steps: int = 1,
    then_k: int = 120,
    then_p: float = 0.95,
    temperature: float = 1.0,
    # What is improbable at the start is, often, the end: an empty output.
    min_length: int = 1,
    repetition_penalty: float = 1.0,
    no_repeat_ngrams: int = 0,
) -> DecodeFn:
    then = (warpers.top_k(then_k), warpers.top_p(then_p))
    return _sample(
        *_at(temperature, warpers.bottom_k(k, n_steps, then)),
        min_length=min_length,
        repetition_penalty=repetition_penalty,
        no_repeat_ngrams=no_repeat_ngrams,
    )


def _at(temperature: float, *chain: warpers.Warper) -> tuple[warpers.Warper, ...]:
    """A chain at a temperature; at 0 the most probable token of what the chain leaves."""
    warper = warpers.temperature(temperature)
    return (warper, *chain) if temperature else (*chain, warper)


def _sample(
    *chain: warpers.Warper,
    min_length: int,
    repetition_penalty: float,
    no_repeat_ngrams: int,
) -> DecodeFn:
    """Sampling with what forbids tokens put before what chooses among the rest."""
    blocking = []
    if repetition_penalty != 1.0:
        blocking.append(warpers.repetition_penalty(repetition_penalty))
    if no_repeat_ngrams:
        blocking.append(warpers.no_repeat_ngrams(no_repeat_ngrams))
    chain = (*blocking, *chain)
    if not min_length:
        return functools.partial(sample.sample, warpers=chain)
    warpers.min_length(min_length)  # Refuses a negative one before a model is loaded.
    return functools.partial(_not_before, min_length, chain)


def _not_before(
    min_length: int, chain: Sequence[warpers.Warper], *args: Any, **kwargs: Any
) -> Any:
    """Samples with EOS held back: which token that is, is known once there is a model."""
    # The fourth argument of every decode function.
    eos_id = kwargs["eos_id"] if "eos_id" in kwargs else args[3]
    longer = (warpers.min_length(min_length, eos_id), *chain)
    return sample.sample(*args, **kwargs | {"warpers": longer})


def chain(decode_fn: DecodeFn, eos_id: int) -> tuple[warpers.Warper, ...] | None:
    """The warpers of a decode function that samples; None of any other."""
    function = getattr(decode_fn, "func", None)
    if function is sample.sample:
        return tuple(decode_fn.keywords["warpers"])  # type: ignore[attr-defined]
    if function is _not_before:
        least, others = decode_fn.args  # type: ignore[attr-defined]
        return (warpers.min_length(least, eos_id), *others)
    return None


def _beam(*, temperature: float = 1.0, alpha: float = 0.6) -> DecodeFn:
    return functools.partial(beam.search, temperature=temperature, alpha=alpha)


def _diverse_beam(
    *, groups: int = 0, strength: float = 0.5, ngram: int = 0, alpha: float = 0.6
) -> DecodeFn:
    # 0 groups: one for each output. 0-grams: Hamming diversity.
    return functools.partial(
        diverse.decode,
        groups=groups or None,
        strength=strength,
        ngram=ngram or None,
        alpha=alpha,
    )


def _dips(
    *,
    mode: str = dips.MODE,
    lam: float = dips.LAM,
    probability: float = dips.PROBABILITY,
    width: int = set_search.WIDTH,
    mu: dips.Four = dips.MU,
    rbf_sigma: float = dips.SIGMA,
    unit: bool = True,
    normalise: bool = True,
    embeddings: str = "",
    alpha: float = 0.6,
) -> DecodeFn:
    # A file or model, whose table `jaxaug.paraphrase.word_vectors` makes for a model.
    del embeddings
    set_search.check_mode(mode)
    return functools.partial(
        dips.decode,
        mode=mode,
        lam=lam,
        probability=probability,
        width=width,
        mu=mu,
        rbf_sigma=rbf_sigma,
        unit=unit,
        normalise=normalise,
        alpha=alpha,
    )


def _dpp(
    *,
    mode: str = "step",
    probability: float = 1.0,
    width: int = set_search.WIDTH,
    quality: float = 1.0,
    alpha: float = 0.6,
) -> DecodeFn:
    set_search.check_mode(mode)
    return functools.partial(
        dpp.decode,
        mode=mode,
        probability=probability,
        width=width,
        quality=quality,
        alpha=alpha,
    )


def _ssr(
    *,
    mode: str = "step",
    probability: float = 1.0,
    width: int = set_search.WIDTH,
    alpha: float = 0.6,
) -> DecodeFn:
    set_search.check_mode(mode)
    return functools.partial(
        ssr.decode, mode=mode, probability=probability, width=width, alpha=alpha
    )


def _registered(name: str, found: Any) -> Sampler:
    """The sampler of another package: a function like those above."""
    make = extensions.function(name, found)
    for option in inspect.signature(make).parameters.values():
        if option.kind is not option.KEYWORD_ONLY or type(option.default) not in _FORMS:
            raise TypeError(
                f"takes {option}: its options are keywords with a default that is "
                f"{', '.join(kind.__name__ for kind in _FORMS)}"
            )
    return Sampler(name, make)


_OWN = {
    sampler.name: sampler
    for sampler in (
        Sampler("greedy", _greedy, single=True),
        Sampler("sampling", _sampling),
        Sampler("top_k_top_p", _top_k_top_p),
        Sampler("bottom_k", _bottom_k),
        Sampler("beam", _beam),
        Sampler("diverse_beam", _diverse_beam),
        Sampler("dips", _dips),
        Sampler("dpp", _dpp),
        Sampler("ssr", _ssr),
    )
}

SAMPLERS: Mapping[str, Sampler] = extensions.Table(_OWN, "samplers", made=_registered)
