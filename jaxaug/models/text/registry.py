"""Registry of the models that can be named on a command line.

A model is a name in the table below or in the catalogue, or the folder of a T5X run or
of a published model. `NAME+FOLDER` is a model with the adapter in a folder.
"""

import dataclasses
import functools
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import flax
import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from etils import epath
from flax import linen as nn
from flax import traverse_util
from jaxaug_base.files import absolute
from jaxtyping import Array
from t5x import models
from t5x.examples.t5 import network
from t5x.feed.vocabularies import check_rows

import jaxaug
from jaxaug.core import cache_folder, extensions, pins
from jaxaug.core.errors import UserError
from jaxaug.core.files import is_remote, reach
from jaxaug.core.suggestion import one_of, suggestion
from jaxaug.core.text import clean
from jaxaug.data import minisgd
from jaxaug.feed import vocabulary
from jaxaug.models.layers import int8
from jaxaug.models.lora import peft_folder
from jaxaug.models.named import catalogue, identities
from jaxaug.models.text import adapters, checkpoint, language, prompts
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.tokenizers import hf, marian
from jaxaug.models.weights import hf_folder

MINISGD_RUN = "runs/paraphrase_minisgd"
_MINISGD_COMMAND = "python -m t5x.train --gin_file=configs/paraphrase_minisgd.gin"
# In a checkout, the package is next to configs/.
_CHECKOUT = Path(jaxaug.__file__).resolve().parent.parent
_VOCABULARY_MULTIPLE = 128
_SENTENCEPIECE = "spiece.model"
_PLUS = "+"


