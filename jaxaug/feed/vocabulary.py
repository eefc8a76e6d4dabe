"""SentencePiece vocabularies: a named one, or one of the data's own words.

A small tracker that is trained from scratch learns far faster with whole words than
with pieces. The default is therefore a SentencePiece model of the words in the training
dialogues, the schemas, and the variants of the training schema. A missing word is
spelled with the longest known word that it starts with, and bytes. All text is
lower-cased. A run owns its vocabulary; see `jaxaug.feed.run_vocabulary`.

Rules inside the model separate some characters, so that `0=date 1a) may 3` reads `0=
date 1a ) may 3`. The `1a` of the prompt is then the token of the answer `1=1a`, and a
following comma does not change the token of a word. Decoding reverses the rules, so
`decode(encode(x)) == x` for text of known words with usual spacing.
"""

import contextlib
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sentencepiece
from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.cached import published_file
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import MAX_BYTES, PathLike, check_ordinary, reach, reached
from jaxaug.core.text import clean
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema, read_schema
from jaxaug.feed import run_vocabulary
from jaxaug.formats.records import letter

VOCABULARY_VARIABLE = "JAXAUG_VOCABULARY"
# Models that ship with the package; some have a SentencePiece model.
_MODELS = epath.Path(__file__).parents[1] / "models/named"
_FILE = "spiece.model"
# Part of the file name: increase it when the words or the rules change.
_VERSION = 2
# Version for older runs without a copy: all words, test dialogues included, and no
# bytes.
_OLDER_VERSION = 1
_MAX_SIZE = 32_000
_BYTES = 257  # Number of pieces for bytes, and one for a space.
SET_APART = ".,?!)"  # Characters that get a space before them.
SET_BEHIND = "=("  # Characters that get a space after them.
MARKERS = "[states] [intents] [req_slots] [user] [system] [slot] none dontcare | :"
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # The space character of SentencePiece.
# Weight that keeps index words within the size limit for any data.
_INDEX_WEIGHT = 100


def model_file(data_dir: PathLike | None = None, named: str = "") -> str:
    """Returns the path of the SentencePiece model to use; trains it if missing.

    If a T5X program in this process works on a run with a copy, the copy is used
    (`run_vocabulary.owned`). Otherwise it is the file named by `named` or
    `$JAXAUG_VOCABULARY`, or else the vocabulary of the data folder's own words.

    Raises:
        UserError: the named file does not exist, the data folder is wrong, or the run
            has another vocabulary than the named one.
    """
    return run_vocabulary.owned(
        shipped(named) or _named_by_variable(),
        lambda older: str(train_words(folders.resolve_data_dir(data_dir), older=older)),
    )


def of_run(folder: PathLike, named: str = "") -> str:
    """Returns the path of the SentencePiece model of a run folder.

    It is the copy in the folder. For a run without a copy it is the model called
    `named`, else `$JAXAUG_VOCABULARY`, else the vocabulary of the data folder's words.

    Args:
        folder: folder with `config.gin`, or one of its checkpoints.
        named: path or shipped name that the run's configuration gives; empty if it
            gives none.

    Raises:
        UserError: the copy is damaged; see also `model_file`.
    """
    if kept := run_vocabulary.of_run(folder):
        return str(kept)
    older = run_vocabulary.is_older(folder)
    return (
        shipped(named)
        or _named_by_variable()
        or str(train_words(folders.resolve_data_dir(), older=older))
    )


def shipped(name: str) -> str:
    """Returns the SentencePiece model of a shipped model, such as `mini`.

    Any other name, such as a path, is returned unchanged.
    """
    if not name or "/" in name or epath.Path(name).exists():
        return name
    path = _MODELS / name / _FILE
    return str(path) if path.is_file() else name


def _named_by_variable() -> str:
    named = os.environ.get(VOCABULARY_VARIABLE)
    if not named:
        return ""
    names = ", ".join(sorted(path.parent.name for path in _MODELS.glob(f"*/{_FILE}")))
    fix = (
        f"Name a SentencePiece model, or a model of this package ({names}), or unset "
        f"the variable to use the words of the data folder."
    )
    path = reach(shipped(named), f"This is ${VOCABULARY_VARIABLE}. {fix}")
    if not path.is_file():
        raise UserError(f"${VOCABULARY_VARIABLE}={named}: no such file. {fix}")
    return str(path)


