"""What training of a named model starts from, for gin files of T5X.

    from jaxaug.models import initial

    INITIAL_CHECKPOINT_PATH = @initial.checkpoint()
    initial.checkpoint.name = 'mini'

The checkpoint is made from the published weights when it is first asked for; nobody has to
run `jaxaug convert` before.
"""

import numpy as np
from etils import epath
from flax import serialization, traverse_util

from jaxaug.core import cache_folder
from jaxaug.core.cached import published_file
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue, identities
from jaxaug.models.weights import hf_folder, keymap

VOCABULARY = "spiece.model"
# As T5X writes it; values without a partition lie in the msgpack file itself.
_VERSION = 3


def checkpoint(name: str) -> str:
    """A T5X checkpoint of a named model, float32, without a state of an optimizer.

    It is written by this process alone, so that all hosts may ask at once.

    Args:
        name: of `jaxaug models list`, of which a folder in the form of `transformers`
            is published.

    Returns:
        Path of a `checkpoint_0` in the cache folder; its name holds the digest of
            weights and configuration.

    Raises:
        UserError: no such model, or it cannot be fetched.
    """
    folder = catalogue.fetch(name)
    digest = identities.of_folder(folder)
    parent = epath.Path(cache_folder.cache_dir()) / "checkpoints" / f"{name}-{digest}"
    return str(
        published_file(parent / "checkpoint_0/checkpoint", lambda: _of(folder)).parent
    )


def _of(folder: epath.Path) -> bytes:
    params = hf_folder.load(folder, param_dtype=None).params
    target = traverse_util.unflatten_dict(
        {
            path: np.asarray(array, np.float32)
            for path, array in keymap.flat(params).items()
        },
        sep="/",
    )
    state = {"step": np.int32(0), "param_states": {}}
    tree = {"version": _VERSION, "optimizer": {"target": target, "state": state}}
    return serialization.msgpack_serialize(tree)


def vocabulary(name: str) -> str:
    """The SentencePiece model of a named model.

    Args:
        name: of `jaxaug models list`.

    Raises:
        UserError: no such model, it cannot be fetched, or it has none.
    """
    path = catalogue.fetch(name) / VOCABULARY
    if not path.exists():
        raise UserError(
            f"{name} has no {VOCABULARY}. Name a T5, or give VOCABULARY a tokenizer."
        )
    return str(path)
