"""`jaxaug convert`: converts a model between formats.

Input: the folder of a published model (safetensors or PyTorch files), a hub id after
`hf:`, a named model, or a GGUF file. A T5X checkpoint of either layout works too.
Output: a folder that `transformers` or CTranslate2 loads, or a T5X checkpoint of either
layout.
Parameters keep their exact values and dtypes unless another dtype is requested. A GGUF
file is dequantized to float32. A LoRA adapter may be merged into the parameters, and
the adapter of a run may be written as a folder for `peft`.
"""

import dataclasses
import re
import tempfile
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import traverse_util
from jaxaug_base.files import absolute, new_folder
from t5x.examples.scalable_t5 import network as scalable

from jaxaug.core.arguments import Seed
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json
from jaxaug.core.typed import bounded
from jaxaug.feed import vocabulary
from jaxaug.models import t5_weights
from jaxaug.models.arguments import Convert, DType, Format, Precision
from jaxaug.models.engine import runner
from jaxaug.models.engine.runner import CTRANSLATE2 as ENGINE
from jaxaug.models.lora import layout, peft_folder
from jaxaug.models.named import catalogue
from jaxaug.models.text import adapters, checkpoint, in_engine
from jaxaug.models.tokenizers import spelling
from jaxaug.models.weights import families, hf_folder, keymap, t5x_layout

_STEP = re.compile(r"checkpoint_(\d+)")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FORMS = (
    "a folder with config.json, a T5X run or checkpoint, a .gguf file, a name from "
    "`jaxaug models list`, or hf: and an id of the Hugging Face hub"
)


def run(given: Convert) -> int:
    """Runs the verb; see `jaxaug convert --help`."""
    options = dict(vars(given))
    places = options.pop("source"), options.pop("destination")
    del options["accept_changed_config"]
    if given.metrics:
        metrics = read_json(given.metrics, "Name a JSON file with --metrics.")
        if not isinstance(metrics, dict):
            raise UserError(
                f"{given.metrics}: holds no JSON object from names to values."
            )
        options["metrics"] = metrics
    print(f"wrote {convert(*places, form=options.pop('format'), **options)}")
    return 0


@bounded
def convert(
    source: PathLike,
    target: PathLike,
    *,
    form: Format | None = None,
    like: PathLike | None = None,
    data: str | None = None,
    licence: str | None = None,
    metrics: Mapping[str, Any] | None = None,
    seed: Seed | None = None,
    merge_lora: PathLike | None = None,
    unmerge_lora: PathLike | None = None,
    dtype: DType | None = None,
    scan_layers: bool = False,
    precision: Precision | None = None,
) -> epath.Path:
    """Converts a model and returns the folder that was written.

    Args:
        source: one of the inputs that the docstring of this module lists.
        target: folder to write, which must not exist. For T5X, `checkpoint_N` is a step
            of a run folder; any other name is a run folder, which may exist.
        form: format to write; None means `t5x` for a target `checkpoint_N`, else `hf`.
        like: published folder with configuration and tokenizer for a T5X source.
            Without it, the configuration comes from a `network.gin` next to the
            checkpoint. For a T5, both are inferred as far as possible.
        dtype: dtype to which floating-point parameters are rounded; None keeps their
            dtypes.
        scan_layers: whether to write a T5 as stacks of scanned layers, for
            `t5x.examples.scalable_t5`. A source in that form is always unstacked.
        precision: precision of the weights in the format `ctranslate2`; None is
            float32.

    Raises:
        UserError: an argument or a file is wrong, or the target exists.
    """
    out = absolute(target)
    match = _STEP.fullmatch(out.name)
    form = form or ("t5x" if match else "hf")
    if out.suffix == ".gguf":
        raise UserError(
            f"--to {target}: GGUF is read, not written. Name a folder for the format "
            f"{form}."
        )
    if scan_layers and form not in ("t5x", "t5x_legacy"):
        raise UserError("--scan-layers: use it with --format t5x or t5x_legacy.")
    if precision is not None and form != ENGINE:
        raise UserError(
            f"--precision {precision}: use it with --format {ENGINE}; --dtype rounds "
            "the parameters of other formats."
        )
    if form == ENGINE:
        runner.check_installed()
    if like is not None:
        has_config = (absolute(like) / hf_folder.CONFIG).exists()
        if not has_config and not hf_folder.tokenizer_of(like):
            raise UserError(
                f"--like {like}: no such folder, or one without a model. Name a "
                "published folder with configuration and tokenizer."
            )
    if out.exists() and (form in ("hf", "peft", ENGINE) or match):
        raise UserError(f"{target} exists. Name another folder, or remove it.")
    if form == "peft":
        return _write_peft(source, out)
    with tempfile.TemporaryDirectory() as scratch:
        model, tokenizer, step = load(source, like, scratch)
        if merge_lora is not None:
            model = _merged(model, merge_lora, source, 1)
        if unmerge_lora is not None:
            model = _merged(model, unmerge_lora, source, -1)
        if dtype is not None:
            model = dataclasses.replace(model, params=_rounded(model.params, dtype))
        if scan_layers:
            model = _scanned(model, source)
        if form == ENGINE:
            return _write_engine(model, tokenizer, out, precision or "float32")
        if form != "hf":
            return t5x_layout.write(
                out.parent if match else out,
                model.family,
                model.module,
                model.params,
                step=int(match[1]) if match else step,
                legacy=form == "t5x_legacy",
            )
        named = catalogue.CATALOGUE.get(str(source))
        card = hf_folder.Card(
            name=out.name,
            source=named.source if named else _name_of(source),
            data=data,
            licence=licence or (named.licence if named else None),
            metrics=metrics,
            seed=seed,
        )
        keys = model.family.key_map(model.config)
        return hf_folder.write(
            out, model.params, keys, model.hf_config, card, tokenizer
        )