@dataclasses.dataclass(frozen=True, eq=False)
class TextModel(language.Loaded):
    """An encoder-decoder with its parameters and vocabularies.

    Attributes:
        label: name and version, for the records of a run, such as `minisgd@500`.
        module: network with `encode` and `decode`, like
            `t5x.examples.t5.network.Transformer`.
        input_vocabulary: vocabulary with `encode` and `eos_id`, such as one of SeqIO.
        output_vocabulary: vocabulary with `decode` and `eos_id`.
        prompt: returns the input of the model for a text.
        first: tokens before every input: a start token, control fields.
        ends: ids that end an output in addition to EOS; see `language.listed`.
    """

    label: str
    module: nn.Module
    params: Mapping[str, Any]
    input_vocabulary: Any
    output_vocabulary: Any
    lowercase: bool
    prompt: Callable[[str], str] = str
    first: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    published: str = ""

    @property
    def vocabularies(self) -> tuple[Any, ...]:
        return self.input_vocabulary, self.output_vocabulary

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of an input in its prompt, including EOS."""
        text = self.prompt(clean(text, self.lowercase))
        words = self.input_vocabulary
        return [*self.first, *words.encode(text), words.eos_id]

    @functools.cached_property
    def around(self) -> tuple[int, int]:
        """Number of tokens before and after the text in every input, including EOS."""
        if self.prompt is str:
            return len(self.first), 1
        # Hardly any vocabulary splits these words.
        one, other = self.encode("the"), self.encode("is it")
        least = min(len(one), len(other))
        before = _alike(one[:least], other[:least])
        after = _alike(one[::-1][: least - before], other[::-1][: least - before])
        return before, after

    def decode(self, tokens: list[int]) -> str:
        """Returns the text of an output up to its first EOS, in one line."""
        return clean(self.output_vocabulary.decode(tokens), False)

    def end_together(self, logits: Array) -> Array:
        """Returns logits [..., vocab] with all ending tokens merged into EOS."""
        return language.together(logits, self.ends, self.output_vocabulary.eos_id)


def _alike(one: list[int], other: list[int]) -> int:
    """Returns the length of the common beginning of two lists."""
    pairs = zip(one, other, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(one))


def load(name: str) -> TextModel | language.LanguageModel:
    """Loads a model by its name in the registry or the catalogue, or from a folder.

    Args:
        name: key of `MODELS` or of the catalogue. Otherwise, the folder of a T5X run,
            or of one of its checkpoints, whose `config.gin` defines `MODEL`. Otherwise,
            the folder of a published encoder-decoder or decoder-only model.
            `NAME+FOLDER` is a model with the adapter in a folder (see `adapters.load`).
            A named adapter, and a run that trained one, mean their base with the
            adapter.

    Raises:
        UserError: there is neither such a name nor such a folder, the folder holds no
            usable model, or the named model is not on this machine. The message has the
            command that downloads it.
    """
    base, adapter = _parts(name)
    model = _adapted(load(base), adapter, base) if adapter else _loaded(name)
    published = published_identity(name)
    return dataclasses.replace(model, published=published) if published else model


def described(name: str) -> LanguageModel | None:
    """Returns a named language model without its parameters.

    It has the identity of the whole model, and an adapter does not change the rest, so
    it can stand for a model in CTranslate2. None if the name means no such model.

    Raises:
        UserError: see `load`.
    """
    base, _ = _parts(name)
    identity = published_identity(name) if base in catalogue.CATALOGUE else ""
    if not identity:
        return None
    folder = catalogue.CATALOGUE[base].checked_folder
    if not language.is_language_model(folder):
        return None
    pins.verify(folder)
    model = language.load(folder, name, weights=False)
    return dataclasses.replace(model, published=identity)


def with_adapter(name: str, adapter: str | None) -> str:
    """Returns the name for `load` of a model with an adapter, if one is given."""
    return f"{name}{_PLUS}{adapter}" if adapter else name


def _parts(name: str) -> tuple[str, str]:
    """Returns the base and the adapter in a name; the adapter may be empty."""
    for part in name.split(_PLUS):
        if is_remote(part):
            reach(part, "Name a model on this machine, or check the address.")
    named = catalogue.CATALOGUE.get(name)
    if named and named.base:
        return named.base, str(named.checked_folder)
    if _PLUS in name and not absolute(name).exists():
        base, _, adapter = name.partition(_PLUS)
        return base, adapter
    if name not in MODELS and name not in catalogue.CATALOGUE and adapters.is_run(name):
        return adapters.base_of_run(name), name
    return name, ""


def _adapted(
    model: TextModel | language.LanguageModel, adapter: str, base: str
) -> TextModel | language.LanguageModel:
    found = adapters.load(adapter, model.module, model.params, base)
    model = dataclasses.replace(
        model,
        label=f"{model.label}{_PLUS}{found.label}",
        params=adapters.merged(model.params, found),
        published="",
    )
    if found.notes.prompt and isinstance(model, language.LanguageModel):
        prompt = prompts.parse(found.notes.prompt, adapter)
        return dataclasses.replace(model, prompt=prompt, trained_prompt=True)
    return model


def published_identity(name: str) -> str:
    """Returns the `identity` of a published model without loading it.

    It covers the weights, the configuration, the tokenizer, and the prompt of a named
    model. Copies of a folder have the same identity, whatever their names.

    Returns:
        The identity; empty for a model of ours or a T5X run, whose identity comes from
        the parameters, the network, and the vocabularies.
    """
    base, adapter = _parts(name)
    if adapter:
        known = published_identity(base)
        if not known or not peft_folder.is_adapter(adapter):
            return ""
        return f"{known} {identities.of_folder(absolute(adapter))}"
    if name in MODELS:
        return ""
    folder, prompt = epath.Path(name).expanduser(), ""
    if name.startswith(catalogue.HUB_PREFIX) and not folder.exists():
        folder = catalogue.fetched(name)
    elif name in catalogue.CATALOGUE:
        named = catalogue.CATALOGUE[name]
        folder, prompt = named.checked_folder, named.input("")
    elif not (
        (folder / hf_folder.CONFIG).exists() or language.is_language_model(folder)
    ):
        return ""
    found = identities.of_folder(folder)
    return f"{found} {prompt}" if prompt else found


def _loaded(name: str) -> TextModel | language.LanguageModel:
    if name in MODELS:
        return MODELS[name]()
    if name in catalogue.CATALOGUE:
        return _named(catalogue.CATALOGUE[name])
    folder = absolute(name)
    if not folder.is_dir():
        raise UserError(
            f"model {name!r} is neither in the model registry nor a folder; "
            f"{suggestion(name, [*MODELS, *catalogue.CATALOGUE])}"
        )
    if language.is_language_model(folder):
        return language.load(folder, folder.name)
    if (folder / hf_folder.CONFIG).exists():
        return _published(folder, folder.name)
    return _restored(folder, folder.name)


def random_tiny() -> TextModel:
    """Returns an untrained T5 of 0.3 M parameters, which is always the same."""
    path = vocabulary.train_words(minisgd.materialise(cache_folder.cache_dir()))
    words = vocabulary.TokenVocabulary(path)
    config = network.T5Config(
        vocab_size=-(-words.vocab_size // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE,
        dtype=jnp.float32,
        emb_dim=64,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        head_dim=16,
        mlp_dim=128,
        mlp_activations=("gelu", "linear"),
        dropout_rate=0.0,
        logits_via_embedding=False,
    )
    module = network.Transformer(config)
    params = draw_parameters(module, words)
    return TextModel("random-tiny", module, params, words, words, _lowercase(words))


def trained_on_minisgd() -> TextModel:
    """Returns the model that `configs/paraphrase_minisgd.gin` trains."""
    places, there = [absolute(MINISGD_RUN)], ""
    if (_CHECKOUT / "configs").is_dir():
        # Runs may be in the current folder or in the checkout. An installed wheel has
        # no configs, and trains in the current folder.
        places.append(epath.Path(_CHECKOUT / MINISGD_RUN))
        there = f"cd {shlex.quote(str(_CHECKOUT))} && "
    for folder in places:
        if folder.is_dir():
            return _restored(folder, "minisgd")
    names = " and no folder ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"model 'minisgd' is not trained yet: there is no folder {names}. Train it "
        f"with `{there}{_MINISGD_COMMAND}`, or name the folder of another run."
    )


def _named(model: catalogue.Named) -> TextModel | language.LanguageModel:
    pins.verify(model.checked_folder)
    label = f"{model.name}@{model.commit}"
    if language.is_language_model(model.folder):
        return language.load(model.folder, label)
    loaded = _published(model.folder, label)
    if not model.controls:
        return dataclasses.replace(loaded, prompt=model.input)
    words, fields = hf.load(model.folder), model.input("")
    return dataclasses.replace(loaded, first=control_tokens(words, fields, label))


def _published(folder: epath.Path, label: str) -> TextModel:
    """Loads a published encoder-decoder with the tokenizer in its folder."""
    family, hf_config, _ = hf_folder.read_config(folder)
    if family.kind != "encoder_decoder":
        raise UserError(
            f"{folder} is a {family.name}, which writes no text. Name an "
            "encoder-decoder or a language model."
        )
    model = hf_folder.load(folder)
    id_offset = getattr(model.config, "id_offset", 0)
    rows = getattr(model.config, "decoder_vocab_size", None) or model.config.vocab_size
    found = language.listed(folder, rows, id_offset)

    def make(
        inputs: Any, outputs: Any, lowercase: bool = False, first: tuple[int, ...] = ()
    ) -> TextModel:
        parts = label, model.module, model.params, inputs, outputs, lowercase
        made = TextModel(*parts, first=first, ends=found)
        check_rows(made, folder)
        return made

    sentencepiece = folder / _SENTENCEPIECE
    if family.name == "t5" and sentencepiece.exists():
        words = vocabulary.TokenVocabulary(sentencepiece)
        return make(words, words, lowercase=_lowercase(words))
    if (folder / marian.SOURCE).exists():
        return make(*marian.load(folder, id_offset))
    published: Any = hf.load(folder, id_offset)
    # Of these families, only BART reads a token before the text.
    first = (published.bos_id,) if hf_config["model_type"] == "bart" else ()
    return make(published, published, first=first)


def control_tokens(words: hf.Tokenizer, fields: str, label: str) -> tuple[int, ...]:
    """Returns ids of control fields, such as `COND_SEMANTIC_SIM_80
    COND_LEXICAL_DIV_30`, which are special tokens.

    Raises:
        UserError: the tokenizer lacks a field.
    """
    # The tokenizer of texts reads no special tokens, so this is a separate one.
    own = tokenizers.Tokenizer.from_str(words.backend.to_str())
    known = own.get_vocab()
    for field in fields.split():
        if field not in known:
            raise UserError(
                f"{label}: its tokenizer does not know the control field {field}. "
                "Remove the folder of the model, and fetch it again."
            )
    ids = own.encode(fields, add_special_tokens=False).ids
    return tuple(number + words.id_offset for number in ids)


def _restored(folder: epath.Path, name: str) -> TextModel:
    run = checkpoint.load_writer(folder)
    model = run.model
    check_rows(model, folder)
    words = model.input_vocabulary
    return TextModel(
        f"{name}@{run.step}",
        model.module,
        run.params,
        words,
        model.output_vocabulary,
        _lowercase(words),
    )


def _lowercase(words: Any) -> bool:
    """Returns whether no piece of a SentencePiece vocabulary has upper case."""
    processor = getattr(words, "processor", None) or getattr(words, "tokenizer", None)
    if processor is None:
        return False
    return not any(
        piece != piece.lower()
        for index in range(processor.get_piece_size())
        if not processor.is_byte(index)
        for piece in [processor.id_to_piece(index)]
    )


Loader = Callable[[], TextModel | language.LanguageModel]

MODELS: Mapping[str, Loader] = extensions.Table[Loader](
    {"random-tiny": random_tiny, "minisgd": trained_on_minisgd},
    "models",
    taken=catalogue.CATALOGUE,
)


def draw_parameters(module: nn.Module, words: Any) -> Mapping[str, Any]:
    """Returns parameters drawn by NumPy, ten times as fast as by flax."""
    names = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")
    model = models.EncoderDecoderModel(module, words, words, None)
    shapes = jax.eval_shape(
        lambda: flax.core.unfreeze(
            model.get_initial_variables(
                jax.random.PRNGKey(0), dict.fromkeys(names, (1, 8))
            )["params"]
        )
    )
    rng = np.random.default_rng(0)

    def draw(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        if path[-1].key == "scale":
            return np.ones(leaf.shape, np.float32)
        fan_in = leaf.shape[0] if path[-1].key == "kernel" else 1
        return rng.standard_normal(leaf.shape, np.float32) / np.float32(fan_in**0.5)

    return jax.tree_util.tree_map_with_path(draw, shapes)


PRECISIONS = ("float32", "bfloat16", "int8")
Model = TypeVar("Model", bound=TextModel | LanguageModel)


def with_precision(model: Model, precision: str) -> Model:
    """Returns the model with its weights in a precision of `PRECISIONS`.

    The precision holds for linear maps and token embeddings, which are nearly all
    weights. With bfloat16, the computation is in bfloat16 too, which is fastest on
    accelerators. Int8 weights are converted to floats for each product; see
    `jaxaug.models.layers.int8`.

    Raises:
        UserError: an unknown precision, or a network that does not support it.
    """
    if precision not in PRECISIONS:
        raise UserError(
            f"precision {precision!r} is not known; "
            f"{one_of(precision, PRECISIONS, 'give')}"
        )
    if precision == "float32":
        return model
    tokens = jnp.ones((1, 4), jnp.int32)
    inputs = 2 if isinstance(model, LanguageModel) else 3
    call: Any = functools.partial(
        model.module.apply,
        {"params": model.params},
        *[tokens] * inputs,
        enable_dropout=False,
    )
    found = int8.found(call)
    if precision == "bfloat16":
        return _in_bfloat16(model, found)
    params = int8.quantised(model.params, found)
    if params.keys() == model.params.keys() and not _has_scales(params):
        raise UserError(
            f"model {model.label!r}: its network has no layer that supports int8 "
            "weights. Leave the precision at float32."
        )
    return dataclasses.replace(model, params=params)


def _in_bfloat16(model: Model, weights: Iterable[int8.Path]) -> Model:
    config: Any = getattr(model.module, "config", None)
    if not hasattr(config, "dtype"):
        raise UserError(
            f"model {model.label!r}: its network has no config with a dtype that could "
            "be bfloat16. Leave the precision at float32."
        )
    module = model.module.clone(config=dataclasses.replace(config, dtype=jnp.bfloat16))
    flat = traverse_util.flatten_dict(dict(model.params))
    for path in weights:
        flat[path] = np.asarray(flat[path]).astype(jnp.bfloat16)
    return dataclasses.replace(
        model, module=module, params=traverse_util.unflatten_dict(flat)
    )


def _has_scales(params: Any) -> bool:
    return isinstance(params, dict) and any(
        name.endswith("_scale") or _has_scales(value) for name, value in params.items()
    )
