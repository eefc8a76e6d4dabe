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

from jaxaug.core import typed
from jaxaug.core.buckets import Batch, in_batches
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import one_of
from jaxaug.models.text import language, prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.paraphrase import causal, samplers, version
from jaxaug.paraphrase.arguments import LONGEST
from jaxaug.paraphrase.decoder import Decoder
from jaxaug.paraphrase.endpoint_grid import check_block, check_distinct, product

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
        check_block(block, _KEYS, _KEYS[:3], "grid")
        fields = {k: v for k, v in block.items() if k != "options"}
        typed.check({"options": block.get("options", {})}, Setting, "grid")
        options = dict(block.get("options", {}))
        for chosen in product(fields):
            settings += [_checked(chosen, part) for part in product(options)]
    if not settings:
        raise UserError("grid: holds no setting. Give at least one block.")
    check_distinct([setting.label for setting in settings])
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
        model, params = _asked(setting)
        decoder = Decoder(
            model,
            samplers.find(setting.sampler).build(setting.num, setting.options),
            num=setting.num,
            max_length=setting.max_length,
            key=setting.draws(self._seed),
            params=params,
        )

        def decoded(sources: np.ndarray, batch: Batch) -> np.ndarray:
            return decoder.tokens(sources, [_number(texts[i]) for i in batch.indices])

        most = max(1, self._batch_size // setting.num)
        sequences = [model.encode(text) for text in texts]
        found = in_batches(sequences, most, decoded, model.shared, _SHORTEST)
        return [decoder.texts(own) for own in found]


def _number(text: str) -> int:
    return zlib.crc32(text.encode()) & 0x7FFFFFFF


def identity(name: str) -> str:
    """Returns the identity of a model in keys; see `registry.published_identity`."""
    return registry.published_identity(name) or _loaded(name, "", _PRECISION).identity


def _asked(setting: Setting) -> tuple[registry.TextModel | LanguageModel, Any]:
    """Returns the model with its prompt, and its parameters on the device."""
    published = registry.published_identity(setting.model)
    model = base = _loaded(setting.model, published, setting.precision)
    if setting.prompt is not None:
        if not isinstance(base, LanguageModel):
            raise UserError(
                f"grid: prompt {setting.prompt!r}: model {setting.model!r} takes no "
                "prompt; it reads the text itself. Leave prompt out."
            )
        model = _with_prompt(base, prompts.find(setting.prompt))
    params = _on_device(base)
    if isinstance(model, LanguageModel):
        params = language.with_prefix(params, _prefix(model, base))
    return model, params


@functools.cache
def _loaded(
    name: str, published: str, precision: str
) -> registry.TextModel | LanguageModel:
    """Returns a model; `published` tells the contents of its folder apart."""
    del published
    return registry.with_precision(registry.load(name), precision)


_with_prompt = functools.cache(LanguageModel.with_prompt)


@functools.cache
def _prefix(model: LanguageModel, base: registry.TextModel | LanguageModel) -> Any:
    return causal.prefix(model, _on_device(base))


@functools.cache
def _on_device(model: registry.TextModel | LanguageModel) -> Any:
    return jax.device_put(model.params)
