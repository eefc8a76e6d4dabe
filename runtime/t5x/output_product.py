"""Protocol by which a network reports the factors of its logits.

If the collection `output_product` is mutable, a network may store the factors of the
returned logits there. A model then computes the loss from the factors in parts, and
never holds the logits of all positions (`t5x.losses`). Networks of other packages
store the same names and need no import:

  hidden: [batch, length, emb], in the dtype of the product and with its scale.
  kernel: [emb, vocab], or `table`: [vocab, emb], in the same dtype.
  offset: number of leading ids without a row, which are forbidden; default 0.
  logits: the returned array. If an outer network changes the logits, it returns
    another array, and the factors are ignored.
"""

from collections.abc import Mapping
from typing import Any

import flax.struct
from flax import linen as nn
from jaxtyping import Array, Float

COLLECTION = "output_product"


class OutputProduct(flax.struct.PyTreeNode):
    """The factors of logits.

    The matrix is [vocab, emb] if `by_row`, else [emb, vocab]. `offset` is the id of its
    first token.
    """

    hidden: Float[Array, "batch length emb"]
    matrix: Float[Array, "..."]
    by_row: bool = flax.struct.field(pytree_node=False, default=False)
    offset: int = flax.struct.field(pytree_node=False, default=0)


def is_wanted(module: nn.Module) -> bool:
    """Returns whether this call requests the factors of the logits."""
    # In `init` every collection is mutable, and the inputs are placeholders.
    return module.is_mutable_collection(COLLECTION) and not module.is_initializing()


def tell(
    module: nn.Module,
    logits: Float[Array, "batch length vocab"],
    hidden: Float[Array, "batch length emb"],
    offset: int = 0,
    **matrix: Float[Array, "..."],
) -> None:
    """Stores the factors of `logits` in the collection; call it only if `is_wanted`.

    The module computes outside of any scan or rematerialization. The matrix is given as
    `kernel` or `table`, see the module docstring.
    """
    told = {"hidden": hidden, "logits": logits, "offset": offset, **matrix}
    for name, value in told.items():
        module.put_variable(COLLECTION, name, value)


def told(variables: Mapping[str, Any], logits: Array) -> OutputProduct | None:
    """Returns the factors of `logits` from the variables of a call, or None."""
    tree = variables.get(COLLECTION, {})
    # The factors are in the scope of the module that computes them.
    while isinstance(tree, Mapping) and tree and "logits" not in tree:
        tree = next(iter(tree.values())) if len(tree) == 1 else {}
    if not tree or tree["logits"] is not logits:
        return None
    by_row = "table" in tree
    return OutputProduct(
        tree["hidden"],
        tree["table" if by_row else "kernel"],
        by_row,
        tree.get("offset", 0),
    )