class TokenVocabulary:
    """A SentencePiece model without TensorFlow, with the attributes T5X models use.

    `bos_id` is -1 if no piece starts a sequence.
    """

    def __init__(self, path: PathLike | None = None):
        """Loads `path`, or the result of `model_file`."""
        self.path = self.sentencepiece_model_file = str(path or model_file())
        self.processor = found = load(self.path)
        self.vocab_size: int = found.get_piece_size()
        self.pad_id, self.eos_id = found.pad_id(), found.eos_id()
        self.unk_id, self.bos_id = found.unk_id(), found.bos_id()

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without the end of sequence."""
        return self.processor.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of several texts, each as in `encode`."""
        return self.processor.encode(list(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end of sequence.

        Ids beyond the vocabulary become the unknown piece.
        """
        known = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            known.append(token if token < self.vocab_size else self.unk_id)
        return self.processor.decode(known)


def load(path: PathLike) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model, local or gs://.

    Raises:
        UserError: the file is missing or unreachable, is not a SentencePiece model, or
            has other special ids than T5 (padding 0, end of sequence 1).
    """
    processor = sentencepiece.SentencePieceProcessor()
    fix = cache_folder.fix_for(
        path,
        f"Name one with ${VOCABULARY_VARIABLE}, such as the one of the pretrained T5.",
    )
    try:
        check_ordinary(path, fix, MAX_BYTES)
        with reached(path, fix):
            data = epath.Path(path).read_bytes()
        processor.LoadFromSerializedProto(data)
        # Raises an error unless all pieces are text.
        processor.id_to_piece([*range(processor.get_piece_size())])
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file, expected a model. {fix}") from None
    except (RuntimeError, IsADirectoryError, UnicodeDecodeError):
        raise UserError(f"{path}: is no SentencePiece model. {fix}") from None
    if (processor.pad_id(), processor.eos_id()) != (0, 1):
        raise UserError(
            f"{path}: padding has id {processor.pad_id()} and end of sequence "
            f"{processor.eos_id()}, expected 0 and 1 as in T5. Use a model trained "
            "with --pad_id=0 --eos_id=1."
        )
    return processor


def train_words(
    data_dir: PathLike, root: PathLike | None = None, older: bool = False
) -> epath.Path:
    """Returns the word vocabulary of a data folder; trains it on first use.

    The file name contains a hash of its sources. The same data therefore always gives
    the same file, and several processes may build it at once.

    Args:
        root: parent folder; None means `cache_folder.cache_dir()`.
        older: whether to build the vocabulary of older runs without a copy: with the
            words of all variants and dialogues, and without bytes.
    """
    schemas = _schema_files(data_dir, folders.SPLITS if older else ("train",))
    splits = [s for s in folders.SPLITS if _has_split(data_dir, s)]
    if not older:
        splits = [split for split in splits if split == "train"]
    dialogues = [p for split in splits for p in sgd.dialogue_files(data_dir, split)]
    version = _OLDER_VERSION if older else _VERSION
    digest = hashlib.blake2b(f"{version}".encode(), digest_size=12)
    for path in [*schemas, *dialogues]:
        digest.update(file_digest(path).encode())
    parent = epath.Path(root or cache_folder.cache_dir()) / "vocabularies"
    name = f"words-{digest.hexdigest()}"

    def train() -> bytes:
        model = sentencepiece_model(
            _texts(data_dir, splits, schemas),
            model_type="word",
            vocab_size=_MAX_SIZE if older else _MAX_SIZE - _BYTES,
            hard_vocab_limit=False,
        )
        return model if older else _with_bytes(model)

    return published_file(parent / name / f"{name}.model", train)


def _has_split(data_dir: PathLike, split: str) -> bool:
    return (epath.Path(data_dir) / split / "schema.json").exists()


def _schema_files(
    data_dir: PathLike, variant_splits: Sequence[str]
) -> list[epath.Path]:
    """Returns the schemas of all splits, and given splits of all variants."""
    paths = [epath.Path(data_dir) / s / "schema.json" for s in folders.SPLITS]
    for folder in folders.variant_folders(data_dir).values():
        for name in folders.variant_names(folder):
            paths += [folder / name / s / "schema.json" for s in variant_splits]
    return [path for path in paths if path.exists()]


def _texts(
    data_dir: PathLike, splits: Sequence[str], schemas: Sequence[epath.Path]
) -> Iterator[str]:
    read = [read_schema(path) for path in schemas]
    for schema in read:
        yield from schema_texts(schema)
    yield from _index_texts(read)
    for split in splits:
        for dialogue in sgd.read_dialogues(data_dir, split):
            for turn in dialogue.turns:
                yield clean(turn.utterance, True)
                for frame in turn.frames:
                    if frame.state is not None:
                        for values in frame.state.slot_values.values():
                            yield from (clean(value, True) for value in values)


def schema_texts(schema: Schema) -> Iterator[str]:
    for service in schema.services:
        for slot in service.slots:
            yield clean(slot.description, True)
            yield from (clean(value, True) for value in slot.possible_values)
        for intent in service.intents:
            yield clean(intent.description, True)


def _index_texts(schemas: Sequence[Schema]) -> Iterator[str]:
    """Yields every index, letter, and marker that the formats can write."""
    services = [service for schema in schemas for service in schema.services]
    slots = range(max(len(service.slots) for service in services))
    intents = range(max(len(service.intents) for service in services))
    listed = (slot for one in services for slot in one.slots if slot.is_categorical)
    options = range(max((len(slot.possible_values) for slot in listed), default=0))
    words = [MARKERS, *SET_APART, *SET_BEHIND]
    words += [f"{i} {i}= " for i in slots] + [f"i{i} i{i}=" for i in intents]
    words += [f"{letter(o)}" for o in options]
    words += [f"{i}{letter(o)}" for i in slots for o in options]
    # Lines stay far below SentencePiece's limit of 4192 bytes.
    for start in range(0, len(words), 100):
        for _ in range(_INDEX_WEIGHT):
            yield " ".join(words[start : start + 100])


def sentencepiece_model(texts: Iterable[str], **options: Any) -> bytes:
    """Returns the bytes of a model; equal texts in equal order give equal bytes.

    `options` are options of SentencePiece's trainer, such as model type and size.
    """
    encode = [(mark, f" {mark}") for mark in SET_APART]
    encode += [(mark, f"{mark} ") for mark in SET_BEHIND]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, _errors_of(texts) as kept:
        rules = os.path.join(folder, "rules.tsv")
        inverse = os.path.join(folder, "inverse.tsv")
        _write_rules(rules, encode)
        _write_rules(inverse, [(apart, mark) for mark, apart in encode])
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_pieces_of(kept),
            model_writer=model,
            character_coverage=1.0,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            normalization_rule_tsv=rules,
            denormalization_rule_tsv=inverse,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    return _without_paths(model.getvalue())


def _with_bytes(model: bytes) -> bytes:
    """Returns a word model that spells unknown words and reads its words as before.

    It becomes a unigram model in which all words cost the same and a byte costs more,
    so a known word is one piece.
    """
    # Imported here, because reading a model needs no Protocol Buffers.
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]
    kind = sentencepiece_model_pb2.ModelProto.SentencePiece  # type: ignore[attr-defined]
    known = set()
    for piece in proto.pieces:
        known.add(piece.piece)
        if piece.type == kind.NORMAL:
            piece.score = -1.0
    if _SPACE not in known:
        proto.pieces.add(piece=_SPACE, score=-1.0, type=kind.NORMAL)
    for byte in range(256):
        proto.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=kind.BYTE)
    spec = sentencepiece_model_pb2.TrainerSpec  # type: ignore[attr-defined]
    proto.trainer_spec.model_type = spec.UNIGRAM
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


@contextlib.contextmanager
def _errors_of(texts: Iterable[str]) -> Iterator[Iterator[str]]:
    """Yields the texts; raises their own errors, not the trainer's."""
    raised: list[Exception] = []

    def kept() -> Iterator[str]:
        try:
            yield from texts
        except Exception as error:
            raised.append(error)
            raise

    try:
        yield kept()
    except RuntimeError:
        if raised:
            raise raised[0] from None
        raise


def _pieces_of(texts: Iterable[str]) -> Iterator[str]:
    """Cuts overlong lines at spaces, because the trainer would skip them."""
    for text in texts:
        if text:
            yield from re.findall(r"\S.{0,2000}(?!\S)|\S+", text)


def _write_rules(path: str, rules: Iterable[tuple[str, str]]) -> None:
    def code(text: str) -> str:
        return " ".join(f"{ord(character):X}" for character in text)

    with open(path, "w", encoding="ascii") as file:
        file.writelines(
            f"{code(source)}\t{code(replacement)}\n" for source, replacement in rules
        )


def _without_paths(model: bytes) -> bytes:
    """Returns the model without the recorded names of temporary files."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    proto.denormalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)
