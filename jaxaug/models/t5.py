"""T5 models for training from scratch and for paraphrasing."""

from collections.abc import Callable, Mapping
from typing import Any

import flax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from t5x import models

from jaxaug.core.errors import UserError
from jaxaug.decode.refill import Begun, with_index
from jaxaug.models.layers import MASKED, int8

_HEADS = 3
_LEFT, _RIGHT, _SAME = range(_HEADS)
# Added to the logits at distances of one to four tokens, before the softmax.
_NEAR = (4.0, 3.5, 3.0, 2.0)
_NOT_ITSELF = -8.0
# Scale of queries and keys: the logit of a word with itself is then about 15 above the
# others.
_SCALE = 0.7


def with_reading_heads(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a T5 with three reading heads per encoder layer.

    Head 0 attends to the tokens before its own, head 1 to those after it, and head 2 to
    equal tokens. The queries of head 2 start equal to its keys, and its bias excludes
    the token itself. All layers share the biases, as always in T5.

    Raises:
        UserError: the encoder has fewer than three heads, or scanned layers.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    tables = [p for p in flat if p[0] == "encoder" and p[-1] == "rel_embedding"]
    queries = [p for p in flat if p[0] == "encoder" and p[-2:] == ("query", "kernel")]
    if not tables or any(flat[p].ndim != 2 for p in (*tables, *queries)):
        raise UserError(
            "reading_heads = True needs an encoder with one table of relative "
            "positions and layers that are not scanned. Set it to False for this "
            "network."
        )
    heads = flat[tables[0]].shape[0]
    if heads < _HEADS:
        raise UserError(
            f"reading_heads = True needs {_HEADS} heads, and the network has {heads}. "
            "Give it more (num_heads), or set reading_heads to False."
        )
    for path in tables:
        flat[path] = _biases(flat[path])
    for path in queries:
        key = (*path[:-2], "key", "kernel")
        flat[path], flat[key] = _comparing(flat[path], flat[key], heads)
    return flax.traverse_util.unflatten_dict(flat)


def _biases(table: Float[Array, "heads buckets"]) -> Float[Array, "heads buckets"]:
    """Returns a table with the biases of the reading heads.

    Buckets of T5 count distances to the left from 0, and to the right from the middle.
    """
    near = jnp.asarray(_NEAR, table.dtype)
    right = table.shape[1] // 2
    table = table.at[:_HEADS].set(0.0)
    table = table.at[_LEFT, 1 : 1 + len(_NEAR)].set(near)
    table = table.at[_RIGHT, right + 1 : right + 1 + len(_NEAR)].set(near)
    return table.at[_SAME, 0].set(_NOT_ITSELF)


def _comparing(
    query: Float[Array, "d heads_x_size"],
    key: Float[Array, "d heads_x_size"],
    heads: int,
) -> tuple[Float[Array, "d heads_x_size"], Float[Array, "d heads_x_size"]]:
    size = key.shape[1] // heads
    own = slice(_SAME * size, (_SAME + 1) * size)
    both = _SCALE * key[:, own]
    return query.at[:, own].set(both), key.at[:, own].set(both)


class ScratchEncoderDecoderModel(models.EncoderDecoderModel):
    """An encoder-decoder with widely spread initial relative position biases.

    T5 draws its relative position table with variance 1 / fan_avg. That is small
    relative to the content logits of a pretrained model, but a new model starts without
    any notion of order. In a few thousand steps, such a model never learns to look at
    the token before an index. With a table drawn with standard deviation
    `relpos_stddev`, the same model binds each index to its description. `reading_heads`
    initializes three heads of the encoder for schemas. Only fresh parameters change,
    not restored checkpoints.
    """

    ignores_padding = True  # Like the base class, if the module ignores it.

    def __init__(
        self, *args, relpos_stddev: float = 1.0, reading_heads: bool = False, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self._relpos_stddev = relpos_stddev
        self._reading_heads = reading_heads

    def get_initial_variables(
        self,
        rng: Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, jax.typing.DTypeLike] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns the base class's variables, with every `rel_embedding` redrawn."""
        variables = super().get_initial_variables(rng, input_shapes, input_types)
        flat = flax.traverse_util.flatten_dict(flax.core.unfreeze(variables))
        for index, path in enumerate(sorted(flat, key="/".join)):
            if path[0] == "params" and path[-1] == "rel_embedding":
                key = jax.random.fold_in(rng, index)
                noise = jax.random.normal(key, flat[path].shape, flat[path].dtype)
                flat[path] = self._relpos_stddev * noise
        found = flax.traverse_util.unflatten_dict(flat)
        if self._reading_heads:
            found["params"] = with_reading_heads(found["params"])
        return flax.core.freeze(found)


class SourceEncoderDecoderModel(models.EncoderDecoderModel):
    """An encoder-decoder that passes the source text to its decode function.

    A decode function of T5X sees neither the encoder's inputs nor the parameters. DiPS,
    DPP, and SSR compare candidates with the source; sampling derives its random keys
    from it. All decode functions of `jaxaug.decode` take the two arguments; the decode
    functions of T5X do not.
    """

    ignores_padding = True  # Like the base class, if the module ignores it.

    def __init__(
        self,
        *args,
        max_length: int = 0,
        source_prompt: str = "",
        writes_unknown: bool = True,
        end_together: Callable[[Array], Array] | None = None,
        **kwargs,
    ):
        """Adds options to the base class.

        Args:
            max_length: width in tokens of the sequences that `begin` starts.
            source_prompt: beginning of the task's inputs, such as "paraphrase:", which
                is not compared with candidates.
            writes_unknown: whether decoding may choose the unknown word of the output
                vocabulary, which has no text.
            end_together: maps the logits of a step to logits in which all ending tokens
                are merged; None if only the EOS of the vocabulary ends an output.
        """
        super().__init__(*args, **kwargs)
        self._max_length = max_length
        self._source_prompt = source_prompt
        self._writes_unknown = writes_unknown
        self._end_together = end_together

    def _compute_logits_from_slice(self, *args, **kwargs):
        """Returns logits and cache of a step, without unknown and with ends merged."""
        logits, cache = super()._compute_logits_from_slice(*args, **kwargs)
        unknown = getattr(self.output_vocabulary, "unk_id", None)
        if not self._writes_unknown and unknown is not None:
            logits = logits.at[:, unknown].set(MASKED)
        if self._end_together is not None:
            logits = self._end_together(logits)
        return logits, cache

    def _sources(
        self, inputs: Int[Array, "batch length"]
    ) -> Int[Array, "batch length"]:
        """Returns the inputs, without the prompt if they begin with it."""
        if not self._source_prompt:
            return inputs
        prompt = jnp.array(self.input_vocabulary.encode(self._source_prompt))
        size = min(prompt.size, inputs.shape[1])
        begins = jnp.all(inputs[:, :size] == prompt[:size], axis=1, keepdims=True)
        rest = jnp.pad(inputs[:, size:], ((0, 0), (0, size)))
        return jnp.where(begins, rest, inputs)

    def predict_batch_with_aux(
        self,
        params: Mapping[str, Any],
        batch: Mapping[str, Array],
        rng: Array | None = None,
        decoder_params: Mapping[str, Any] | None = None,
        return_all_decodes: bool | None = None,
        num_decodes: int | None = None,
        prompt_with_targets: bool = False,
    ) -> tuple[Int[Array, "batch *num_decodes length"], Mapping[str, Array]]:
        """Predicts as the base class, with additional entries in `decoder_params`.

        `source` is `encoder_input_tokens` [batch, source_length], and `embeddings` is
        the table of token embeddings [vocab, d], unless `decoder_params` has them.
        """
        # For some published vocabularies, ids exceed the rows of the table by an
        # offset.
        offset = getattr(getattr(self.module, "config", None), "id_offset", 0)
        table = int8.table(params["token_embedder"])
        arguments = {
            "source": self._sources(batch["encoder_input_tokens"]),
            "embeddings": jnp.pad(table, ((offset, 0), (0, 0))),
            **(decoder_params or {}),
        }
        return super().predict_batch_with_aux(
            params=params,
            batch=batch,
            rng=rng,
            decoder_params=arguments,
            return_all_decodes=return_all_decodes,
            num_decodes=num_decodes,
            prompt_with_targets=prompt_with_targets,
        )

    def begin(self, params: Any, sources: Int[Array, "rows length"]) -> Begun:
        """See `Begun`; there is no prompt, but each row has its own position."""
        module: Any = self.module
        encoded = module.apply(
            {"params": params}, sources, enable_dropout=False, method=module.encode
        )
        rows = sources.shape[0]
        tokens = jnp.zeros((rows, self._max_length), jnp.int32)
        cache, _ = self._compute_kv_cache(
            params,
            encoded_inputs=encoded,
            encoder_input_tokens=sources,
            decoder_input_tokens=tokens,
        )
        start = jnp.zeros((rows,), jnp.int32)
        return Begun(tokens, with_index(cache, start), start, (encoded, sources))

    def step(
        self, params: Any, memory: tuple[Array, Array], state: Any
    ) -> tuple[Float[Array, "rows vocab"], Any]:
        """Returns the logits of the next token and the cache of a `DecodingState`."""
        encoded, sources = memory
        return self._compute_logits_from_slice(
            state, params, encoded, sources, max_decode_length=state.sequences.shape[1]
        )
