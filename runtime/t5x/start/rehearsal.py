"""The dry run of a program: reads what a run would start with, and writes nothing."""

import functools
import inspect
import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
from etils import epath

from t5x.checkpoint import restore, state_init
from t5x.checkpoint.settings import with_absolute_path
from t5x.errors import UserError
from t5x.feed.datasets import class_of
from t5x.feed.registered import DatasetConfig
from t5x.logs.metrics_writer import NullWriter
from t5x.logs.progress import announce
from t5x.start import feature_lengths, gin_config
from t5x.training import setup

_STORE = "gs://"
_HOST = ("storage.googleapis.com", 443)
_ANY_LENGTH = 16  # No parameter has a shape that depends on this length.
# What seqio's usual converters make of task features, without importing seqio.
_FEATURES: Mapping[str | None, Mapping[str, Sequence[str]]] = {
    "seqio:EncDecFeatureConverter": {
        "encoder_input_tokens": ("inputs",),
        "decoder_input_tokens": ("targets",),
    },
    "seqio:DecoderFeatureConverter": {"decoder_input_tokens": ("inputs", "targets")},
}


def run(configured: Callable[..., Any], accept_truncation: bool) -> None:
    """Prints the configuration, and checks feature lengths and checkpoint of a program.

    Unreachable things are reported as unchecked: data that is not on this machine, and
    everything on gs:// without a network.

    Raises:
        UserError: the run would stop at startup.
    """
    missing: dict[str, None] = {}
    with_data = True
    arguments: Mapping[str, Any] = {}
    try:
        with_data = _is_reached("feature lengths", gin.config_str())
        arguments = feature_lengths.arguments_of(
            configured, _is_read, with_data, functools.partial(_skipped, missing)
        )
    finally:
        print(gin_config.get_gin_config_str())
    if summarize := arguments.get("summarize_config_fn"):
        with tempfile.TemporaryDirectory() as folder:
            summarize(folder, _Printer(), 0)
    if with_data:
        feature_lengths.check(
            arguments, accept_truncation, functools.partial(_skipped, missing)
        )
    for message in missing:
        announce(f"dry run: not all is checked: {message}")
    parameters = inspect.signature(configured).parameters
    _check_checkpoint(arguments, parameters["train_state_initializer_cls"].default)


def _is_read(name: str) -> bool:
    """Returns whether a dry run needs an argument; others may need devices."""
    return name.endswith(("dataset_cfg", "checkpoint_cfg")) or name in (
        "model",
        "model_dir",
        "summarize_config_fn",
        *feature_lengths.READERS,
        "train_state_initializer_cls",
    )


def _is_reached(what: str, text: str) -> bool:
    """Returns whether gs:// is reachable, if a text names it; else reports `what`."""
    if _STORE not in text:
        return True
    try:
        socket.getaddrinfo(*_HOST)
    except OSError:
        announce(f"dry run: {what} not checked: {_STORE} is out of reach from here.")
        return False
    return True


def _skipped(missing: dict[str, None], error: Exception) -> bool:
    """Records missing data and returns True; returns False for all other errors."""
    message = gin_config.user_message(error)
    if message is None or isinstance(error, UserError | TypeError | RuntimeError):
        return False
    missing[message] = None
    return True


class _Printer(NullWriter):
    """Prints the texts of a run except the configuration, which is already printed."""

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            if name != "config":
                print(text)


def _check_checkpoint(arguments: Mapping[str, Any], default_initializer: Any) -> None:
    """Compares the initial checkpoint of a program with its model, by metadata."""
    model: Any = arguments.get("model")
    settings, paths = _checkpoints(arguments)
    if not paths or not _is_reached("the checkpoint", os.fspath(paths[0])):
        return
    for path in paths:
        restore.check_restorable(path, settings)
    if model is None:
        return
    optimizer = model.optimizer_def if "checkpoint_cfg" in arguments else None
    initializer = arguments.get("train_state_initializer_cls", default_initializer)
    shapes = _input_shapes(model, arguments)
    if not shapes or initializer is not state_init.TrainStateInitializer:
        announce(
            "dry run: the shapes in the checkpoint were not compared with the model."
        )
        return
    state = state_init.train_state_shape(optimizer, model.get_initial_variables, shapes)
    for path in paths:
        restore.check_restorable(path, settings, state)


def _checkpoints(arguments: Mapping[str, Any]) -> tuple[Any, Sequence[str]]:
    """Returns (how to restore, paths) of the checkpoints that a program restores."""
    if cfg := arguments.get("restore_checkpoint_cfg"):
        return state_init.get_first_valid_restore_config_and_paths(
            [with_absolute_path(cfg)]
        )
    cfg = arguments.get("checkpoint_cfg")
    model_dir = arguments.get("model_dir")
    if cfg is None or model_dir is None:
        return None, []
    with tempfile.TemporaryDirectory() as empty:
        begun = (
            _is_reached("the checkpoints of the run", os.fspath(model_dir))
            and epath.Path(model_dir).is_dir()
        )
        found = setup.find_checkpoint(cfg, os.fspath(model_dir) if begun else empty)
    return found.settings, [found.path] if found.path else []


def _input_shapes(
    model: Any, arguments: Mapping[str, Any]
) -> dict[str, tuple[int, int]] | None:
    """Returns model feature -> batch shape; None if only a run can determine it."""
    cfgs = [cfg for cfg in arguments.values() if isinstance(cfg, DatasetConfig)]
    if not cfgs:
        return None
    lengths = cfgs[0].task_feature_lengths
    if not isinstance(lengths, Mapping):
        lengths = dict.fromkeys(("inputs", "targets"), _ANY_LENGTH)
    try:
        converter_cls = class_of(model)
        if parts := _FEATURES.get(getattr(converter_cls, "kind", None)):
            features = {
                name: sum(lengths.get(task_feature, 0) for task_feature in of)
                for name, of in parts.items()
            }
        else:
            converter = converter_cls(pack=cfgs[0].pack)
            features = converter.get_model_feature_lengths(lengths)
    except (AttributeError, ImportError):
        return None  # These models and data do not use seqio.
    return {name: (cfgs[0].batch_size, length) for name, length in features.items()}
