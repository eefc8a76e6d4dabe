"""Restricts answers to their formats: categorical slots take one of their options.

The automaton of a schema is built once for each set of languages. Other wordings of the
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
from jaxaug.decode import constrained
from jaxaug.formats import answer_grammar
from jaxaug.formats.records import FormatOptions
from jaxaug.models import programs
from jaxaug.models.text import continuing, registry
from jaxaug.models.tokenizers import spelling
from jaxaug.paraphrase import decoder
from jaxaug.track import turns

# The code that turns signatures into languages.
_CODE = (
    "jaxaug.core.byte_machine",
    *("jaxaug.formats.answer_grammar", "jaxaug.formats.json_grammar"),
)
_JSON = '{"a": "b", "c": ["d"]}'


@dataclass(frozen=True, eq=False)
class Constraint:
    """The languages of a schema's answers.

    Attributes:
        automaton: the automaton of all languages, padded.
        languages: signature -> number of the language.
        numbers: (service, key of an example) -> number of its language.
        digest: digest of the languages, and of the code that builds them.
    """

    automaton: constrained.Automaton
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
    """Returns the languages of the answers about a schema.

    Args:
        schema: the schema.
        options: the format.
        words: vocabulary of the outputs.
        room: maximum number of output tokens, EOS included.
        base: the result for other services; its automaton is reused if it has all
          languages, so that nothing is compiled.

    Raises:
        UserError: the format has no language, the vocabulary cannot write an answer, or
          no answer fits into `room`.
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
) -> constrained.Automaton:
    spelled = spelling.of_vocabulary(words)
    if isinstance(signatures[0], str):
        _check_json(words, spelled)
    machine = answer_grammar.machine(signatures)
    found = constrained.compiled(machine, spelled, words.eos_id)
    found.check_room(room)
    return found.padded()


def _check_json(words: Any, spelled: Sequence[bytes | None]) -> None:
    """Raises `UserError` if the vocabulary puts spaces around punctuation of JSON."""
    written = b"".join(spelled[token] or b"" for token in words.encode(_JSON))
    if written.strip() != _JSON.encode():
        raise UserError(
            f"constrained answers: the vocabulary writes {_JSON} as "
            f"{written.decode(errors='replace').strip()}, and the language of JSON has "
            "no such spaces. Use a published tokenizer, or leave --constrained out."
        )


@programs.of_model(static_argnums=(0, 1))
def decode(
    model: registry.TextModel | continuing.PrefixModel,
    decode_fn: Callable[..., Any],
    max_length: int,
    params: Any,
    inputs: Int[Array, "rows length"],
    languages: Int[Array, " rows"],
    allowed: constrained.Automaton,
) -> Int[Array, "rows max_length"]:
    """Returns the decoded outputs of a batch, each in its language, padded with 0.

    Args:
        decode_fn: the search, such as greedy decoding.
        inputs: input tokens, EOS included.
        languages: number of the language of each row.
    """
    search = functools.partial(
        constrained.search, automaton=allowed, languages=languages, decode_fn=decode_fn
    )
    ids = jnp.zeros(len(inputs), jnp.int32)
    if isinstance(model, continuing.PrefixModel):
        return model.continued(params, inputs, ids, search, max_length)
    # The undecorated function: the compiled one would keep the traced `search` alive.
    plain = decoder.decode.__wrapped__  # type: ignore[attr-defined]
    key = jax.random.PRNGKey(0)
    return plain(model, search, 1, max_length, params, inputs, ids, key)[:, 0]
