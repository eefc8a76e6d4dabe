"""Initial checkpoints and vocabularies of named models, for gin files of T5X.

    from jaxaug.models import initial

    INITIAL_CHECKPOINT_PATH = @initial.checkpoint()
    initial.checkpoint.name = 'mini'

The checkpoint is made from the published weights on first use, without a previous
`jaxaug convert`.
"""

import jax
import numpy as np
from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.cached import published_file
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue, identities
from jaxaug.models.weights import hf_folder, t5x_layout

VOCABULARY = "spiece.model"


def checkpoint(name: str) -> str:
    """Returns the path of a T5X checkpoint of a named model.

    The checkpoint is float32 and has no optimizer state. Each process writes it
    independently, so all hosts may call this at once.

    Args:
        name: name from `jaxaug models list`; the model must have a folder in the format
            of `transformers`.

    Returns:
        Path of a `checkpoint_0` in the cache folder; its name holds the digest of
        weights and configuration.

    Raises:
        UserError: the model is unknown or cannot be fetched.
    """
    folder = catalogue.fetch(name)
    digest = identities.of_folder(folder)
    parent = epath.Path(cache_folder.cache_dir()) / "checkpoints" / f"{name}-{digest}"
    return str(
        published_file(parent / "checkpoint_0/checkpoint", lambda: _of(folder)).parent
    )


def _of(folder: epath.Path) -> bytes:
    params = hf_folder.load(folder, param_dtype=None).params
    target = jax.tree.map(lambda array: np.asarray(array, np.float32), params)
    return t5x_layout.msgpack(target, step=0)


def vocabulary(name: str) -> str:
    """Returns the path of the SentencePiece model of a named model.

    Raises:
        UserError: the model is unknown, cannot be fetched, or has no SentencePiece
            model.
    """
    path = catalogue.fetch(name) / VOCABULARY
    if not path.exists():
        raise UserError(
            f"{name} has no {VOCABULARY}. Name a T5, or give VOCABULARY a tokenizer."
        )
    return str(path)
