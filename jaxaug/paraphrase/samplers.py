"""The samplers by name: their decode functions and options."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jax.tree_util import Partial

from jaxaug.core import extensions, typed
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.decode import beam, dips, diverse, dpp, sample, set_search, ssr, warpers

DecodeFn = Callable[..., Any]

MOST = 1024
"""Maximum outputs of one input; they are decoded together."""
_KINDS = (bool, int, float, str, tuple)  # Allowed types of the default of an option.


class Sampler(NamedTuple):
    """A decoding method.

    Attributes:
        make: a dataclass of options with `decode_fn()`, or a function from keyword
            options to a decode function. Its signature has the types and defaults.
    """

    name: str
    make: Callable[..., Any]
    single: bool = False

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """Name -> parameter, of every option; only gin files set n-gram weights."""
        return {
            name: one
            for name, one in inspect.signature(self.make).parameters.items()
            if not name.endswith("_weights")
        }

    @property
    def code(self) -> str:
        """Identity of another package's code, for keys; empty for our samplers."""
        return extensions.code_of(self.make)

    @property
    def hints(self) -> Mapping[str, Any]:
        """Name -> annotation of every option, or the type of its default."""
        found = typing.get_type_hints(self.make, include_extras=True)
        return {n: found.get(n, _hint(p.default)) for n, p in self.options.items()}

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all options, after checking the given ones.

        Raises:
            UserError: the sampler does not have an option, or a value has the wrong
                type, is out of bounds, or is not finite.
        """
        found = {name: p.default for name, p in self.options.items()}
        for name, value in given.items():
            default = self.option(name).default
            whole = type(default) is float and type(value) is int
            found[name] = float(value) if whole else value
        where = f"sampler {self.name!r}: option"
        typed.check_hints({name: found[name] for name in given}, self.hints, where)
        return found

    def option(self, name: str) -> inspect.Parameter:
        """Returns one option; raises `UserError` if the sampler does not have it."""
        if name not in self.options:
            raise UserError(
                f"sampler {self.name!r} has no option {name!r}; "
                f"{suggestion(name, self.options)}"
            )
        return self.options[name]

    def build(self, num: int, options: Mapping[str, Any]) -> DecodeFn:
        """Returns the decode function with all options set.

        Equal options give the same object, so compiled programs are reused. The numbers
        of a sampler that draws are leaves of a pytree, see `programs.of_model`.

        Raises:
            UserError: `num` is more than the sampler can give or than can be decoded at
                once, or an option is out of range.
        """
        if num > MOST:
            raise UserError(
                f"--num is {num}: the outputs of an input are decoded together, {MOST} "
                "at most. Give fewer, and run again with other seeds for more."
            )
        if self.single and num > 1:
            raise UserError(
                f"sampler {self.name!r} gives one output of each input, --num is "
                f"{num}. Leave --num out, or take another sampler."
            )
        return _made(self.make, tuple(sorted(options.items())))


@functools.cache
def _made(make: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> DecodeFn:
    made = make(**dict(options))
    return made.decode_fn() if isinstance(make, type) else made


def _hint(default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple[tuple(float for _ in default)]  # type: ignore[misc]
    return type(default)


def find(name: str) -> Sampler:
    """Returns the sampler with this name; raises `UserError` with the nearest names."""
    if name not in SAMPLERS:
        raise UserError(f"{name!r} is not a sampler; {suggestion(name, SAMPLERS)}")
    return SAMPLERS[name]


def parse(sampler: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns options from `name=value` texts; the name of a flag alone sets it.

    Raises:
        UserError: the sampler or an option is unknown, a text has no `=`, an option
            comes twice, or a value has the wrong type.
    """
    chosen = find(sampler)
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name in options:
            raise UserError(f"option {name!r} comes twice: give it once.")
        chosen.option(name)
        hint = chosen.hints[name]
        if not equals and hint is not bool:
            raise UserError(f"option {text!r}: write it as name=value.")
        found = typed.parsed(value, hint) if equals else True
        options[name] = tuple(found) if isinstance(found, list) else found
        typed.check_hints({name: options[name]}, {name: hint}, "option")
    return options


# One dataclass per sampler holds its options.


@dataclass(frozen=True, kw_only=True)
class GreedyOptions:
    """Options of greedy decoding.

    Attributes:
        repetition_penalty: divisor of the logits of present tokens; 1 means none.
        no_repeat_ngrams: n of the n-grams that must not be repeated; 0 means none.
    """

    min_length: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngrams: int = 0

    def chain(self) -> tuple[warpers.Warper, ...]:
        """Returns the warpers that choose among the allowed tokens: the top one."""
        return (warpers.top_k(1),)

    def decode_fn(self) -> DecodeFn:
        """Returns `sample.sample` with the warpers of these options.

        The repetition penalty and the n-gram ban come first, then the warpers of
        `chain`. EOS is forbidden before `min_length` tokens.
        """
        blocking = []
        if self.repetition_penalty != 1.0:
            blocking.append(warpers.repetition_penalty(self.repetition_penalty))
        if self.no_repeat_ngrams:
            blocking.append(warpers.no_repeat_ngrams(self.no_repeat_ngrams))
        chain = (*blocking, *self.chain())
        if not self.min_length:
            return Partial(sample.sample, warpers=chain)
        # Refuse a negative length before a model is loaded.
        warpers.min_length(self.min_length)
        return Partial(_not_before, self.min_length, chain)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(GreedyOptions):
    """Options of sampling; a temperature of 0 takes the most probable token."""

    temperature: float = 1.0

    def kept(self) -> tuple[warpers.Warper, ...]:
        """Returns the warpers that restrict the distribution; none by default."""
        return ()

    def chain(self) -> tuple[warpers.Warper, ...]:
        """Returns the temperature, then `kept`; a temperature of 0 comes last."""
        warper, others = warpers.temperature(self.temperature), self.kept()
        return (warper, *others) if self.temperature else (*others, warper)