def _merged(
    model: hf_folder.Published, adapter: PathLike, source: PathLike, sign: int
) -> hf_folder.Published:
    found = adapters.load(
        adapter, model.module, model.params, str(source), compare=sign > 0
    )
    params = layout.merge(model.params, found.matrices, found.layout, sign)
    return dataclasses.replace(model, params=params)


def _write_peft(source: PathLike, out: epath.Path) -> epath.Path:
    """Writes the adapter of a run as a folder for `peft`."""
    if not adapters.is_run(source):
        raise UserError(
            f"--format peft: {source} is neither a run with configs/runs/lora.gin nor "
            "one of its checkpoints. Name one."
        )
    base = adapters.base_of_run(source)
    with tempfile.TemporaryDirectory() as scratch:
        model, _, _ = load(base, None, scratch)
    found = adapters.load(source, model.module, model.params, base)
    notes = dataclasses.replace(found.notes, base=_name_of(base))
    return peft_folder.write(
        out, found.matrices, found.layout, notes, peft_folder.BFLOAT16
    )


def _write_engine(
    model: hf_folder.Published,
    tokenizer: Mapping[str, PathLike],
    out: epath.Path,
    precision: str,
) -> epath.Path:
    """Writes a folder for CTranslate2, with the files of the tokenizer."""
    told = model.hf_config
    ends = [told.get(name) for name in ("eos_token_id", "forced_eos_token_id")]
    if file := tokenizer.get("generation_config.json"):
        ends.append(read_json(file, hf_folder.FIX).get("eos_token_id"))
    end = next((one for one in ends if one not in (None, [])), None)
    if end is None:
        raise UserError(
            f"{model.folder}: its configuration names no eos_token_id, which ends an "
            "output in CTranslate2. Name the published folder of the model with --like."
        )
    end = end[0] if isinstance(end, list) else end
    tokens = spelling.of_files(tokenizer)
    unknown = next(
        (tokens.index(one) for one in spelling.UNKNOWN if one in tokens), None
    )
    with new_folder(out) as temporary:
        in_engine.write_folder(
            temporary, model.config, model.params, end=end, unknown=unknown,
            precision=precision, tokens=tokens,
        )  # fmt: skip
        for name, path in tokenizer.items():
            epath.Path(path).copy(temporary / name)
    return out


def _scanned(model: hf_folder.Published, source: PathLike) -> hf_folder.Published:
    if not isinstance(model.config, t5_weights.network.T5Config):
        raise UserError(
            f"--scan-layers: {source} is a {model.family.name}. Only a T5 has a "
            "network of scanned layers; omit the option."
        )
    config = t5_weights.scanned_config(model.config)
    return dataclasses.replace(
        model,
        module=scalable.Transformer(config),
        params=t5_weights.stacked(model.params, config),
    )


def _rounded(params: Mapping[str, Any], dtype: str) -> Mapping[str, Any]:
    flat = {
        path: np.asarray(array).astype(jnp.dtype(dtype))
        if jnp.issubdtype(array.dtype, jnp.floating)
        else array
        for path, array in keymap.flat(params).items()
    }
    return traverse_util.unflatten_dict(flat, sep="/")


