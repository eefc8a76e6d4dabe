"""Tokenizer of DeBERTa v2 and v3: a SentencePiece model with BERT's special tokens.

Some models only have `spm.model`, which is read here. Others have the converted
`tokenizer.json`, which `hf` reads. Both need the guard in this module.
"""

import re
from typing import Any

import tokenizers
from etils import epath
from sentencepiece import sentencepiece_model_pb2
from tokenizers import normalizers, pre_tokenizers, processors

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_bytes
from jaxaug.models.weights import hf_config

FILE = "spm.model"
_CONFIG = "tokenizer_config.json"
_FIX = "Get the model again."
_FIRST, _LAST, _MASK = "[CLS]", "[SEP]", "[MASK]"
_ROLES = {"bos": _FIRST, "eos": _LAST, "unk": "[UNK]", "pad": "[PAD]", "mask": _MASK}
_BLANK = "\u2581"


def read(path: epath.Path) -> tuple[tokenizers.Tokenizer, dict[str, int]]:
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
            f"tokenizer of DeBERTa has. {_FIX}"
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
    data = read_bytes(path, _FIX)
    try:
        model.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - the class depends on the implementation
        raise UserError(
            f"{path} is not a model of SentencePiece ({error!s:.200}). {_FIX}"
        ) from None
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise UserError(
            f"{path} is not a unigram model of SentencePiece, but models of DeBERTa "
            f"are. {_FIX}"
        )
    return model


def _options(path: epath.Path) -> dict[str, bool]:
    config = hf_config.read_object(path, _FIX) if path.exists() else {}
    options = {}
    for name in ("do_lower_case", "split_by_punct"):
        options[name] = config.get(name, False)
        if not isinstance(options[name], bool):
            raise UserError(
                f"{path}: {name} is {options[name]!r}, but must be true or false. "
                f"{_FIX}"
            )
    return options
