"""A grid of generation settings, and the outputs of models for them."""

import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import numpy as np
from t5x.search.decode_state import check_decodes

from jaxaug.core import typed
from jaxaug.core.buckets import Batch, in_batches
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import nearest, one_of
from jaxaug.models.text import language, prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.paraphrase import causal, decoder, samplers, version
from jaxaug.paraphrase.arguments import LONGEST
from jaxaug.paraphrase.endpoint_grid import product

# The minimum length of inputs, so that one compiled program serves nearly all.
_SHORTEST = 32
_KEYS = ("model", "sampler", "num", "options", "prompt", "max_length", "precision")
_PRECISION = "float32"


@dataclass(frozen=True)
class Setting:
    """One cell of the grid: `num` outputs of each text.

    Attributes:
        prompt: prompt of a language model; None is its default.
        precision: precision of the weights; see `jaxaug.models.text.registry`.
    """

    model: str
    sampler: str
    num: Annotated[int, Range(1)]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    prompt: str | None = None
    max_length: Annotated[int, Range(1, LONGEST)] = 40
    precision: str = _PRECISION

    @property
    def label(self) -> str:
        """Short and distinct: model, sampler, changed options, and number."""
        defaults = samplers.find(self.sampler).complete({})
        parts = [self.model, self.sampler]
        parts += [
            f"{name}={value}"
            for name, value in sorted(self.options.items())
            if value != defaults[name]
        ]
        # Only the name of a file, so labels are the same on all machines.
        parts += [f"prompt={os.path.basename(self.prompt)}"] if self.prompt else []
        parts += [self.precision] if self.precision != _PRECISION else []
        return " ".join([*parts, f"num={self.num}"])

    def key(self) -> dict[str, Any]:
        """Returns everything that determines the outputs as JSON, by content."""
        of_sampler = samplers.find(self.sampler).code
        code = [version.of_outputs() + of_sampler, file_digest(__file__)]
        return {**self._fields(), "code": code}

    def draws(self, seed: int) -> jax.Array:
        """Returns the key of all random draws, another for each setting of a seed.

        The key depends on no name, path, precision, or code of ours, so that versions
        draw the same numbers.
        """
        fields = self._fields()
        del fields["precision"]
        return jax.random.PRNGKey(_number(digest_of([seed, fields])))

    def _fields(self) -> dict[str, Any]:
        found = dataclasses.asdict(self) | {"model": identity(self.model)}
        if self.prompt is not None:
            found["prompt"] = list(prompts.find(self.prompt))
        return json.loads(json.dumps(found))


def grid(blocks: Iterable[Mapping[str, Any]]) -> list[Setting]:
    """Returns the settings of a grid; a list in a block stands for each of its values.

    Raises:
        UserError: there is no block, a field, sampler, or option is unknown or missing,
            a number is below 1, or a setting comes twice.
    """
    settings: list[Setting] = []
    for block in blocks:
        if not isinstance(block, Mapping):
            raise UserError(
                f"grid: {shown(block)} is not a block: write a mapping with {_KEYS}."
            )
        for name in block:
            if name not in _KEYS:
                raise UserError(
                    f"grid: {name!r} is no setting; use {', '.join(_KEYS)}."
                    f"{nearest(name, _KEYS)}"
                )
        for name in _KEYS[:3]:
            if name not in block:
                raise UserError(f"grid: {dict(block)} lacks {name!r}. Add it.")
        fields = {k: v for k, v in block.items() if k != "options"}
        typed.check({"options": block.get("options", {})}, Setting, "grid")
        options = dict(block.get("options", {}))
        for chosen in product(fields):
            settings += [_checked(chosen, part) for part in product(options)]
    if not settings:
        raise UserError("grid: holds no setting. Give at least one block.")
    labels = [setting.label for setting in settings]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(
                f"grid: {label!r} comes twice. Leave one out, or ask for more outputs "
                "with num."
            )
    return settings


def _checked(fields: dict[str, Any], options: dict[str, Any]) -> Setting:
    typed.check(fields, Setting, "grid")
    sampler = samplers.find(fields["sampler"])
    setting = Setting(**fields, options=sampler.complete(options))
    sampler.build(setting.num, setting.options)  # Refuses options out of range.
    if setting.precision not in registry.PRECISIONS:
        raise UserError(
            f"grid: precision {setting.precision!r}: "
            f"{one_of(setting.precision, registry.PRECISIONS)}"
        )
    if setting.prompt is not None:
        prompts.find(setting.prompt)
    return setting


