"""Tokens that end an output: a published model may have several.

Decode functions see them as one token, EOS, whose probability is their sum.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import Array, Float

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json, shown
from jaxaug.models.weights import hf_folder, hf_generation

# Finite as in the decode functions, so that sums stay finite.
_REMOVED = -1.0e7


def listed(folder: epath.Path, vocab_size: int, id_offset: int) -> tuple[int, ...]:
    """Returns ids at which `generate` of transformers ends a model's output.

    They are the `eos_token_id` of generation_config.json, a number or a list. If that
    file is missing or names none, config.json counts. -1 means no id.

    Args:
        folder: folder of the model.
        vocab_size: number of published ids.
        id_offset: difference between our ids and the published ones.

    Returns:
        Our ids, in the order of the file.

    Raises:
        UserError: a value is not an id of the model.
    """
    for path in (folder / hf_generation.FILE, folder / hf_folder.CONFIG):
        config = read_json(path, hf_folder.FIX) if path.exists() else {}
        value = config.get("eos_token_id") if isinstance(config, dict) else None
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        for number in ids:
            if type(number) is not int or not -1 <= number < vocab_size:
                raise UserError(
                    f"{path}: eos_token_id is {shown(value)}, but the model has ids "
                    f"from 0 to {vocab_size - 1}. Take the files of one model."
                )
        return tuple(number + id_offset for number in ids if number >= 0)
    return ()


def together(
    logits: Float[Array, "*rows vocab"], ends: Iterable[int], eos_id: int
) -> Float[Array, "*rows vocab"]:
    """Returns logits in which all ending tokens are merged into EOS.

    Args:
        logits: logits of the next token.
        ends: ids that end an output; EOS always does.
        eos_id: id that gets the probability of all ends; the others become impossible.
    """
    every = {*map(int, ends), eos_id}
    if len(every) == 1:
        return logits
    is_end = np.isin(np.arange(logits.shape[-1]), list(every))
    total = jax.nn.logsumexp(jnp.where(is_end, logits, -jnp.inf), axis=-1)
    return jnp.where(is_end, _REMOVED, logits).at[..., eos_id].set(total)
