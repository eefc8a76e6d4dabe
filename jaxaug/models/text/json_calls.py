"""Decodes function calls (`formats.json_tools`) that are always valid.

models.DecoderOnlyModel.decode_fn = @json_calls.decoder()
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema
from jaxaug.decode import constrained, sample
from jaxaug.feed import vocabulary
from jaxaug.formats import json_grammar
from jaxaug.formats.json_tools import JSONFormatter, JSONOptions, signature
from jaxaug.models.tokenizers import hf, spelling

_EOS = 1
# Tokens of a prompt that are compared; it begins with the name of its first function.
_HEAD = 96


def decoder(
    tokenizer: PathLike | None = None,
    data_dir: PathLike | None = None,
    split: str = "test",
    variants: Sequence[str] = (),
    level: Literal["dst", "dst_intent"] = "dst",
    lowercase: bool = True,
    decode_fn: Callable[..., Any] = sample.sample,
    **options: Any,
) -> Callable[..., Any]:
    """Returns a T5X decode function that writes valid calls of the services of a split.

    Args:
        tokenizer: TOKENIZER of the gin files of models, whose ids are shifted by 1, or
            a SentencePiece model. None means the vocabulary of the data.

    Raises:
        UserError: data or vocabulary are missing or incompatible.
    """
    folder = folders.resolve_data_dir(data_dir)
    schemas = [
        sgd.read_schema_of(folder, split, variant) for variant in (None, *variants)
    ]
    settings = JSONOptions(level=level, lowercase=lowercase)
    spelled, encode, eos_id = _vocabulary(tokenizer, data_dir)
    made, heads = compiled(schemas, settings, spelled, encode, eos_id)
    return functools.partial(
        constrained.search,
        automaton=made,
        heads=heads,
        decode_fn=functools.partial(decode_fn, **options),
    )


def _vocabulary(
    tokenizer: PathLike | None, data_dir: PathLike | None
) -> tuple[list[bytes | None], Callable[[str], list[int]], int]:
    if tokenizer is not None and hf.is_published(tokenizer):
        words = hf.load(tokenizer, id_offset=1)
        if words.eos_id is None:
            raise UserError(f"{tokenizer}: this tokenizer has no end of sequence.")
        return spelling.of_tokenizer(words), words.encode, words.eos_id
    path = tokenizer or vocabulary.model_file(data_dir)
    processor = vocabulary.load(path)
    return spelling.of_sentencepiece(processor), processor.encode, _EOS


def compiled(
    schemas: Sequence[Schema],
    options: JSONOptions,
    spelled: Sequence[bytes | None],
    encode: Callable[[str], list[int]],
    eos_id: int,
) -> tuple[constrained.Automaton, constrained.Heads]:
    """Returns the automaton of all services, and the heads of their prompts.

    Raises:
        UserError: the prompts of two services have the same head.
    """
    prompts: dict[str, str] = {}
    for schema in schemas:
        formatter = JSONFormatter(schema, options)
        for service in schema.services:
            prompt, key = formatter.prompt(service.name)
            prompts.setdefault(prompt, key)
    machine = json_grammar.machine([signature(key) for key in prompts.values()])
    # The last token of a prompt may extend into the text that follows.
    heads = [encode(f"{prompt} [user]")[:_HEAD] for prompt in prompts]
    lengths = [min(len(head), _HEAD) for head in heads]
    table = np.zeros((len(heads), max(lengths)), np.int32)
    for row, head in zip(table, heads, strict=True):
        row[: len(head)] = head
    _check_heads(dict(zip(prompts, map(tuple, heads), strict=True)))
    return (
        constrained.compiled(machine, spelled, eos_id),
        constrained.Heads(table, np.array(lengths, np.int32)),
    )


def _check_heads(heads: Mapping[str, tuple[int, ...]]) -> None:
    known: dict[tuple[int, ...], str] = {}
    for prompt, head in heads.items():
        if head in known:
            raise UserError(
                f"two services have prompts that begin alike for {_HEAD} tokens: "
                f"{known[head][:120]} and {prompt[:120]}. Rename one of them."
            )
        known[head] = prompt