class Paraphraser:
    """Outputs of the settings of a grid; models are loaded once, at first use.

    An output depends on the text, the setting, and the seed, but not on the other texts
    or their order.
    """

    def __init__(self, seed: int, batch_size: int = 64):
        """`batch_size` outputs are decoded together, at least those for one text."""
        self._seed, self._batch_size = seed, batch_size

    def __call__(self, setting: Setting, texts: Sequence[str]) -> list[list[str]]:
        """Returns `setting.num` outputs of each text, as the model wrote them."""
        model = _prompted(setting)
        sequences = [model.encode(text) for text in texts]
        shared = model.shared if isinstance(model, LanguageModel) else 0

        def decoded(sources: np.ndarray, batch: Batch) -> list[list[str]]:
            ids = np.resize([_number(texts[i]) for i in batch.indices], batch.rows)
            return self._decode(setting, sources, ids)

        most = max(1, self._batch_size // setting.num)
        return in_batches(sequences, most, decoded, shared, _SHORTEST)

    def _decode(
        self, setting: Setting, sources: np.ndarray, ids: np.ndarray
    ) -> list[list[str]]:
        model = _prompted(setting)
        sampler = samplers.find(setting.sampler)
        is_causal = isinstance(model, LanguageModel)
        program: Any = causal.decode if is_causal else decoder.decode
        decodes = program(
            model.bare,
            sampler.build(setting.num, setting.options),
            setting.num,
            setting.max_length,
            _ready(setting),
            sources,
            ids.astype(np.int32),
            setting.draws(self._seed),
        )
        check_decodes(decodes)
        # Decode functions return the best output last.
        return [
            [model.decode([t for t in tokens if t]) for tokens in row]
            for row in np.asarray(decodes)[:, ::-1].tolist()
        ]


def _number(text: str) -> int:
    return zlib.crc32(text.encode()) & 0x7FFFFFFF


def identity(name: str) -> str:
    """Returns the identity of a model in keys; see `registry.published_identity`."""
    return registry.published_identity(name) or _current(name).identity


@functools.cache
def _model(name: str) -> registry.TextModel | LanguageModel:
    return registry.load(name)


def _current(name: str) -> registry.TextModel | LanguageModel:
    """Returns the model; reads it again if its folder holds another one now."""
    model, published = _model(name), registry.published_identity(name)
    if published and model.identity != published:
        for cache in (_model, _precise, _on_device, _prefix):
            cache.cache_clear()
        model = _model(name)
    return model


def _of_precision(setting: Setting) -> registry.TextModel | LanguageModel:
    return _precise(_current(setting.model), setting.precision)


@functools.cache
def _precise(
    model: registry.TextModel | LanguageModel, wanted: str
) -> registry.TextModel | LanguageModel:
    return registry.with_precision(model, wanted)


def _prompted(setting: Setting) -> registry.TextModel | LanguageModel:
    model, prompt = _of_precision(setting), setting.prompt
    if prompt is None:
        return model
    if not isinstance(model, LanguageModel):
        raise UserError(
            f"grid: prompt {prompt!r}: model {setting.model!r} takes no prompt; it "
            "reads the text itself. Leave prompt out."
        )
    return _with_prompt(model, prompts.find(prompt))


@functools.cache
def _with_prompt(
    model: LanguageModel, prompt: prompts.Prompt | prompts.Chat
) -> LanguageModel:
    return model.with_prompt(prompt)


def _ready(setting: Setting) -> Any:
    """Returns the parameters on the device, with the prefix of the prompt."""
    model, current = _prompted(setting), _of_precision(setting)
    params = _on_device(current)
    if isinstance(model, LanguageModel):
        return language.with_prefix(params, _prefix(model, current))
    return params


@functools.cache
def _prefix(model: LanguageModel, current: registry.TextModel | LanguageModel) -> Any:
    return causal.prefix(model, _on_device(current))


@functools.cache
def _on_device(model: registry.TextModel | LanguageModel) -> Any:
    return jax.device_put(model.params)
