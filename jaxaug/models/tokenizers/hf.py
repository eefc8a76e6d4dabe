"""Published tokenizers, read from a folder or from a GGUF file, with ids for T5X.

T5X reserves id 0 for padding and for the token before the first one, but published
vocabularies have a token with id 0. With `id_offset` 1, all ids are the published ones
plus 1 (see `jaxaug.models.layers.Embed`), and id 0 is free.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tokenizers
from etils import epath
from sentencepiece import sentencepiece_model_pb2
from tokenizers import normalizers, pre_tokenizers, processors

from jaxaug.core import pins
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    MAX_BYTES,
    PathLike,
    check_ordinary,
    read_bytes,
    read_text,
    shown,
)
from jaxaug.models.named import catalogue
from jaxaug.models.weights import hf_config

SPM = "spm.model"
_AGAIN = "Get the model again."
_FIRST, _LAST, _MASK = "[CLS]", "[SEP]", "[MASK]"
_ROLES = {"bos": _FIRST, "eos": _LAST, "unk": "[UNK]", "pad": "[PAD]", "mask": _MASK}
_BLANK = "\u2581"


def read_spm(path: epath.Path) -> tuple[tokenizers.Tokenizer, dict[str, int]]:
    """Returns the tokenizer of an `spm.model`, and its special ids by role.

    Texts are normalized and split as in SentencePiece, with the tables in the file. The
    converter of transformers 5 omits these tables, so it does not know ligatures.
    `[MASK]` follows the pieces unless it is one of them. `do_lower_case` and
    `split_by_punct` come from tokenizer_config.json.

    Raises:
        UserError: the file is not a unigram model of SentencePiece, or lacks a special
            token.
    """
    model = _model(path)
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    names = {piece for piece, _ in pieces}
    if missing := set(_ROLES.values()) - names - {_MASK}:
        raise UserError(
            f"{path} lacks the pieces {', '.join(sorted(missing))}, which every "
            f"tokenizer of DeBERTa has. {_AGAIN}"
        )
    unknown = [piece for piece, _ in pieces].index(_ROLES["unk"])
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unknown, False))
    backend.add_special_tokens(list(_ROLES.values()))
    options = _options(path.parent / _CONFIG)
    table = model.normalizer_spec.precompiled_charsmap
    backend.normalizer = normalizers.Sequence(
        [
            *([normalizers.Lowercase()] if options["do_lower_case"] else []),
            *([normalizers.Precompiled(table)] if table else []),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
            normalizers.Strip(),
        ]
    )
    blanks = pre_tokenizers.Metaspace(_BLANK, prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("isolated"), blanks]
        if options["split_by_punct"]
        else [blanks]
    )
    backend.decoder = tokenizers.decoders.Metaspace(_BLANK, prepend_scheme="always")
    ids = backend.get_vocab()
    special = {role: ids[token] for role, token in _ROLES.items()}
    backend.post_processor = processors.TemplateProcessing(
        single=f"{_FIRST} $A {_LAST}",
        pair=f"{_FIRST} $A {_LAST} $B:1 {_LAST}:1",
        special_tokens=[(_FIRST, special["bos"]), (_LAST, special["eos"])],
    )
    return backend, special


def guard(backend: tokenizers.Tokenizer) -> None:
    """Prevents the text `[SEP]` from becoming the token with that name.

    Special tokens are pieces of this vocabulary, and match best if a text contains
    their names. Cutting off their first character prevents the match.
    """
    model = backend.model
    if not isinstance(model, tokenizers.models.Unigram) or not backend.pre_tokenizer:
        return
    names = [
        token for token in _ROLES.values() if backend.token_to_id(token) is not None
    ]
    if not {_FIRST, _LAST} <= set(names):
        return
    ends = "|".join(re.escape(name[1:]) for name in names)
    cut = pre_tokenizers.Split(tokenizers.Regex(rf"\[(?=(?:{ends}))"), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([backend.pre_tokenizer, cut])


def _model(path: epath.Path) -> Any:
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    data = read_bytes(path, _AGAIN)
    try:
        model.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - the class depends on the implementation
        raise UserError(
            f"{path} is not a model of SentencePiece ({error!s:.200}). {_AGAIN}"
        ) from None
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise UserError(
            f"{path} is not a unigram model of SentencePiece, but models of DeBERTa "
            f"are. {_AGAIN}"
        )
    return model


def _options(path: epath.Path) -> dict[str, bool]:
    config = hf_config.read_object(path, _AGAIN) if path.exists() else {}
    options = {}
    for name in ("do_lower_case", "split_by_punct"):
        options[name] = config.get(name, False)
        if not isinstance(options[name], bool):
            raise UserError(
                f"{path}: {name} is {options[name]!r}, but must be true or false. "
                f"{_AGAIN}"
            )
    return options


FILE = "tokenizer.json"
_CONFIG = "tokenizer_config.json"
_OTHER_FILES = (
    "vocab.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model", SPM,
)  # fmt: skip
# Fields of tokenizer_config.json -> attributes of the normalizer of tokenizer.json.
_BERT_WORDS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_FIX = (
    "Name a tokenizer.json, a folder with one, a .gguf file, or a name from `jaxaug "
    "models list` that is on disk."
)


class Encoded(NamedTuple):
    """Input of an encoder, a text or a pair; `segments` is 1 in the second text."""

    tokens: list[int]
    segments: list[int]


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer with the attributes of a vocabulary that T5X models need.

    Attributes:
        special: published id by role: "bos", "eos", "unk", "pad", "mask", if known.
        id_offset: difference between our ids and the published ones, 0 or 1.
    """

    path: str
    backend: tokenizers.Tokenizer
    special: dict[str, int]
    id_offset: int = 0

    @property
    def vocab_size(self) -> int:
        """Number of ids, including those below the offset."""
        return self.backend.get_vocab_size() + self.id_offset

    @property
    def pad_id(self) -> int:
        """Id of the padding; 0 if the published vocabulary has none."""
        return 0 if self.id_offset else self.special.get("pad", 0)

    @property
    def eos_id(self) -> int | None:
        """Id that ends a sequence, or None."""
        return self._id("eos")

    @property
    def unk_id(self) -> int | None:
        """Id of unknown tokens, or None as in vocabularies of bytes."""
        return self._id("unk")

    @property
    def bos_id(self) -> int | None:
        """Id that the published model reads first, or None."""
        return self._id("bos")

    @property
    def mask_id(self) -> int | None:
        """Id of the mask of masked language models, or None."""
        return self._id("mask")

    def _id(self, role: str) -> int | None:
        number = self.special.get(role)
        return None if number is None else number + self.id_offset

    def encode(self, text: str) -> list[int]:
        """Returns ids of a text, without added ids or special tokens."""
        return self.encode_batch([text])[0]

    def encode_marked(self, text: str) -> list[int]:
        """Returns ids of a text by the model's author, including its special tokens."""
        encoded = self._marked.encode(text, add_special_tokens=False)
        return [token + self.id_offset for token in encoded.ids]

    @functools.cached_property
    def _marked(self) -> tokenizers.Tokenizer:
        # This copy reads special tokens in a text instead of their letters.
        return tokenizers.Tokenizer.from_str(self.backend.to_str())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns ids of several texts, each as in `encode`."""
        encoded = self.backend.encode_batch(list(texts), add_special_tokens=False)
        return [[token + self.id_offset for token in one.ids] for one in encoded]

    def pairs(
        self, texts: Sequence[tuple[str, str]] | Sequence[str], max_length: int
    ) -> list[Encoded]:
        """Returns texts or pairs with special tokens; the longer one is cut first."""
        # A limited copy keeps the calls of other threads uncut.
        cut = _limited(self, max_length)
        return [
            Encoded([i + self.id_offset for i in one.ids], list(one.type_ids))
            for one in cut.encode_batch(list(texts))
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to EOS, without special and unknown ids."""
        known = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            if self.id_offset <= token < self.vocab_size:
                known.append(token - self.id_offset)
        return self.backend.decode(known, skip_special_tokens=True)

    @functools.cached_property
    def specials(self) -> frozenset[int]:
        """Ids of all special tokens."""
        added = self.backend.get_added_tokens_decoder()
        own = {number for number, token in added.items() if token.special}
        return frozenset(
            number + self.id_offset for number in own | set(self.special.values())
        )

    def texts(self) -> list[str]:
        """Returns the text of every id alone; incomplete characters become U+FFFD."""
        count = self.backend.get_vocab_size()
        texts = self.backend.decode_batch(
            [[number] for number in range(count)], skip_special_tokens=False
        )
        return [""] * self.id_offset + texts


