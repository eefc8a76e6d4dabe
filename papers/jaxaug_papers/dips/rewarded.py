"""RbM: a generator that is rewarded by a learned evaluator (Li et al., 2018).

A generator that was trained on pairs goes on by policy gradient (REINFORCE; Williams,
1992): texts are drawn from it, the evaluator of `jaxaug_papers.dips.matching` says how likely
each is a paraphrase of its source, and texts become more probable if that is above the
mean of the other texts of the same source, the baseline.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from clu import metrics as clu_metrics
from etils import epath
from jax import lax
from jaxtyping import Array, Float, Int

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.paths import absolute
from jaxaug.models.layers import MASKED
from jaxaug.models.text import checkpoint
from jaxaug_papers.dips.free_running import FreeRunningModel
from jaxaug_papers.dips.matching import MatchingModel


class Evaluator(NamedTuple):
    """What rewards texts.

    Attributes:
        model: of the run that trained it.
        params: of its module; they do not change.
        vocabulary: path of the vocabulary; empty if that is not to be compared.
    """

    model: MatchingModel
    params: Mapping[str, Any]
    vocabulary: str = ""


def evaluator(folder: PathLike) -> Evaluator:
    """Returns the evaluator of a run of `configs/paraphrase_evaluator.gin`.

    Raises:
        UserError: there is no such run, or it trained something else.
    """
    run = checkpoint.load(epath.Path(folder))
    if not isinstance(run.model, MatchingModel):
        raise UserError(
            f"{folder}: its MODEL is a {type(run.model).__name__}, no evaluator. Name "
            "a run of configs/paraphrase_evaluator.gin."
        )
    return Evaluator(run.model, run.params, run.model.input_vocabulary.path)


def generator(folder: PathLike) -> str:
    """Returns the best checkpoint of a run, or its newest, for `RestoreCheckpointConfig.path`.

    Raises:
        UserError: there is none.
    """
    return str(checkpoint.chosen(absolute(folder)))


class RewardedModel(FreeRunningModel):
    """Trains an encoder-decoder on rewards, and on the targets by a smaller weight.

    Evaluation, scores and predictions are those of the base class. The metrics of training
    also have `reward`, the mean over the texts that were drawn.
    """

    def __init__(
        self,
        *args: Any,
        evaluator: Evaluator | None = None,
        samples: int = 4,
        likelihood_weight: float = 0.1,
        **kwargs: Any,
    ):
        """As the base class.

        Args:
            evaluator: gives the rewards; training needs it.
            samples: texts that are drawn of each source.
            likelihood_weight: of the loss of the base class, beside the policy's, which
                is a mean over texts.

        Raises:
            UserError: a setting without sense, or the evaluator has another vocabulary.
        """
        super().__init__(*args, **kwargs)
        if samples < 2:
            raise UserError(
                f"RewardedModel.samples = {samples}: give 2 or more, since the "
                "baseline of a text is the mean of the others."
            )
        if likelihood_weight < 0:
            raise UserError(
                f"RewardedModel.likelihood_weight = {likelihood_weight}: give 0 or "
                "more."
            )
        self._evaluator, self._samples = evaluator, samples
        self._likelihood_weight = likelihood_weight
        if evaluator is not None and evaluator.vocabulary:
            own = self.input_vocabulary.file
            if file_digest(own) != file_digest(evaluator.vocabulary):
                raise UserError(
                    "the evaluator was trained with the vocabulary "
                    f"{evaluator.vocabulary}, the generator has {own}, which is "
                    "another one. Train both on the same TASK with the same "
                    "VOCABULARY_SIZE."
                )

    def loss_fn(
        self,
        params: Any,
        batch: Mapping[str, Array],
        dropout_rng: Array | None,
    ) -> Any:
        """Returns the loss and metrics; without a key those of the base class."""
        if dropout_rng is None:
            return super().loss_fn(params, batch, None)
        rng, draw_rng = jax.random.split(dropout_rng)
        likelihood, metrics = super().loss_fn(params, batch, rng)
        sources = jnp.repeat(batch["encoder_input_tokens"], self._samples, axis=0)
        length = batch["decoder_target_tokens"].shape[1]
        texts = lax.stop_gradient(self.draw(params, sources, length, draw_rng))
        reward = self.reward(sources, texts)
        policy = -jnp.mean(
            self._advantage(reward) * self._log_prob(params, sources, texts)
        )
        metrics = {
            **metrics,
            "reward": clu_metrics.Average(
                total=jnp.sum(reward), count=jnp.asarray(reward.size)
            ),
        }
        return policy + self._likelihood_weight * likelihood, metrics

    def reward(
        self, sources: Int[Array, "rows source"], texts: Int[Array, "rows length"]
    ) -> Float[Array, " rows"]:
        """Returns the probability that each text is a paraphrase of its source, by the evaluator.

        Raises:
            UserError: the model has no evaluator.
        """
        if self._evaluator is None:
            raise UserError(
                "RewardedModel.evaluator is None: training needs one, such as "
                "@rewarded.evaluator() with a folder."
            )
        model, params, _ = self._evaluator
        return jax.nn.sigmoid(model.match(params, sources, texts))

    def _advantage(self, reward: Float[Array, " rows"]) -> Float[Array, " rows"]:
        """Returns the rewards less the mean reward of the other texts of the same source."""
        each = reward.reshape(-1, self._samples)
        others = (jnp.sum(each, axis=1, keepdims=True) - each) / (self._samples - 1)
        return lax.stop_gradient((each - others).reshape(-1))

    def _log_prob(
        self,
        params: Any,
        sources: Int[Array, "rows source"],
        texts: Int[Array, "rows length"],
    ) -> Float[Array, " rows"]:
        """Of the words of each text, its end included."""
        told = {
            "encoder_input_tokens": sources,
            "decoder_input_tokens": jnp.pad(texts, ((0, 0), (1, 0)))[:, :-1],
            "decoder_target_tokens": texts,
        }
        logits = self._compute_logits(params, told, None).at[..., 0].set(MASKED)
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(logits), texts[..., None], axis=-1
        )[..., 0]
        return jnp.sum(chosen * (texts > 0), axis=1)

    def draw(
        self, params: Any, sources: Int[Array, "rows source"], length: int, rng: Array
    ) -> Int[Array, "rows length"]:
        """Returns a text of each source, word by word, without dropout; 0 after its end.

        Padding is never drawn, since it has no text.
        """
        eos_id = self.output_vocabulary.eos_id

        def choose(index: Array, logits: Array, ended: Array) -> Any:
            logits = logits.at[:, 0].set(MASKED)
            drawn = jax.random.categorical(jax.random.fold_in(rng, index), logits)
            token = jnp.where(ended, 0, drawn).astype(jnp.int32)
            return token, ended | (token == eos_id), token

        ended = jnp.zeros((sources.shape[0],), jnp.bool_)
        return self._word_by_word(params, sources, length, choose, ended)
