"""Tokenizer of Marian's translation models: two SentencePiece models and their ids.

`source.spm` splits the inputs into pieces, and `target.spm` the targets. `vocab.json`
has the ids of the pieces of both. `target_vocab.json`, if present, has the ids for the
targets.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

import sentencepiece
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_bytes, read_json, shown

SOURCE, TARGET = "source.spm", "target.spm"
_TABLE, _TARGET_TABLE = "vocab.json", "target_vocab.json"
_EOS, _UNKNOWN = "</s>", "<unk>"
_SPECIAL = {_EOS, _UNKNOWN, "<pad>"}
_LANGUAGE = re.compile(r">>[^<]*<<")
_LARGEST = 1 << 24
_FIX = "Get the model again."


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """The inputs or the targets of a model.

    Attributes:
        ids: published id of each piece.
        id_offset: difference between our ids and the published ones, 0 or 1.
    """

    processor: sentencepiece.SentencePieceProcessor
    ids: Mapping[str, int]
    id_offset: int

    def __post_init__(self) -> None:
        pieces = {number: piece for piece, number in self.ids.items()}
        object.__setattr__(self, "_pieces", pieces)

    @property
    def vocab_size(self) -> int:
        """Number of ids, including those below the offset."""
        return max(self.ids.values()) + 1 + self.id_offset

    @property
    def eos_id(self) -> int:
        """Id that ends a sequence."""
        return self.ids[_EOS] + self.id_offset

    @property
    def unk_id(self) -> int:
        """Id of pieces that the table lacks."""
        return self.ids[_UNKNOWN] + self.id_offset

    def encode(self, text: str) -> list[int]:
        """Returns ids of a text, without EOS; it may begin with a `>>fra<<`."""
        language = _LANGUAGE.match(text)
        pieces = [language[0]] if language else []
        pieces += self.processor.encode(text[sum(map(len, pieces)) :], out_type=str)
        return [self._id(piece) for piece in pieces]

    def _id(self, piece: str) -> int:
        number = self.ids.get(piece)
        return self.unk_id if number is None else number + self.id_offset

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to EOS, without special and unknown ids."""
        pieces = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            piece = self._pieces.get(token - self.id_offset, _UNKNOWN)  # type: ignore[attr-defined]
            if piece not in _SPECIAL:
                pieces.append(piece)
        return self.processor.decode_pieces(pieces).replace("\u2581", " ").strip()


def load(folder: PathLike, id_offset: int) -> tuple[Side, Side]:
    """Loads the tokenizer in a published folder: the input side and the target side.

    Raises:
        UserError: a file is missing or damaged, or the table lacks a special token.
    """
    root = epath.Path(folder)
    table = _table(root / _TABLE)
    own = root / _TARGET_TABLE
    target_table = _table(own) if own.exists() else table
    return (
        Side(_processor(root / SOURCE), table, id_offset),
        Side(_processor(root / TARGET), target_table, id_offset),
    )


def _table(path: epath.Path) -> dict[str, int]:
    table = read_json(path, _FIX)
    if not isinstance(table, dict) or not {_EOS, _UNKNOWN} <= set(table):
        raise UserError(
            f"{path}: must be a table from pieces to ids with {_EOS} and {_UNKNOWN}. "
            f"{_FIX}"
        )
    for piece, number in table.items():
        if type(number) is not int or not 0 <= number < _LARGEST:
            raise UserError(
                f"{path}: the id of {shown(piece)} is {shown(number)}, but must be a "
                f"whole number from 0 to {_LARGEST - 1}. {_FIX}"
            )
    return table


def _processor(path: epath.Path) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    data = read_bytes(path, _FIX)
    try:
        processor.LoadFromSerializedProto(data)
    except RuntimeError:
        raise UserError(f"{path} is not a SentencePiece model. {_FIX}") from None
    return processor
