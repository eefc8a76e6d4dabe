"""Loads adapters for loaded models, from a `peft` folder or from a training run."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from flax import linen as nn
from jaxaug_base.files import absolute
from t5x import checkpoints

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text
from jaxaug.models.lora import layout, peft_folder
from jaxaug.models.lora.layout import Layout, check, family_of, layout_of
from jaxaug.models.lora.peft_folder import Notes
from jaxaug.models.text import prompts, run_config

_CONFIG, _ADAPTER, _BASE, _TASK = "config.gin", "ADAPTER", "BASE", "TASK"
_FIX = (
    f"Name a folder with {peft_folder.CONFIG}, or the folder of a run with "
    "configs/runs/lora.gin or one of its checkpoints."
)


class Adapter(NamedTuple):
    """An adapter of a loaded network; `label` has the step for a run."""

    layout: Layout
    matrices: Mapping[str, Any]
    notes: Notes
    label: str


def load(
    source: PathLike,
    module: nn.Module,
    params: Mapping[str, Any],
    base_name: str,
    compare: bool = True,
) -> Adapter:
    """Loads an adapter for a loaded base.

    Args:
        source: folder in the format of `peft`, folder of a run of
            `configs/runs/lora.gin`, or one of its checkpoints.
        compare: whether `params` must equal the base that the adapter was trained on.

    Raises:
        UserError: the adapter is missing or damaged, or it belongs to another base.
    """
    folder = absolute(source)
    family = family_of(module)
    config = module.config  # type: ignore[attr-defined]
    matrices: Mapping[str, Any]
    if peft_folder.is_adapter(folder):
        settings = peft_folder.read_settings(folder)
        found = layout_of(family, config, params, settings)
        matrices, notes = peft_folder.read(folder, found)
        label = folder.name
    elif is_run(folder):
        root, step = _root_and_step(folder)
        found = layout_of(family, config, params, _of_config(root, _ADAPTER))
        matrices, notes = _of_checkpoint(root, step, found)
        label = f"{root.name}@{step}"
    else:
        raise UserError(f"{source} holds no adapter. {_FIX}")
    if compare and notes.base_digest:
        layout.check_base(
            notes.base_digest, layout.digest(params), str(source), base_name
        )
    return Adapter(found, matrices, notes, label)


def merged(params: Mapping[str, Any], adapter: Adapter) -> dict[str, Any]:
    """Returns the parameters of a base with an adapter merged in."""
    return layout.merge(params, adapter.matrices, adapter.layout)


def is_run(folder: PathLike) -> bool:
    """Returns whether a folder is a run that trained an adapter, or its checkpoint."""
    path = _root_and_step(absolute(folder), find=False)[0] / _CONFIG
    if not path.exists():
        return False
    return re.search(rf"(?m)^{_ADAPTER} = ", read_text(path, _FIX)) is not None


def base_of_run(folder: PathLike) -> str:
    """Returns the name or path of the base of a run's adapter: its `BASE`."""
    return str(_of_config(_root_and_step(absolute(folder), find=False)[0], _BASE))


def _of_config(root: epath.Path, name: str) -> Any:
    return run_config.build(root / _CONFIG, name)


def _root_and_step(folder: epath.Path, find: bool = True) -> tuple[epath.Path, int]:
    if match := re.fullmatch(r"checkpoint_(\d+)", folder.name):
        return folder.parent, int(match[1])
    step = checkpoints.latest_step(folder) if find else 0
    if step is None:
        raise UserError(f"{folder} holds no complete checkpoint. {_FIX}")
    return folder, step


def _of_checkpoint(
    root: epath.Path, step: int, found: Layout
) -> tuple[Mapping[str, Any], Notes]:
    try:
        state = checkpoints.load_t5x_checkpoint(root, step)
    except UserError as error:
        raise UserError(f"{error} {_FIX}") from error
    check(found, state["target"], f"{root}/checkpoint_{step}")
    digest = np.asarray(state["flax_mutables"]["base_digest"], np.uint8)
    notes = Notes(bytes(digest).hex(), _of_config(root, _BASE), _prompt_of(root))
    return state["target"], notes


def _prompt_of(root: epath.Path) -> str:
    """Returns the prompt that has the name of the run's task, else the plain one."""
    try:
        task = str(_of_config(root, _TASK))
    except UserError:  # The file defines no TASK.
        task = ""
    return prompts.PROMPTS.get(task, prompts.PROMPTS[prompts.PLAIN])