def load(source: PathLike, id_offset: int = 0) -> Tokenizer:
    """Loads the tokenizer of a published model; it is read once per process.

    Args:
        source: tokenizer.json, a folder, a GGUF file, or a name in the catalogue.
        id_offset: 1 for models of T5X.

    Raises:
        UserError: there is no tokenizer, or it cannot be read.
    """
    path = locate(source)
    return _load(os.fspath(path), id_offset)


def locate(source: PathLike) -> epath.Path:
    """Returns the file that `load` reads, or the main one of several files.

    Raises:
        UserError: there is no tokenizer.
    """
    name = os.fspath(source)
    path = epath.Path(name).expanduser()
    if name in catalogue.CATALOGUE and not path.exists():
        path = catalogue.CATALOGUE[name].checked_folder
        pins.verify(path, (FILE, _CONFIG, *_OTHER_FILES))
    if path.is_dir():
        if (path / FILE).exists():
            return path / FILE
        if found := sorted(path.glob("*.gguf")):
            return found[0]
        for other in _OTHER_FILES:
            if (path / other).exists():
                return path / other
        raise UserError(f"{path} holds no tokenizer. {_FIX}")
    if not path.exists():
        raise UserError(f"tokenizer {name}: no such file. {_FIX}")
    return path


def is_published(source: PathLike) -> bool:
    """Returns whether `load` reads a source; otherwise it is a SentencePiece model."""
    name = os.fspath(source)
    return (
        name in catalogue.CATALOGUE
        or name.endswith((".json", ".gguf"))
        or epath.Path(name).expanduser().is_dir()
    )