def load(
    source: PathLike, like: PathLike | None, scratch: PathLike
) -> tuple[hf_folder.Published, Mapping[str, PathLike], int]:
    """Loads a model from any input; returns it, its tokenizer files, and its step.

    Raises:
        UserError: the source has no known form, or its files are wrong.
    """
    path = _local(source)
    if path.suffix == ".gguf":
        from jaxaug.models.weights import gguf

        if not like:
            gguf.Gguf(path).save_tokenizer(scratch)
        return gguf.load(path), hf_folder.tokenizer_of(like or scratch), 0
    if (path / hf_folder.CONFIG).exists():
        model = hf_folder.load(path, param_dtype=None)
        return model, hf_folder.tokenizer_of(like or path), 0
    return _from_t5x(path, like)


def _name_of(source: PathLike) -> str:
    """Returns the name for the model card: a hub id, or the last part of a path."""
    name = str(source)
    if name.startswith(catalogue.HUB_PREFIX):
        return name.removeprefix(catalogue.HUB_PREFIX)
    return absolute(source).name


def _local(source: PathLike) -> epath.Path:
    path = absolute(source)
    if path.exists():
        return path
    name = str(source)
    if name in catalogue.CATALOGUE or name.startswith(catalogue.HUB_PREFIX):
        folder = catalogue.fetch(name)
        found = [] if (folder / hf_folder.CONFIG).exists() else [*folder.glob("*.gguf")]
        return found[0] if found else folder
    hub = f", such as {catalogue.HUB_PREFIX}{name}" if _HUB_ID.fullmatch(name) else ""
    raise UserError(f"{source}: no such file or folder. Name {_FORMS}{hub}.")


def _from_t5x(
    path: epath.Path, like: PathLike | None
) -> tuple[hf_folder.Published, Mapping[str, PathLike], int]:
    stored = t5x_layout.read(path)
    if t5_weights.is_stacked(stored.params):
        params = t5_weights.unstacked(stored.params, str(path))
        stored = stored._replace(params=params)
    tokenizer: Mapping[str, PathLike] = {}
    if like is not None:
        family, hf_config, config = hf_folder.read_config(like)
        tokenizer = hf_folder.tokenizer_of(like)
    else:
        family, config, tokenizer = _of_run(path, stored)
        hf_config = family.code.to_hf(config)
    module = family.build(config)
    model = hf_folder.Published(
        family, config, module, stored.params, hf_config, epath.Path(path)
    )
    return model, tokenizer, stored.step


def _of_run(
    path: epath.Path, stored: t5x_layout.Stored
) -> tuple[families.Family, Any, Mapping[str, PathLike]]:
    """Returns family, configuration, and SentencePiece model of a checkpoint.

    They come from the run of a T5, from the `network.gin` that `convert` wrote, or from
    the shapes of a T5's parameters.
    """
    folder = path.parent if _STEP.fullmatch(path.name) else path
    t5 = families.FAMILIES["t5"]
    if not (folder / "config.gin").exists():
        if not (folder / t5x_layout.GIN).exists():
            return t5, t5_weights.config_of(stored.params, str(path)), {}
        family, config = t5x_layout.read_gin(folder / t5x_layout.GIN)
        _check_shapes(stored.params, family, config, folder / t5x_layout.GIN)
        return family, config, {}
    model = checkpoint.load(path).model
    config = model.module.config
    if not isinstance(config, t5_weights.network.T5Config):
        raise UserError(
            f"{path}: the network is a {type(model.module).__name__}. Name the "
            "published model that it started from with --like."
        )
    if isinstance(config, scalable.T5Config):
        config = t5_weights.plain_config(config)
    words = model.input_vocabulary
    for name in ("sentencepiece_model_file", "path"):
        if file := getattr(words, name, None):
            vocabulary.load(file)  # Rejects other files before they are published.
            return t5, config, {"spiece.model": file}
    return t5, config, {}


def _check_shapes(
    params: Mapping[str, Any], family: families.Family, config: Any, source: epath.Path
) -> None:
    wanted = family.variables(family.build(config))["params"]
    if differs := keymap.shape_difference(params, wanted):
        path, found, expected = differs
        raise UserError(
            f"{source}: its network needs {path} of shape {expected}, but the "
            f"checkpoint next to it has {found}. Name the published model that it "
            "started from with --like."
        )