@dataclass(frozen=True, kw_only=True)
class TopKTopPOptions(SamplingOptions):
    """Options of sampling from the k most probable tokens within the mass p."""

    k: int = 120
    p: float = 0.95

    def kept(self) -> tuple[warpers.Warper, ...]:
        """Returns top-k, then top-p."""
        return warpers.top_k(self.k), warpers.top_p(self.p)


@dataclass(frozen=True, kw_only=True)
class BottomKOptions(SamplingOptions):
    """Options of bottom-k sampling for `n_steps`, then top-k and top-p sampling."""

    k: int = 2
    n_steps: int = 1
    then_k: int = 120
    then_p: float = 0.95
    # The improbable first token is often EOS, which would give an empty output.
    min_length: int = 1

    def kept(self) -> tuple[warpers.Warper, ...]:
        """Returns bottom-k."""
        then = warpers.top_k(self.then_k), warpers.top_p(self.then_p)
        return (warpers.bottom_k(self.k, self.n_steps, then),)


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """Options of beam search."""

    temperature: float = 1.0
    alpha: float = 0.6

    def decode_fn(self) -> DecodeFn:
        """Returns the decode function with these options."""
        return functools.partial(beam.search, **dataclasses.asdict(self))


@dataclass(frozen=True, kw_only=True)
class DiverseBeamOptions:
    """Options of diverse beam search.

    With 0 groups, each output is a separate group. An `ngram` of 0 means Hamming
    diversity.
    """

    groups: int = 0
    strength: float = 0.5
    ngram: int = 0
    alpha: float = 0.6

    def decode_fn(self) -> DecodeFn:
        """Returns the decode function with these options."""
        return functools.partial(
            diverse.decode,
            groups=self.groups or None,
            strength=self.strength,
            ngram=self.ngram or None,
            alpha=self.alpha,
        )


@dataclass(frozen=True, kw_only=True)
class DiPSSampler(dips.DiPSOptions):
    """Options of beam search that selects sets by DiPS.

    `embeddings` names a file or model, from which `jaxaug.paraphrase.word_vectors`
    makes the embedding table of a model.
    """

    embeddings: str = ""
    alpha: float = 0.6

    def decode_fn(self) -> DecodeFn:
        """Returns the decode function with these options."""
        return _set_search(dips.decode, self)


@dataclass(frozen=True, kw_only=True)
class DPPSampler(dpp.DPPOptions):
    """Options of beam search that selects sets by a determinantal point process."""

    alpha: float = 0.6

    def decode_fn(self) -> DecodeFn:
        """Returns the decode function with these options."""
        return _set_search(dpp.decode, self)


@dataclass(frozen=True, kw_only=True)
class SSRSampler(set_search.SetOptions):
    """Options of beam search that selects representatives (SSR)."""

    alpha: float = 0.6

    def decode_fn(self) -> DecodeFn:
        """Returns the decode function with these options."""
        return _set_search(ssr.decode, self)


def _set_search(decode: DecodeFn, options: Any) -> DecodeFn:
    given = {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name != "embeddings" and not name.endswith("_weights")
    }
    return functools.partial(decode, **given)


def _not_before(
    min_length: int, chain: Sequence[warpers.Warper], *args: Any, **kwargs: Any
) -> Any:
    """Samples with EOS held back; only the model determines which token is EOS."""
    # `eos_id` is the fourth argument of every decode function.
    eos_id = kwargs["eos_id"] if "eos_id" in kwargs else args[3]
    longer = (warpers.held_back(min_length, eos_id), *chain)
    return sample.sample(*args, **kwargs | {"warpers": longer})


def chain(decode_fn: DecodeFn, eos_id: int) -> tuple[warpers.Warper, ...] | None:
    """Returns the warpers of a sampling decode function, or None for any other."""
    function = getattr(decode_fn, "func", None)
    if function is sample.sample:
        return tuple(decode_fn.keywords["warpers"])  # type: ignore[attr-defined]
    if function is _not_before:
        least, others = decode_fn.args  # type: ignore[attr-defined]
        return (warpers.held_back(least, eos_id), *others)
    return None


def _registered(name: str, found: Any) -> Sampler:
    """Returns the sampler of another package, from a function like those above."""
    make = extensions.function(name, found)
    for option in inspect.signature(make).parameters.values():
        if option.kind is not option.KEYWORD_ONLY or type(option.default) not in _KINDS:
            raise TypeError(
                f"takes {option}: its options are keywords with a default that is "
                f"{', '.join(kind.__name__ for kind in _KINDS)}"
            )
    return Sampler(name, make)


_OWN = {
    sampler.name: sampler
    for sampler in (
        Sampler("greedy", GreedyOptions, single=True),
        Sampler("sampling", SamplingOptions),
        Sampler("top_k_top_p", TopKTopPOptions),
        Sampler("bottom_k", BottomKOptions),
        Sampler("beam", BeamOptions),
        Sampler("diverse_beam", DiverseBeamOptions),
        Sampler("dips", DiPSSampler),
        Sampler("dpp", DPPSampler),
        Sampler("ssr", SSRSampler),
    )
}

SAMPLERS: Mapping[str, Sampler] = extensions.Table(_OWN, "samplers", made=_registered)
