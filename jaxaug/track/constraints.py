"""Answers in the languages of their formats: categorical slots have one of their options.

The automaton of a schema is made once for each set of languages: other wordings of the
same services share it, and compiled programs take it as an argument.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxaug.core.digests import code_digest, digest_of
from jaxaug.core.errors import UserError
from jaxaug.data.dialogue import Frame
from jaxaug.data.schema import Schema
from jaxaug.decode import automaton, constrained
from jaxaug.formats import answer_grammar
from jaxaug.formats.records import FormatOptions
from jaxaug.models.text import continuing, registry
from jaxaug.models.tokenizers import spelling
from jaxaug.paraphrase import decoder, programs
from jaxaug.track import turns

# The code that makes languages of signatures.
_CODE = (
    "jaxaug.core.byte_machine",
    *(f"jaxaug.formats.{n}" for n in ("answer_grammar", "characters", "json_grammar")),
)
_JSON = '{"a": "b", "c": ["d"]}'


@dataclass(frozen=True, eq=False)
class Constraint:
    """The languages of a schema's answers.

    Attributes:
        automaton: of all languages, padded.
        languages: signature -> number.
        numbers: (service, key of an example) -> number of its language.
        digest: of the languages, and of the code that makes them.
    """

    automaton: automaton.Automaton
    languages: Mapping[Hashable, int]
    numbers: Mapping[tuple[str, str], int]
    digest: str


def of_schema(
    schema: Schema,
    options: FormatOptions,
    words: Any,
    room: int,
    base: "Constraint | None" = None,
) -> Constraint:
    """The languages of the answers about a schema.

    Args:
        schema: of the services.
        options: the format.
        words: vocabulary of the outputs.
        room: tokens that an output may have, EOS included.
        base: the result for other services; its automaton is used again if it has all
          languages, so that nothing is compiled.

    Raises:
        UserError: the format has none, the vocabulary cannot write an answer, or no answer
          fits.
    """
    formatter = options.formatter(schema)
    known: dict[Hashable, int] = {}
    if base:
        known |= base.languages
    numbers: dict[tuple[str, str], int] = {}
    for service in schema.services:
        empty = turns.alone(Frame(service.name, turns.UNKNOWN))
        for example in formatter.dialogue(empty):
            found = answer_grammar.signature(options, service, example.key)
            number = known.setdefault(found, len(known))
            numbers[service.name, example.key] = number
    made = _compiled(words, tuple(known), room)
    code = code_digest(*_CODE)
    return Constraint(made, known, numbers, digest_of([code, *map(str, known)]))


@functools.lru_cache(maxsize=16)
def _compiled(
    words: Any, signatures: tuple[Hashable, ...], room: int
) -> automaton.Automaton:
    spelled = spelling.of_vocabulary(words)
    if isinstance(signatures[0], str):
        _check_json(words, spelled)
    machine = answer_grammar.machine(signatures)
    found = automaton.compiled(machine, spelled, words.eos_id)
    found.check_room(room)
    return found.padded()


def _check_json(words: Any, spelled: Sequence[bytes | None]) -> None:
    """Refuses vocabularies that put spaces around marks: their JSON is other bytes."""
    written = b"".join(spelled[token] or b"" for token in words.encode(_JSON))
    if written.strip() != _JSON.encode():
        raise UserError(
            f"constrained answers: the vocabulary writes {_JSON} as "
            f"{written.decode(errors='replace').strip()}, and the language of JSON has no "
            "such spaces. Use a published tokenizer, or leave --constrained out."
        )


@programs.of_model(static_argnums=(0, 1))
def decode(
    model: registry.TextModel | continuing.PrefixModel,
    decode_fn: Callable[..., Any],
    max_length: int,
    params: Any,
    inputs: Int[Array, "rows length"],
    languages: Int[Array, " rows"],
    allowed: automaton.Automaton,
) -> Int[Array, "rows max_length"]:
    """Outputs of a batch, each in its language.

    Args:
        model: a tracker.
        decode_fn: does the search.
        max_length: tokens of an output.
        params: of the model.
        inputs: tokens, EOS included.
        languages: number of each row's language.
        allowed: all languages.
    """
    search = functools.partial(
        constrained.search, automaton=allowed, languages=languages, decode_fn=decode_fn
    )
    ids = jnp.zeros(len(inputs), jnp.int32)
    if isinstance(model, continuing.PrefixModel):
        return model.continued(params, inputs, ids, search, max_length)
    # Not the compiled program: it would keep what it is traced with.
    plain = decoder.decode.__wrapped__  # type: ignore[attr-defined]
    key = jax.random.PRNGKey(0)
    return plain(model, search, 1, max_length, params, inputs, ids, key)[:, 0]