@functools.cache
def _load(path: str, id_offset: int) -> Tokenizer:
    if path.endswith(".gguf"):
        backend, special = _of_gguf(path)
    elif epath.Path(path).name == SPM:
        backend, special = read_spm(epath.Path(path))
    elif epath.Path(path).name in _OTHER_FILES:
        backend, special = _converted(str(epath.Path(path).parent))
    else:
        backend, special = _of_json(epath.Path(path))
    backend.no_padding()
    backend.no_truncation()
    # The text of data must not become control tokens.
    backend.encode_special_tokens = True
    guard(backend)
    return Tokenizer(path, backend, special, id_offset)


def _of_gguf(path: str) -> tuple[tokenizers.Tokenizer, dict[str, int]]:
    from jaxaug.models.weights import gguf

    file = gguf.Gguf(path)
    names = ("bos", "eos", "unk", "pad")
    special = {
        name: file.hf_config[f"{name}_token_id"]
        for name in names
        if file.hf_config.get(f"{name}_token_id") is not None
    }
    return tokenizers.Tokenizer.from_str(file.tokenizer.to_str()), special


def _of_json(path: epath.Path) -> tuple[tokenizers.Tokenizer, dict[str, int]]:
    text = read_text(path, _FIX)
    try:
        backend = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001 - the library raises no other class
        raise UserError(
            f"{path} is not a tokenizer.json ({error!s:.200}). {_FIX}"
        ) from None
    if (path.parent / _CONFIG).exists():
        _apply(backend, hf_config.read_object(path.parent / _CONFIG, _FIX))
    special: dict[str, int] = {}
    for name in (_CONFIG, "special_tokens_map.json"):
        if (path.parent / name).exists():
            found = _special(backend, path.parent / name)
            special = found | special
    for name in ("config.json", "generation_config.json"):
        if (path.parent / name).exists():
            _add_numbers(special, path.parent / name, backend.get_vocab_size())
    return backend, special


def _apply(backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
    """Applies BERT's word options in tokenizer_config.json, which take precedence."""
    if not isinstance(backend.normalizer, tokenizers.normalizers.BertNormalizer):
        return
    for theirs, ours in _BERT_WORDS.items():
        if config.get(theirs) is not None:
            setattr(backend.normalizer, ours, config[theirs])


def _add_numbers(special: dict[str, int], path: epath.Path, size: int) -> None:
    """Adds the ids of roles that the files of the tokenizer do not name."""
    config = hf_config.read_object(path, _FIX)
    for role in ("bos", "eos", "pad"):
        number = config.get(f"{role}_token_id")
        # The first of several ends is used; -1 means no id.
        if isinstance(number, list) and number:
            number = number[0]
        if role in special or type(number) is not int or number == -1:
            continue
        if not 0 <= number < size:
            raise UserError(
                f"{path}: {role}_token_id is {shown(number)}, but the tokenizer next "
                f"to it has ids from 0 to {size - 1}. Take the files of one model."
            )
        special[role] = number


def _special(backend: tokenizers.Tokenizer, path: epath.Path) -> dict[str, int]:
    config, special = hf_config.read_object(path, _FIX), {}
    for role in ("bos", "eos", "unk", "pad", "mask"):
        token = config.get(f"{role}_token")
        content = token.get("content") if isinstance(token, dict) else token
        if content is not None and not isinstance(content, str):
            raise UserError(
                f"{path}: {role}_token is {shown(token)}, but must be a text or an "
                f"object with content. {_FIX}"
            )
        number = backend.token_to_id(content) if content else None
        if number is not None:
            special[role] = number
    return special


def _converted(folder: str) -> tuple[tokenizers.Tokenizer, dict[str, int]]:
    """Converts older files (vocab.txt, vocab.json and merges.txt, SentencePiece)."""
    import transformers

    for path in epath.Path(folder).iterdir():
        check_ordinary(path, _FIX, MAX_BYTES if path.name in _OTHER_FILES else None)
    try:
        slow = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        backend = tokenizers.Tokenizer.from_str(slow.backend_tokenizer.to_str())
    except Exception as error:
        # The libraries raise many classes here, including plain Exception.
        raise UserError(
            f"{folder}: its tokenizer cannot be read ({type(error).__name__}: "
            f"{error!s:.200}). {_FIX}"
        ) from error
    roles = ("bos", "eos", "unk", "pad", "mask")
    special = {role: getattr(slow, f"{role}_token_id", None) for role in roles}
    return backend, {role: n for role, n in special.items() if n is not None}


@functools.cache
def _limited(tokenizer: Tokenizer, max_length: int) -> tokenizers.Tokenizer:
    copy = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    copy.encode_special_tokens = True
    copy.enable_truncation(max_length, strategy="longest_first")
    return copy


def describe(tokenizer: Tokenizer) -> str:
    """Returns a text that is equal for equal tokenizers; for hashes."""
    return json.dumps([tokenizer.backend.to_str(), sorted(tokenizer.special.items())])
