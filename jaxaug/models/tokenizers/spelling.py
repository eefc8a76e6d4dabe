"""Bytes and names of every token of a vocabulary."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import sentencepiece
import tokenizers

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, read_text
from jaxaug.models.tokenizers.hf import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"
# Text with every kind of byte, which checks the bytes of a tokenizer.
_PROBE = '{"Name 1": ["caf\u00e9", "\u4e2d \\ \U0001f600"]}'


def of_vocabulary(words: Any) -> list[bytes | None]:
    """Returns bytes by id of a published tokenizer or of a SentencePiece vocabulary."""
    if isinstance(words, Tokenizer):
        return of_tokenizer(words)
    # This repository and SeqIO have different names for the processor.
    return of_sentencepiece(getattr(words, "processor", None) or words.tokenizer)


def of_tokenizer(tokenizer: Tokenizer) -> list[bytes | None]:
    """Returns bytes by id; None for special tokens and for ids below the offset.

    Raises:
        UserError: the tokens do not represent bytes, for example because the tokenizer
            drops letter case or inserts spaces between words.
    """
    backend = tokenizer.backend
    decoder = json.dumps(json.loads(backend.to_str()).get("decoder"))
    spelled = _byte_level() if '"ByteLevel"' in decoder else None
    added = {
        number: token.content
        for number, token in backend.get_added_tokens_decoder().items()
    }
    found: list[bytes | None] = [None] * tokenizer.vocab_size
    for token, number in backend.get_vocab(with_added_tokens=True).items():
        place = number + tokenizer.id_offset
        if place in tokenizer.specials or place >= len(found):
            continue
        if number in added:
            found[place] = added[number].encode()
        elif spelled is None:
            found[place] = _piece(token)
        elif all(character in spelled for character in token):
            found[place] = bytes(spelled[character] for character in token)
    written = [found[token] for token in tokenizer.encode(_PROBE)]
    # Some tokenizers begin every text with a space.
    if None in written or b"".join(filter(None, written)).lstrip() != _PROBE.encode():
        raise UserError(
            f"{tokenizer.path}: the tokens of this tokenizer cannot be joined byte by "
            "byte, which constrained decoding needs. Use a model with a byte-level "
            "BPE, or with SentencePiece and bytes."
        )
    return found


def of_sentencepiece(
    processor: sentencepiece.SentencePieceProcessor,
) -> list[bytes | None]:
    """Returns bytes by id; None for control tokens and the unknown token."""
    count = processor.get_piece_size()
    return [
        None
        if processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i)
        else _piece(processor.id_to_piece(i))
        for i in range(count)
    ]


def _piece(piece: str) -> bytes:
    if match := _BYTE.fullmatch(piece):
        return bytes([int(match[1], 16)])
    return piece.replace(_SPACE, " ").encode()


def _byte_level() -> dict[str, int]:
    """Returns character of the byte-level alphabet (Radford et al., 2019) -> byte."""

    def plain() -> Iterator[int]:
        yield from range(0x21, 0x7F)
        yield from range(0xA1, 0xAD)
        yield from range(0xAE, 0x100)

    letters = {chr(byte): byte for byte in plain()}
    others = [byte for byte in range(256) if chr(byte) not in letters]
    return letters | {chr(256 + i): byte for i, byte in enumerate(others)}


UNKNOWN = ("<unk>", "[UNK]")
"""Usual names of the unknown word."""


def of_files(files: Mapping[str, PathLike]) -> list[str]:
    """Returns the token of each row; empty without a file that lists them."""
    if path := files.get("tokenizer.json"):
        text = read_text(path, "Take the file that was published with the model.")
        return _listed(tokenizers.Tokenizer.from_str(text).get_vocab())
    if path := files.get("vocab.json"):
        return _listed(read_json(path, "Take the file that was published."))
    for name in ("spiece.model", "spm.model", "sentencepiece.bpe.model"):
        if path := files.get(name):
            processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            return processor.id_to_piece([*range(processor.get_piece_size())])
    return []


def _listed(rows: Mapping[str, int]) -> list[str]:
    names = {row: token for token, row in rows.items()}
    return [names.get(row, f"<row_{row}>") for row in range(max(names, default=-1) + 1)]
