"""The models that can be named on a command line, and what a named model is.

A model is a name of the table below or of the catalogue, the folder of a T5X run, or
the folder of a published model; with `+` and a folder behind it, that model with an
adapter.
"""

import dataclasses
import functools
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import tokenizers
from etils import epath
from flax import linen as nn
from jaxtyping import Array
from t5x.examples.t5 import network

import jaxaug
from jaxaug.core import cache_folder, extensions
from jaxaug.core.errors import UserError
from jaxaug.core.paths import absolute
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import clean
from jaxaug.data import minisgd, seen
from jaxaug.feed import vocabulary
from jaxaug.models.lora import peft_folder
from jaxaug.models.named import catalogue, identities
from jaxaug.models.text import adapters, checkpoint, ends, language, prompts
from jaxaug.models.text.random_parameters import draw_parameters
from jaxaug.models.tokenizers import hf, marian
from jaxaug.models.weights import hf_folder, pins

MINISGD_RUN = "runs/paraphrase_minisgd"
_MINISGD_COMMAND = "python -m t5x.train --gin_file=configs/paraphrase_minisgd.gin"
# Beside the package lies configs/, if this is a checkout.
_CHECKOUT = Path(jaxaug.__file__).resolve().parent.parent
_VOCABULARY_MULTIPLE = 128
_SENTENCEPIECE = "spiece.model"
_PLUS = "+"


@dataclasses.dataclass(frozen=True, eq=False)
class TextModel:
    """An encoder-decoder with its parameters and vocabularies.

    Equal to itself alone, so that it can be a static argument of compiled programs.

    Attributes:
        label: name and version, for the records of a run, such as `minisgd@500`.
        module: has `encode` and `decode`, as `t5x.examples.t5.network.Transformer`.
        params: of the module.
        input_vocabulary: with `encode`, `eos_id`; a SeqIO vocabulary or alike.
        output_vocabulary: with `decode`, `eos_id`.
        lowercase: whether the vocabulary knows lower case only.
        prompt: what the model reads for a text.
        first: tokens before every input: a start token, control fields.
        ends: ids that end an output as EOS does; see `ends.listed`.
        published: see `published_identity`; empty for a model of ours or a T5X run.
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

    @functools.cached_property
    def identity(self) -> str:
        """What stands for the model in keys, whatever it is called."""
        words = (self.input_vocabulary, self.output_vocabulary)
        return self.published or identities.of_parameters(
            self.module, self.params, *words
        )

    @functools.cached_property
    def bare(self) -> "TextModel":
        """The same model without parameters, for compiled programs to hold on to."""
        return dataclasses.replace(self, params={})

    def encode(self, text: str) -> list[int]:
        """Tokens of an input in its prompt, EOS included."""
        text = self.prompt(clean(text, self.lowercase))
        words = self.input_vocabulary
        return [*self.first, *words.encode(text), words.eos_id]

    @functools.cached_property
    def around(self) -> tuple[int, int]:
        """Tokens before and after the text in every input, EOS among the latter.

        They are what the inputs of two texts that have nothing in common share.
        """
        if self.prompt is str:
            return len(self.first), 1
        # Two words that hardly any vocabulary takes apart.
        one, other = self.encode("the"), self.encode("is it")
        least = min(len(one), len(other))
        before = _alike(one[:least], other[:least])
        after = _alike(one[::-1][: least - before], other[::-1][: least - before])
        return before, after

    def decode(self, tokens: list[int]) -> str:
        """Text of an output up to its first EOS, in one line."""
        return clean(self.output_vocabulary.decode(tokens), False)

    def end_together(self, logits: Array) -> Array:
        """Logits [..., vocab] with all that ends an output as one token: EOS."""
        return ends.together(logits, self.ends, self.output_vocabulary.eos_id)


def _alike(one: list[int], other: list[int]) -> int:
    """How many tokens two lists begin with in common."""
    pairs = zip(one, other, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(one))


def load(name: str) -> TextModel | language.LanguageModel:
    """The model of that name in the registry or the catalogue, or of that folder.

    Args:
        name: a key of `MODELS` or of the catalogue, else the folder of a T5X run, or of
            one of its checkpoints, whose `config.gin` defines `MODEL`, else the folder
            of a published encoder-decoder or decoder-only model. `NAME+FOLDER` is a
            model with the adapter in a folder (see `adapters.load`); a named adapter,
            and a run that trained one, stand for their base with it.

    Raises:
        UserError: neither a name nor a folder, or the folder holds no usable model, or
            the named model is not on this machine; the message has the command to get
            it.
    """
    base, adapter = _parts(name)
    model = _adapted(load(base), adapter, base) if adapter else _loaded(name)
    published = published_identity(name)
    return dataclasses.replace(model, published=published) if published else model


def with_adapter(name: str, adapter: str | None) -> str:
    """The name for `load` of a model with an adapter, if there is one."""
    return f"{name}{_PLUS}{adapter}" if adapter else name


def _parts(name: str) -> tuple[str, str]:
    """Base and adapter of a name; the adapter is empty if there is none."""
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


def seen_services(name: str) -> frozenset[str]:
    """What is noted beside the adapter of a model, if it has one: see `data.seen`.

    Raises:
        UserError: see `load`; the note is damaged.
    """
    adapter = _parts(name)[1]
    return seen.read(absolute(adapter)) if adapter else frozenset()


def published_identity(name: str) -> str:
    """The `identity` of a published model, which need not be loaded for it.

    It stands for the weights, the configuration, the tokenizer, and the prompt of a
    named model: copies of a folder have the same, whatever they are called.

    Args:
        name: see `load`.

    Returns:
        Nothing for a model of ours or a T5X run, of which it stands for the parameters,
            the network and the vocabularies.

    Raises:
        UserError: see `load`.
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
            f"model {name!r} is no name of the model registry and no folder; "
            f"{suggestion(name, [*MODELS, *catalogue.CATALOGUE])}"
        )
    if language.is_language_model(folder):
        return language.load(folder, folder.name)
    if (folder / hf_folder.CONFIG).exists():
        return _published(folder, folder.name)
    return _restored(folder, folder.name)


