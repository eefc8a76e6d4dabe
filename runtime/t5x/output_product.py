"""How a network says what its logits are the product of.

A network may put, into the collection `output_product` where that is mutable, the
factors of the logits that it returns. A model then computes the loss from the factors, a
part at a time, and never holds the logits of all positions (`t5x.chunked_loss`). Networks
of other packages put the same names there and need no import:

  hidden: [batch, length, emb], in the dtype of the product and with its scale.
  kernel: [emb, vocab], or `table`: [vocab, emb], in the same dtype.
  offset: number of ids without a row, which come first and are forbidden; default 0.
  logits: what is returned. A network around this one that changes the logits afterwards
    returns another array, and so the factors do not count.
"""

from collections.abc import Mapping
from typing import Any

import flax.struct
from flax import linen as nn
from jaxtyping import Array, Float

COLLECTION = "output_product"


class OutputProduct(flax.struct.PyTreeNode):
    """The factors of logits.

    Attributes:
        hidden: activations of every position.
        matrix: [vocab, emb] if `by_row`, else [emb, vocab].
        by_row: whether the matrix has a row for each token.
        offset: id of the first token of the matrix.
    """

    hidden: Float[Array, "batch length emb"]
    matrix: Float[Array, "..."]
    by_row: bool = flax.struct.field(pytree_node=False, default=False)
    offset: int = flax.struct.field(pytree_node=False, default=0)


def is_wanted(module: nn.Module) -> bool:
    """Whether the factors of the logits are asked for in this call."""
    # In `init` every collection is mutable, and the inputs are placeholders.
    return module.is_mutable_collection(COLLECTION) and not module.is_initializing()


def tell(
    module: nn.Module,
    logits: Float[Array, "batch length vocab"],
    hidden: Float[Array, "batch length emb"],
    **matrix: Float[Array, "..."],
) -> None:
    """Puts the factors of `logits` into the collection; call it where `is_wanted`.

    Args:
        module: the module that computes, outside of any scan or rematerialisation.
        logits: their product.
        hidden: left factor.
        **matrix: the right one, as `kernel` or as `table`.
    """
    told = {"hidden": hidden, "logits": logits, **matrix}
    for name, value in told.items():
        module.put_variable(COLLECTION, name, value)


def told(variables: Mapping[str, Any], logits: Array) -> OutputProduct | None:
    """The factors of `logits` in the variables of a call, or None if there are none."""
    tree = variables.get(COLLECTION, {})
    # The scope is that of the module which computes them, somewhere in the network.
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
