"""Loads a T5X run folder: its configuration and its best or newest checkpoint."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
from etils import epath
from jaxaug_base.files import absolute
from t5x import checkpoints, models

from jaxaug.core.errors import UserError
from jaxaug.feed import run_vocabulary, vocabulary
from jaxaug.models.text import run_config
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import families, keymap, t5x_layout

_TASKS = "tasks.vocabulary"


class RunWords:
    """Replaces the vocabulary functions of a configuration for one run.

    The functions of `tasks.vocabulary` serve the single run of a training program.
    Here, several runs may be loaded, each with its own vocabulary.
    """

    def __init__(self, folder: epath.Path):
        """Takes the folder with `config.gin`; nothing is read yet."""
        self._folder = folder
        self._named = ""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Replacements of functions that the configuration calls."""
        return {
            f"{_TASKS}.default_vocabulary": self.default_vocabulary,
            f"{_TASKS}.FoundVocabulary": self.default_vocabulary,
            f"{_TASKS}.padded_size": self.padded_size,
            "jaxaug.feed.vocabulary.TokenVocabulary": self.token_vocabulary,
            # The copy in the run is used, since the pairs may be missing.
            "jaxaug.feed.pair_words.path_of": lambda **_: "",
        }

    @functools.cached_property
    def words(self) -> vocabulary.TokenVocabulary:
        """Vocabulary of the run."""
        return vocabulary.TokenVocabulary(vocabulary.of_run(self._folder, self._named))

    def default_vocabulary(self, path: str | None = None) -> Any:
        """Replaces `tasks.vocabulary.default_vocabulary`, by the run's vocabulary."""
        if path and hf.is_published(path):
            return hf.load(path, id_offset=1)
        self._named = self._named or path or ""
        return self.words

    def padded_size(self, multiple: int = 128, words: Any = None) -> int:
        """Replaces `tasks.vocabulary.padded_size`, for the run's vocabulary."""
        del words  # The run has one vocabulary.
        return -(-self.words.vocab_size // multiple) * multiple

    def token_vocabulary(self, path: str | None = None) -> vocabulary.TokenVocabulary:
        """Replaces `TokenVocabulary`; returns the run's vocabulary."""
        if path and run_vocabulary.of_run(self._folder) is None:
            return vocabulary.TokenVocabulary(path)
        return self.words


_CONFIG = "config.gin"
_CHECKPOINT = re.compile(r"checkpoint_(\d+)")
_MOST_LAYERS = 1000  # Computing the shapes of more layers takes minutes.
_FIX = "Name the folder of a T5X training run, or one of its checkpoints."
_KINDS = (models.EncoderDecoderModel, models.DecoderOnlyModel)


class Run(NamedTuple):
    """A trained model, its parameters, and the step of their checkpoint."""

    model: models.EncoderDecoderModel | models.DecoderOnlyModel
    params: Mapping[str, Any]
    step: int


def load(folder: epath.PathLike) -> Run:
    """Loads the model of a run, with the parameters of its best or newest checkpoint.

    Args:
        folder: model folder of `t5x.train` with `config.gin` and checkpoints, or one
            `checkpoint_N` in it. For a model folder, the best checkpoint counts, by the
            metric of `SaveBestCheckpointer`. The newest counts if there is no such
            metric, or no checkpoint was evaluated.

    Raises:
        UserError: the configuration is missing, cannot be resolved, or has neither an
            encoder-decoder nor a decoder-only model. No checkpoint is complete, or the
            checkpoint belongs to another model or has numbers that are not finite.
    """
    root, step = _root_and_step(absolute(folder))
    model = _model(root / _CONFIG)
    try:
        params = t5x_layout.read(root, step).params
    except UserError as error:
        raise UserError(f"{error} {_FIX}") from error
    _check_shapes(model, params, root)
    return Run(model, params, step)


def load_writer(folder: epath.PathLike) -> Run:
    """Loads the run of an encoder-decoder, which writes paraphrases; see `load`.

    Raises:
        UserError: the model is not an encoder-decoder; see also `load`.
    """
    run = load(folder)
    if not hasattr(run.model.module, "decode"):
        raise UserError(
            f"{folder}: its MODEL is a {type(run.model).__name__}, which writes no "
            "paraphrases. Name the run of an encoder-decoder."
        )
    return run


def is_decoder_only(folder: epath.PathLike) -> bool:
    """Returns whether the model of a run is decoder-only; reads no checkpoint."""
    return isinstance(_model(config_of(folder)), models.DecoderOnlyModel)


def config_of(folder: epath.PathLike) -> epath.Path:
    """Returns the configuration of a run, or of a checkpoint's run, or `UserError`."""
    path = absolute(folder)
    root = path.parent if _CHECKPOINT.fullmatch(path.name) else path
    if not (root / _CONFIG).exists():
        raise UserError(f"{root / _CONFIG}: no such file. {_FIX}")
    return root / _CONFIG


def chosen(folder: epath.PathLike) -> epath.Path:
    """Returns the checkpoint that `load` reads: the named, best, or newest one.

    Raises:
        UserError: there is no configuration, or no checkpoint is complete.
    """
    root, step = _root_and_step(absolute(folder))
    return epath.Path(checkpoints.get_checkpoint_dir(root, step))


def _root_and_step(path: epath.Path) -> tuple[epath.Path, int]:
    root, match = config_of(path).parent, _CHECKPOINT.fullmatch(path.name)
    if match:
        return root, int(match[1])
    step = _best_step(root) or checkpoints.latest_step(root)
    if step is None:
        raise UserError(f"{root} holds no complete checkpoint. {_FIX}")
    return root, step


def _best_step(root: epath.Path) -> int | None:
    """Returns the best checkpoint according to `SaveBestCheckpointer`, if used."""
    config, judge = root / _CONFIG, "SaveBestCheckpointer"
    metric = run_config.bound(config, judge, "metric_name_to_monitor")
    if not isinstance(metric, str):
        return None
    sign = -1 if run_config.bound(config, judge, "metric_mode") == "min" else 1
    steps = checkpoints.all_steps(root)
    values = checkpoints.populate_metrics_for_steps(root, metric, steps)
    # Of equal checkpoints, the newer one counts, because that one is kept.
    return max(values, key=lambda step: (sign * values[step], step), default=None)


def _check_shapes(model: Any, params: Mapping[str, Any], root: epath.Path) -> None:
    names = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")
    config = getattr(model.module, "config", None)
    for name in ("num_encoder_layers", "num_decoder_layers", "num_layers"):
        layers = getattr(config, name, 0)
        if isinstance(layers, int) and layers > _MOST_LAYERS:
            raise UserError(
                f"{root / _CONFIG}: {name} is {layers}, but must be at most "
                f"{_MOST_LAYERS}. {_FIX}"
            )
    with families.buildable(root / _CONFIG, _FIX):
        expected = jax.eval_shape(
            lambda: model.get_initial_variables(
                jax.random.PRNGKey(0), dict.fromkeys(names, (1, 8))
            )["params"]
        )
    if differs := keymap.shape_difference(params, expected):
        path, found, wanted = differs
        raise UserError(
            f"{root}: the checkpoint has {path} of shape {found}, but the model of its "
            f"{_CONFIG} needs {wanted}. If they differ in the vocabulary, set "
            "$JAXAUG_VOCABULARY or $JAXAUG_DATA_DIR as they were in training."
        )


def _model(path: epath.Path) -> Any:
    try:
        # Only training needs the optimizer, the decode function, rewards, and features.
        model = run_config.build(
            path,
            "MODEL",
            without=("decode_fn", "evaluator", "feature_converter_cls"),
            arguments={"optimizer_def": None},
            replaced=RunWords(path.parent).functions,
        )
    except UserError as error:
        raise UserError(f"{error} {_FIX}") from error
    if not isinstance(model, _KINDS):
        raise UserError(
            f"{path}: MODEL is a {type(model).__name__}, which is neither an "
            f"EncoderDecoderModel nor a DecoderOnlyModel. {_FIX}"
        )
    return model