def random_tiny() -> TextModel:
    """A T5 of 0.3 M parameters that has learned nothing; always the same one."""
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
    """The model that `configs/paraphrase_minisgd.gin` trains."""
    places, there = [absolute(MINISGD_RUN)], ""
    if (_CHECKOUT / "configs").is_dir():
        # Trained from the current folder, or from that of our own files. A wheel has
        # none, and trains wherever it is called.
        places.append(epath.Path(_CHECKOUT / MINISGD_RUN))
        there = f"cd {shlex.quote(str(_CHECKOUT))} && "
    for folder in places:
        if folder.is_dir():
            return _restored(folder, "minisgd")
    names = " and no folder ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"model 'minisgd' is not trained yet: there is no folder {names}. Train it with "
        f"`{there}{_MINISGD_COMMAND}`, or name the folder of another run."
    )


def _named(model: catalogue.Named) -> TextModel | language.LanguageModel:
    pins.verify(model.checked_folder)
    label = f"{model.name}@{model.commit}"
    if language.is_language_model(model.folder):
        return language.load(model.folder, label)
    loaded = _published(model.folder, label)
    if not model.controls:
        return dataclasses.replace(loaded, prompt=model.input)
    return dataclasses.replace(loaded, first=_control_tokens(model))


def _published(folder: epath.Path, label: str) -> TextModel:
    """A published encoder-decoder with the tokenizer in its folder."""
    family, hf_config, _ = hf_folder.read_config(folder)
    if family.kind != "encoder_decoder":
        raise UserError(
            f"{folder}: is a {family.name}, which writes no text. Name an "
            "encoder-decoder or a language model."
        )
    model = hf_folder.load(folder)
    id_offset = getattr(model.config, "id_offset", 0)
    rows = getattr(model.config, "decoder_vocab_size", None) or model.config.vocab_size
    found = ends.listed(folder, rows, id_offset)
    make = functools.partial(TextModel, label, model.module, model.params, ends=found)
    sentencepiece = folder / _SENTENCEPIECE
    if family.name == "t5" and sentencepiece.exists():
        words = vocabulary.TokenVocabulary(sentencepiece)
        return make(words, words, _lowercase(words))
    if (folder / marian.SOURCE).exists():
        return make(*marian.load(folder, id_offset), False)
    published: Any = hf.load(folder, id_offset)
    # Of these families, only BART reads a token before the text.
    first = (published.bos_id,) if hf_config["model_type"] == "bart" else ()
    return make(published, published, False, first=first)


def _control_tokens(model: catalogue.Named) -> tuple[int, ...]:
    """Ids of the control fields before the text, which are special tokens.

    Raises:
        UserError: they are no special tokens of the fetched tokenizer.
    """
    fields = model.input("")
    # Not the tokenizer of texts, which reads no special tokens.
    own = tokenizers.Tokenizer.from_str(hf.load(model.folder).backend.to_str())
    for field in fields.split():
        if field not in own.get_vocab():
            raise UserError(
                f"{model.folder}: its tokenizer does not know the control field "
                f"{field}. Remove the folder and run `jaxaug models fetch "
                f"{model.name}`."
            )
    return tuple(own.encode(fields, add_special_tokens=False).ids)


def _restored(folder: epath.Path, name: str) -> TextModel:
    run = checkpoint.load_writer(folder)
    model = run.model
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
    """Whether no piece of a SentencePiece vocabulary has an upper-case letter."""
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
