"""The tokens of a published vocabulary, by row of the embedding."""

from collections.abc import Mapping

import sentencepiece
import tokenizers

from jaxaug.core.files import PathLike, read_json, read_text

UNKNOWN = ("<unk>", "[UNK]")
"""Usual names of the unknown word."""


def of_files(files: Mapping[str, PathLike]) -> list[str]:
    """Returns the token of each row; empty without a file that lists them.

    Args:
        files: name -> path of a tokenizer's files; see `export.tokenizer_of`. Rows
            without a token are named by their row.
    """
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
